"""`[slo]` of experiment.toml: the limits of a service, of its operations and of its sessions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from core.config_file import Strict, refusal


class OperationSlo(Strict):
    """Limits of one operation, or one kind of session; at least one. A session's latency includes
    its think times."""

    p95_ms: Annotated[float, Field(gt=0)] | None = None
    """Limit of the 95th percentile."""
    p99_ms: Annotated[float, Field(gt=0)] | None = None
    """Limit of the 99th percentile."""
    max_error_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of its requests that may fail."""

    @model_validator(mode="after")
    def _check_limits(self) -> OperationSlo:
        if (self.p95_ms, self.p99_ms, self.max_error_share) == (None, None, None):
            raise refusal("p95_ms, p99_ms or max_error_share", got="none")
        _check_order(self.p95_ms, self.p99_ms)
        return self


def _check_order(p95_ms: float | None, p99_ms: float | None) -> None:
    if p95_ms is not None and p99_ms is not None and p99_ms < p95_ms:
        raise refusal(
            f"at least p95_ms ({p95_ms:g}): a p99 is never below the p95",
            got=f"{p99_ms:g}",
            key="p99_ms",
        )


class Slo(Strict):
    """The service-level objective."""

    availability: Annotated[float, Field(gt=0, lt=1)]
    """Share of a year in which enough nodes are up."""
    p95_ms: Annotated[float, Field(gt=0)]
    """Limit of the 95th percentile."""
    p99_ms: Annotated[float, Field(gt=0)] | None = None
    """Limit of the 99th percentile; a short run cannot decide it."""
    max_error_share: Annotated[float, Field(ge=0, le=1)]
    """Share of requests that may fail; a comparison with more in any arm is not valid."""
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Probability with which the plan must keep the whole SLO."""
    preregistered: bool | None = None
    """True: the limits were chosen before the first run."""
    operations: dict[str, OperationSlo] = Field(default_factory=dict)
    """Limits of single operations, by name. A plan does not take them into account."""
    sessions: dict[str, OperationSlo] = Field(default_factory=dict)
    """Limits of whole sessions, by name; likewise."""

    @model_validator(mode="after")
    def _check_percentiles(self) -> Slo:
        _check_order(self.p95_ms, self.p99_ms)
        return self
