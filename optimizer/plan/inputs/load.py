"""[load] of plan.toml: the load over a day, and its growth by the month."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, model_validator

from core.config_file import Positive, Strict, refusal

_MEAN_OFF = 0.02  # tolerance of the mean of the shares, which people round


class Load(Strict):
    """The future of arrival_per_s, the mean over a day or a week.

    `day` or `week` is each hour's load over that mean. The fleet is planned for the highest hour,
    `months` from now. `spread` is the standard error of arrival_per_s as a share of it, for plans
    with a confidence.
    """

    peak: Positive | None = None
    day: Annotated[list[Positive], Field(min_length=24, max_length=24)] | None = None
    week: Annotated[list[Positive], Field(min_length=168, max_length=168)] | None = None
    growth_per_month: Annotated[float, Field(gt=-0.5, le=1)] = 0.0
    months: Annotated[int, Field(ge=0, le=120)] = 0
    spread: Annotated[float, Field(ge=0, le=1)] | None = None

    @model_validator(mode="after")
    def _is_one_story(self) -> Load:
        if sum(peaks is not None for peaks in (self.peak, self.day, self.week)) > 1:
            raise refusal("one of peak, day and week: the peak is the highest hour", got="more")
        if self.peak is not None and self.peak < 1:
            raise refusal("at least 1: the peak is over the mean", got=f"{self.peak:g}", key="peak")
        shares = self.hours or [1.0]
        mean = math.fsum(shares) / len(shares)
        if abs(mean - 1.0) > _MEAN_OFF:
            raise refusal(
                f"{len(shares)} shares with a mean of 1: arrival_per_s is the mean over them",
                got=f"a mean of {mean:g}",
                key="day" if self.day else "week",
                hint="Divide each by that.",
            )
        if self.months and not self.growth_per_month:
            raise refusal("it beside growth_per_month", got="none", key="months")
        return self

    @property
    def hours(self) -> list[float]:
        """The hours of the day or the week; none where neither is stated."""
        return self.day or self.week or []

    @property
    def highest(self) -> float:
        return self.peak or max(self.hours or [1.0])

    @property
    def factor(self) -> float:
        """The planned load, over today's mean."""
        grown = (1.0 + self.growth_per_month) ** self.months
        return self.highest * max(1.0, grown)  # a falling load is at its highest today

    def months_until(self, factor: float) -> float | None:
        """Return the months until the highest hour is `factor` times today's mean.

        None if the load does not grow to it.
        """
        if self.growth_per_month <= 0:
            return None
        return math.log(factor / self.highest) / math.log1p(self.growth_per_month)
