r"""Variants of a tier, and their wrong answers: PCRAFT Fig. 2 in a plan.

Of the answers of a node under f faults per 30 d, in the long run this share is wrong:

    c = x / (1 + x),   x = f p_corrupt T_sdc     (Corrupt over Correct, for any crash rate)

A page asks tier t k_t times (copies do not add: one answer is used), so it is right with at least

    prod_t (1 - c_t)^{k_t}

for any answering nodes. More nodes change nothing, because all corrupt data alike. So the limits of
integrity are limits on the variants alone, and crashes by faults (f p_crash) are added to a node's
own.

A counted figure is taken at its upper bound (Clopper, Pearson 1934; Garwood 1936 for the rate), at
the level confidence^(1/m) of m counted figures, which are independent. With few injections the
bound is high, so a variant with too little evidence does not pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.units import FAULT_MONTH_S, YEAR_S
from optimizer.plan.inputs.integrity import IntegritySlo
from optimizer.plan.inputs.margin import level_of
from optimizer.plan.solve.options import TierDemand

MILLION = 1e6
LIMITS = ("wrong_per_million", "corrupt_s_per_month")


@dataclass(frozen=True)
class Bounds:
    """A figure and the ends of its interval; all are equal if it is certain."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Figure:
    """A share of `of` injections or a rate over `of` node-months; `of` None: stated, certain."""

    value: float
    hits: int = 0
    of: float | None = None
    is_share: bool = True

    @property
    def counted(self) -> bool:
        return self.of is not None

    def bounds(self, level: float) -> Bounds:
        """Return the value with one-sided bounds at `level` each."""
        if self.of is None:
            return Bounds(self.value, self.value, self.value)
        from scipy.special import betaincinv, gammaincinv

        k, n = self.hits, self.of
        if not self.is_share:
            low = float(gammaincinv(k, 1.0 - level)) / n if k else 0.0
            return Bounds(k / n, low, float(gammaincinv(k + 1, level)) / n)
        low = float(betaincinv(k, n - k + 1, 1.0 - level)) if k else 0.0
        high = float(betaincinv(k + 1, n - k, level)) if k < n else 1.0
        return Bounds(k / n, low, high)


@dataclass(frozen=True)
class Variant:
    """One way to build a tier: throughput over native's, what faults do; `remark` for people."""

    name: str
    nodt: float
    corrupt: Figure
    crash: Figure
    remark: str


@dataclass(frozen=True)
class Weighed:
    """The effect of a choice of variants on users."""

    wrong_per_million: Bounds
    corrupt_s_per_month: Bounds  # of a node of the worst tier

    def broken(self, slo: IntegritySlo) -> list[str]:
        """Return the limits that are not kept at the upper bounds."""
        return [key for key in LIMITS if self.share_of(slo, key) > 1.0]

    def share_of(self, slo: IntegritySlo, key: str) -> float:
        """Return the ratio of the upper bound to the limit; 0 without a limit."""
        limit: float | None = getattr(slo, key)
        bounds: Bounds = getattr(self, key)
        return 0.0 if limit is None else bounds.high / limit

    def worst(self, slo: IntegritySlo) -> float:
        """Return the largest of these shares."""
        return max(self.share_of(slo, key) for key in LIMITS)


Mix = tuple[Variant, ...]  # a variant per tier, front first


def visits_of(tiers: Sequence[TierDemand]) -> list[float]:
    """Return the requests of a page to each tier."""
    return list(itertools.accumulate((t.latency.visits for t in tiers), lambda a, b: a * b))


@dataclass(frozen=True)
class Hardening:
    """The request of `[slo.integrity]`, the faults, and the variants that each tier may have."""

    slo: IntegritySlo
    faults: Figure  # per node and 30 d
    sdc_s: float
    offered: tuple[tuple[Variant, ...], ...]
    remarks: tuple[str, ...] = ()

    @property
    def level(self) -> float:
        """The level of each counted figure. A tier counts once per kind of figure."""
        counted = int(self.faults.counted)
        for tier in self.offered:
            counted += any(v.corrupt.counted for v in tier) + any(v.crash.counted for v in tier)
        level = level_of(self.slo.confidence, counted)
        assert level is not None
        return level

    def corrupt_share(self, variant: Variant) -> Bounds:
        """Return the share of a node's answers that are wrong."""
        faults, corrupt = self.faults.bounds(self.level), variant.corrupt.bounds(self.level)

        def share(f: float, p: float) -> float:
            x = f * p * self.sdc_s / FAULT_MONTH_S
            return x / (1.0 + x)

        return Bounds(
            share(faults.middle, corrupt.middle),
            share(faults.low, corrupt.low),
            share(faults.high, corrupt.high),
        )

    def crashes_per_year(self, variant: Variant) -> float:
        """Return the crashes of a node by transient faults, at the upper bounds [1/year]."""
        faults, crash = self.faults.bounds(self.level), variant.crash.bounds(self.level)
        return faults.high * crash.high * YEAR_S / FAULT_MONTH_S

    def weigh(self, mix: Mix, tiers: Sequence[TierDemand]) -> Weighed:
        """Return the effect of these variants on users."""
        shares = [self.corrupt_share(variant) for variant in mix]
        visits = visits_of(tiers)

        def wrong(end: str) -> float:
            logs = (k * math.log1p(-getattr(c, end)) for k, c in zip(visits, shares, strict=True))
            return MILLION * abs(math.expm1(math.fsum(logs)))

        def corrupt_s(end: str) -> float:
            worst: float = max(getattr(c, end) for c in shares)
            return FAULT_MONTH_S * worst

        ends = ("middle", "low", "high")
        return Weighed(Bounds(*map(wrong, ends)), Bounds(*map(corrupt_s, ends)))

    def build(self, mix: Mix, tiers: Sequence[TierDemand]) -> tuple[TierDemand, ...]:
        """Return the tiers with these variants: slower nodes, and other crash rates by faults."""
        return tuple(
            replace(
                tier,
                variant=variant.name,
                crash_more_per_year=self.crashes_per_year(variant),
                latency=replace(
                    tier.latency, processing_s=tier.latency.processing_s / variant.nodt
                ),
            )
            for tier, variant in zip(tiers, mix, strict=True)
        )

    def injections_needed(self, variant: Variant, corrupt_p: float) -> int | None:
        """Return the injections without corruption that would bound it at `corrupt_p`.

        None if the variant already corrupted more often than that.
        """
        if not variant.corrupt.counted or variant.corrupt.value > corrupt_p or corrupt_p >= 1:
            return None
        return math.ceil(math.log(1.0 - self.level) / math.log1p(-corrupt_p))
