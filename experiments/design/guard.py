"""`[guard]`: the limit of simultaneous disturbances, and the conditions that end a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from core.config_file import Strict, refusal


class Guard(Strict):
    """Conditions that end a run. Error share and p99 are of all requests in the last `window_s`
    seconds, the warm-up's included."""

    machines_per_tier_max: Annotated[int, Field(ge=1)] | None = None
    """Largest number of machines of a tier under faults and neighbours at once."""
    error_share_max: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Share of failed requests that ends the run."""
    p99_ms_max: Annotated[float, Field(gt=0)] | None = None
    """p99 that ends the run [ms]; a failed request counts with its time-out."""
    down_s_max: Annotated[float, Field(ge=1, le=3600)] | None = None
    """Time for which an undisturbed machine may be not ready before the run ends [s]."""
    window_s: Annotated[float, Field(ge=1, le=600)] = 15.0
    """Window of error share and p99 [s]."""
    requests_min: Annotated[int, Field(ge=1)] = 20
    """Requests in the window below which neither ends the run."""
    unguarded: Annotated[str, Field(min_length=1)] | None = None
    """Reason for having no guard."""

    @model_validator(mode="after")
    def _check_guard(self) -> Guard:
        if self.unguarded is not None and self.ends_runs:
            raise refusal(
                "no reason why nothing ends the run beside a key that ends it",
                got=repr(self.unguarded),
                key="unguarded",
            )
        return self

    @property
    def ends_runs(self) -> bool:
        """True if anything that is measured ends the run."""
        return self.looks_at_requests or self.down_s_max is not None

    @property
    def looks_at_requests(self) -> bool:
        """True if answers can end the run."""
        return self.error_share_max is not None or self.p99_ms_max is not None
