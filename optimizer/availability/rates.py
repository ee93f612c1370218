"""Rates of failure and recovery: PCRAFT's three figures, and extensions of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.errors import (
    InputError,
    require_count,
    require_crashes,
    require_limps,
    require_share,
    require_time,
)
from core.tolerances import U_FLOOR
from core.units import YEAR_S

HORIZON_S = YEAR_S


@dataclass(frozen=True)
class FailureRates:
    """Failures and recoveries of a tier's nodes; the defaults are PCRAFT's model.

    crash_per_year       crashes per node [1/year of 365 d] > 0
    failover_s           mean time to replace a crashed node [s] > 0, one at a time
    repair_s             mean time to repair a node [s] > 0; None: never
    repair_crew          repairs at the same time >= 1 (PCRAFT: 1)
    standby_fraction     crash rate of a waiting node over an active one's: 0 cold, 1 hot
    common_cause         beta in [0, 1): share of a node's crash rate that comes from common shocks
    common_cause_nodes   active nodes that one shock takes down, at random; None: all of them
    limp_per_year        times per node and year that it starts to limp >= 0
    limp_recovery_s      mean time that it limps [s] > 0
    limp_capacity        share of a node's capacity that a limping one has, in [0, 1]
    """

    crash_per_year: float = 1.0
    failover_s: float = 15.0
    repair_s: float | None = None
    repair_crew: int = 1
    standby_fraction: float = 0.0
    common_cause: float = 0.0
    common_cause_nodes: int | None = None
    limp_per_year: float = 0.0
    limp_recovery_s: float | None = None
    limp_capacity: float = 0.0

    def __post_init__(self) -> None:
        require_crashes("crash_per_year", self.crash_per_year)
        require_time("failover_s", self.failover_s)
        if self.repair_s is not None:
            require_time("repair_s", self.repair_s)
        require_count("repair_crew", self.repair_crew, least=1)
        require_share("standby_fraction", self.standby_fraction)
        require_share("common_cause", self.common_cause, one=False)
        if self.common_cause_nodes is not None:
            require_count("common_cause_nodes", self.common_cause_nodes, least=2)
        require_share("limp_capacity", self.limp_capacity)
        if self.limp_per_year != 0.0:
            require_limps("limp_per_year", self.limp_per_year)
            if self.limp_recovery_s is None:
                raise InputError(
                    "limp_recovery_s",
                    expected="how long a node limps [s], since limp_per_year is given",
                    got="nothing",
                )
        if self.limp_recovery_s is not None:
            require_time("limp_recovery_s", self.limp_recovery_s)

    @property
    def limps(self) -> bool:
        """True if nodes limp and lose capacity by it."""
        return self.limp_per_year > 0 and self.limp_capacity < 1

    @property
    def plain(self) -> bool:
        """True if this is PCRAFT's model: independent crashes, cold standby, no limping."""
        return not (self.common_cause or self.limps or self.standby_fraction)


@dataclass(frozen=True)
class Availability:
    """Expected share of the horizon without enough nodes [-], and the bound of its error."""

    unavailability: float
    error_bound: float
    states: int

    @property
    def availability(self) -> float:
        return 1.0 - self.unavailability

    @property
    def unavailability_most(self) -> float:
        """The upper bound of the unavailability [-]: with the error bound, and at least `U_FLOOR`.
        A target is kept if this figure keeps it."""
        return min(1.0, max(self.unavailability + self.error_bound, U_FLOOR))

    def keeps(self, target: float) -> bool:
        """Return True if the availability is at least `target` [-] for any error in the bound."""
        return self.unavailability_most <= 1.0 - target

    def misses(self, target: float) -> bool:
        """Return True if it is below `target` [-] for any error in the bound."""
        return self.unavailability - self.error_bound > 1.0 - target


def require_target(place: str, target: float) -> float:
    """Return `target` [-] if the models can show such an availability, else raise InputError."""
    require_share(place, target, one=False)
    if 1.0 - target < U_FLOOR:
        raise InputError(
            place,
            expected=f"at most 1 - {U_FLOOR:g}: nearer to one the models tell nothing apart",
            got=repr(target),
            hint="Nobody can show that a fleet keeps it.",
        )
    return target


def availability_text(unavailability: float, digits: int = 3) -> str:
    """Return the availability with up to so many digits of its rest to one, never rounded up."""
    lost = max(unavailability, U_FLOOR)
    decimals = digits - 1 - math.floor(math.log10(lost))
    value = math.floor((1.0 - lost) * 10**decimals * (1 + 1e-15)) / 10**decimals
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".")


def distinct_texts(first: float, second: float) -> tuple[str, str]:
    """Return both as `availability_text`, with enough digits to see which is more."""
    for digits in range(3, 16):
        texts = availability_text(first, digits), availability_text(second, digits)
        if first == second or texts[0] != texts[1]:
            break
    return texts
