"""`[guard]`: the limit of simultaneous disturbances, and the conditions that end a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from core.config_file import Strict, refusal


class Guard(Strict):
    """Without a key nothing is guarded by it. Error share and p99 are those of the last `window_s`
    seconds, of all requests, the warm-up's too."""

    machines_per_tier_max: Annotated[int, Field(ge=1)] | None = None
    """So many machines of a tier are disturbed at once, by faults and neighbours, and no more."""
    error_share_max: Annotated[float, Field(ge=0, lt=1)] | None = None
    """A larger share of failed requests ends the run."""
    p99_ms_max: Annotated[float, Field(gt=0)] | None = None
    """A longer p99 ends the run [ms]; a failed request is in it at the time-out."""
    down_s_max: Annotated[float, Field(ge=1, le=3600)] | None = None
    """A machine that nobody disturbs and that is not ready for longer ends the run [s]."""
    window_s: Annotated[float, Field(ge=1, le=600)] = 15.0
    """Seconds that error share and p99 are taken of [s]."""
    requests_min: Annotated[int, Field(ge=1)] = 20
    """With fewer requests in the window neither ends the run."""
    unguarded: Annotated[str, Field(min_length=1)] | None = None
    """Why nothing that is measured ends the run, where no key does."""

    @model_validator(mode="after")
    def _guards_or_says_why_not(self) -> Guard:
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
