"""Hours of a store in limplock per year, and years until it loses data; an extension of the paper.

Nodes limp, are healed, crash and have their blocks copied again at the rates of `LimpRates`; the
chain is in `repair.py`. Hours and MTTDL are expectations from a start with all nodes healthy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from core.arrays import Floats
from core.errors import (
    InputError,
    PlannerError,
    require_crashes,
    require_limps,
    require_number,
    require_positive,
)
from core.units import HOURS_PER_YEAR
from optimizer.limplock.cluster import Cluster, any_block_together, limplock
from optimizer.limplock.measured import MeasuredSlowdown
from optimizer.limplock.repair import Store, hours_until_loss

PAPER_SLOWDOWN = 309.0  # regeneration in limplock: section 5.2.3, Fig. 1, F8
NODES_MAX = 100_000
BRACKET = 1e-3  # relative, of the MTTDL
STEPS_MAX = 5e8  # multiplications of one elimination: seconds


@dataclass(frozen=True)
class LimpRates:
    """Rates and durations of limping and crashes of nodes.

    limp_per_year: times per node and year that it starts to limp; limp_hours: until it is healed or
    removed; crash_per_year: per node; repair_hours: regeneration of a crashed node's blocks while
    none limps; slowdown S: how many times longer in limplock, >= 1.  Times are means.
    """

    limp_per_year: float
    limp_hours: float
    repair_hours: float
    crash_per_year: float = 1.0
    slowdown: float = PAPER_SLOWDOWN

    def __post_init__(self) -> None:
        require_limps("limp_per_year", self.limp_per_year)
        require_crashes("crash_per_year", self.crash_per_year)
        for name in ("limp_hours", "repair_hours"):
            require_positive(name, getattr(self, name))
        if require_number("slowdown", self.slowdown) < 1.0:
            raise InputError("slowdown", expected="1 or more times longer", got=repr(self.slowdown))
        require_positive("slowdown", self.slowdown)

    @property
    def limping_share(self) -> float:
        """Share of a node's time in which it limps [-]."""
        busy = self.limp_per_year * self.limp_hours / HOURS_PER_YEAR
        return busy / (1.0 + busy)


@dataclass(frozen=True)
class Year:
    """Expected hours of a year, and years until data are lost.

    limping_h: at least one node limps; read_h, write_h: a user's requests would meet limplock;
    regeneration_h: blocks are copied again; regeneration_limplock_h: in limplock;
    mttdl_years: mean time to data loss; mttdl_years_without_limping: if no node ever limped.
    """

    limping_h: float
    read_h: float
    write_h: float
    regeneration_h: float
    regeneration_limplock_h: float
    mttdl_years: float
    mttdl_years_without_limping: float


def year(cluster: Cluster, rates: LimpRates) -> Year:
    """Return hours in limplock per year, and MTTDL, for nodes that limp at these rates.

    `cluster.limping` has no effect: the rates determine the number of limping nodes.
    Raises: PlannerError if crashes are too frequent for this model.
    """
    if cluster.nodes > NODES_MAX:
        raise InputError("nodes", expected=f"at most {NODES_MAX:,}", got=f"{cluster.nodes:,}")
    until_loss = _until_loss(cluster, rates, _limping_max(cluster, rates))
    until_loss_plain = _until_loss(cluster, rates, 0)
    hours = HOURS_PER_YEAR * until_loss[1:] / until_loss[0]
    return Year(
        *map(float, hours),
        *(float(hours_until[0]) / HOURS_PER_YEAR for hours_until in (until_loss, until_loss_plain)),
    )


@dataclass(frozen=True)
class Range:
    """A year at a measured slowdown, and at its bounds.

    high: None without an upper bound, or if the model has no answer at it, with a `reason`.

    Hours grow with the slowdown, years until data are lost fall. If the slowdown is an "at least",
    so are the hours of `at`, and its years are an "at most".
    """

    at: Year
    low: Year
    high: Year | None
    reason: str = ""


def year_range(cluster: Cluster, rates: LimpRates, measured: MeasuredSlowdown) -> Range:
    """Return `year` with the measured slowdown instead of that of `rates`.

    A slowdown below 1 counts as 1.
    Raises: as `year`, except if only the upper bound is too much for the model.
    """

    def year_at(slowdown: float) -> Year:
        return year(cluster, replace(rates, slowdown=max(1.0, slowdown)))

    middle, low = year_at(measured.factor), year_at(measured.low)
    try:
        return Range(middle, low, None if measured.high is None else year_at(measured.high))
    except PlannerError as error:
        return Range(middle, low, None, reason=f"expected {error.expected} (got {error.got})")


def _limping_max(cluster: Cluster, rates: LimpRates) -> int:
    """Return the number of limping nodes that is exceeded with probability below 1e-12."""
    share = rates.limping_share
    mean = cluster.nodes * share
    return min(cluster.nodes - 2, math.ceil(mean + 8 * math.sqrt(mean * (1 - share)) + 12))


def _until_loss(cluster: Cluster, rates: LimpRates, limping_max: int) -> Floats:
    """Return the expected hours until data are lost.

    In all, with a limping node, with the user's reads and with writes in limplock, with a
    regeneration, with a regeneration in limplock.
    """
    clusters = [replace(cluster, limping=level) for level in range(limping_max + 1)]
    store = Store(
        cluster,
        crash_per_h=rates.crash_per_year / HOURS_PER_YEAR,
        limp_per_h=rates.limp_per_year / HOURS_PER_YEAR if limping_max else 0.0,
        healed_per_h=1.0 / rates.limp_hours,
        regenerated_per_h=1.0 / rates.repair_hours,
        slowdown=rates.slowdown,
        locks=_locks(clusters),
    )
    rewards = np.array([_rewards(level_cluster) for level_cluster in clusters])
    crashed_max = cluster.replicas
    while True:
        crashed_max = min(2 * crashed_max, cluster.nodes - 1)
        if (limping_max + 1) * (2 * crashed_max + 1) ** 3 > STEPS_MAX:
            raise _cannot_follow(cluster, rates)
        upper, lower = (
            hours_until_loss(store, crashed_max, rewards, lost) for lost in (False, True)
        )
        if upper[0] - lower[0] <= BRACKET * lower[0] or crashed_max == cluster.nodes - 1:
            return lower


def _locks(clusters: list[Cluster]) -> Floats:
    """Return P(l) for l = 0, 1, ... and one more; after a certain lock all others are certain."""
    locks = [0.0]
    for cluster in clusters[1:]:
        locks.append(1.0 if locks[-1] > 1 - 1e-15 else max(locks[-1], any_block_together(cluster)))
    return np.array([*locks, locks[-1]])


def _rewards(cluster: Cluster) -> tuple[float, float, float, float]:
    """Return the weight of an hour with so many limping nodes: 1, whether one limps, P_rl, P_wl."""
    probabilities = limplock(cluster)
    return 1.0, float(cluster.limping > 0), probabilities.read, probabilities.write


def _cannot_follow(cluster: Cluster, rates: LimpRates) -> PlannerError:
    return PlannerError(
        "crash_per_year",
        expected="crashes whose blocks are mostly copied again before the next ones",
        got=f"{rates.crash_per_year:g} a node and year, {cluster.nodes} nodes, regeneration in "
        f"{rates.repair_hours:g} h, {rates.slowdown:g} times that in limplock",
        hint="State fewer crashes or shorter times: this model cannot represent so many at once.",
    )
