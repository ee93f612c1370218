r"""A tier's machines over the hours of a day or a week: its designs, and the least cost of each.

The machines of a tier follow the load. A design states how: its possible machines (types and ways
to pay, here together one machine j), the number needed in each period p, and the number of extra
ones. In units of its smallest machine's capacity, a period asks for

    q_p = load_p / (rho capacity_min) + e largest            e: the extra machines

so that after the loss of any e machines the rest carry the load. For a design of machines of one
size q_p = n_p + e, with n_p whole. Its mean unavailability over the periods is that of n_p needed
and e extra machines; with larger machines fewer are needed, and fewer fail.

The least cost of a design alone is found by load duration and screening curves (Masse and Gibrat
1957, of power plants): the unit of capacity at height l of the load is needed hours(l) of the H
hours, so it costs

    min_j (standing_j + running_j hours(l)) / capacity_j,    summed over all l

where standing_j is paid in any case, running_j for each hour. If machines are of one size and
nothing connects hours or tiers, that is the exact cost; otherwise a bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from core.tolerances import LIMIT_INSIDE, U_FLOOR
from core.units import HOURS_PER_MONTH
from optimizer.prices import Instance

EXTRA_MAX = 8  # machines beyond the needed ones; with fewer U has reached its floor or is hopeless
_SAME = 1e-9  # relative: capacities that differ by less are equal
# Where latency is limited. Headroom: machines in the busiest hour beyond those that the utilisation
# limit needs. Floors: the least number of needed machines, as a share of that in the busiest hour.
_HEADROOM = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_FLOORS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Period:
    """`hours` hours of one `load`: a share of the load in the busiest hour, in (0, 1]."""

    load: float
    hours: int


@dataclass(frozen=True)
class Cost:
    """The price of a machine: `standing` a month, used or not, and `running` a month of 730 h."""

    standing: float
    running: float


@dataclass(frozen=True)
class Quota:
    """At most `most` vCPUs (`vcpus`) or machines of these types at the same time, in all tiers."""

    types: frozenset[str]
    most: float
    vcpus: bool

    def of(self, machine: Instance) -> float:
        """Return the share of the quota that one machine takes."""
        if machine.type_name not in self.types:
            return 0.0
        return machine.vcpus if self.vcpus else 1.0


@dataclass(frozen=True)
class HourlyTier:
    """A tier as the schedule needs it.

    `carried_per_s` of each machine at utilisation 1 [requests/s]; `request_per_s` in the busiest
    hour; at least `least` are needed, and at least `fewest` and at most `most` machines run; `lost`
    gives the unavailability of (needed, extra, interruptions a year).
    """

    name: str
    machines: tuple[Instance, ...]
    carried_per_s: tuple[float, ...]
    request_per_s: float
    least: int
    most: int
    lost: Callable[[int, int, float], float]
    fewest: int = 0

    def at_least(self, extra: int) -> int:
        """Return the least number of machines that run in any hour, with `extra` extra ones."""
        return max(self.least + extra, self.fewest)


Sizes = tuple[tuple[int, float], ...]  # per tier: servers, and the vCPUs of each


@dataclass(frozen=True)
class HourlyProblem:
    """Tiers, periods in their order, and the limits that a schedule keeps.

    `slow(period, sizes)` is True if a latency limit is broken; larger sizes are no slower, nor is
    less load. `starting_h`: hours that a machine runs before it serves. `run_h_min`: the least time
    that a machine runs which is paid by the hour. `watts_per_vcpu`: its power.
    """

    tiers: tuple[HourlyTier, ...]
    periods: tuple[Period, ...]
    utilisation_max: float = 1.0
    unavailability_max: float | None = None
    slow: Callable[[int, Sizes], bool] | None = None
    quotas: tuple[Quota, ...] = ()
    starting_h: float = 0.0
    run_h_min: int = 1
    watts_per_vcpu: float = 0.0

    @property
    def hours(self) -> int:
        """All hours: 24 or 168."""
        return sum(period.hours for period in self.periods)

    @property
    def tied(self) -> bool:
        """True if hours or tiers are tied together by more than availability and latency."""
        return bool(self.quotas) or self.starting_h > 0 or self.run_h_min > 1

    def share(self, period: int) -> float:
        """Return the share of a month's hours."""
        return self.periods[period].hours / self.hours


@dataclass(frozen=True)
class Measure:
    """A linear measure of a schedule: a price per machine, standing and running, in `unit`."""

    unit: str  # USD a month | machines on average | kWh a month

    def cost_of(self, machine: Instance, watts_per_vcpu: float) -> Cost:
        """Return the objective's share of one machine."""
        if self.unit == "nodes":
            return Cost(0.0, 1.0)
        if self.unit == "energy":
            return Cost(0.0, watts_per_vcpu * machine.vcpus * HOURS_PER_MONTH / 1000.0)
        if committed(machine):
            return Cost(machine.usd_per_month, 0.0)
        return Cost(0.0, machine.usd_per_month)


USD, NODES, ENERGY = Measure("usd"), Measure("nodes"), Measure("energy")


def committed(machine: Instance) -> bool:
    """True if the machine is paid whether it runs or not."""
    return machine.usd_per_month_off == machine.usd_per_month


@dataclass(frozen=True, eq=False)
class Design:
    """One way to follow the load.

    `units` of capacity of each of its machines, and the `demand` in each period, both in capacities
    of the smallest machine; `needed` machines of the smallest kind in each period, `extra` more.
    """

    tier: int
    machines: tuple[int, ...]
    units: tuple[float, ...]
    vcpus: float  # of the smallest
    needed: tuple[int, ...]
    extra: int
    demand: tuple[float, ...]
    counted: bool  # the machines are of one size, or taken as such
    unavailability: float

    @cached_property
    def key(self) -> tuple[tuple[int, ...], bool]:
        """Designs with equal keys may have their machines added up in one sum."""
        return (self.machines, self.counted)


def designs(
    problem: HourlyProblem, number: int, check: Callable[[], object], *, for_cost: bool
) -> list[Design]:
    """Return all designs of the tier; `for_cost`: only those that a cheapest schedule may have."""
    tier = problem.tiers[number]
    loads = [(0, 0.0)] if problem.slow is None else [*itertools.product(_HEADROOM, _FLOORS)]
    alternatives: list[Design] = []
    for rows, counted in _machine_sets(problem, tier, for_cost):
        check()
        smallest = min(tier.carried_per_s[j] for j in rows)
        smallest_rows = [j for j in rows if tier.carried_per_s[j] <= smallest * (1 + _SAME)]
        vcpus = min(tier.machines[j].vcpus for j in smallest_rows)
        units = [1.0 if counted else tier.carried_per_s[j] / smallest for j in rows]
        units = [round(u) if abs(u - round(u)) <= _SAME * u else u for u in units]
        worst = max(tier.machines[j].interruptions_per_year for j in rows)
        known_needs = set()
        for more, floor in loads:
            load, needed = _find_needs(problem, tier, smallest, more, floor)
            if needed in known_needs or max(needed) > tier.most:
                continue
            known_needs.add(needed)
            for extra, lost in _extras(problem, tier, needed, worst):
                demand = _find_demand(tier, load, needed, extra, units, counted)
                alternatives.append(
                    Design(number, rows, tuple(units), vcpus, needed, extra, demand, counted, lost)
                )
    return alternatives


def find_useful(problem: HourlyProblem, tier: HourlyTier) -> list[int]:
    """Return the machines that no other one matches or beats in all respects, cheapest first."""

    def key(j: int) -> tuple[float, ...]:
        machine = tier.machines[j]
        used = math.fsum(quota.of(machine) for quota in problem.quotas)
        worse = (machine.interruptions_per_year, float(committed(machine)), used)
        return (machine.usd_per_hour, -tier.carried_per_s[j], *worse, float(j))

    order = sorted(range(len(tier.machines)), key=key)
    useful_rows: list[int] = []
    for j in order:
        if not any(_is_no_worse(problem, tier, i, j) for i in useful_rows):
            useful_rows.append(j)
    return useful_rows


def _is_no_worse(problem: HourlyProblem, tier: HourlyTier, i: int, j: int) -> bool:
    machine, rival = tier.machines[i], tier.machines[j]
    within = all(quota.of(machine) <= quota.of(rival) for quota in problem.quotas)
    size = machine.vcpus == rival.vcpus if problem.slow or problem.watts_per_vcpu else True
    return (
        within
        and size
        and tier.carried_per_s[i] >= tier.carried_per_s[j]
        and machine.usd_per_hour <= rival.usd_per_hour
        and machine.interruptions_per_year <= rival.interruptions_per_year
        and committed(machine) <= committed(rival)
    )


def _machine_sets(
    problem: HourlyProblem, tier: HourlyTier, for_cost: bool
) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Yield sets of machines that a design may have, each with True if they count as equal.

    With latency limits all have the same vCPUs, since the latency law is for equal servers."""
    rows = find_useful(problem, tier)
    rates = sorted({tier.machines[j].interruptions_per_year for j in rows})
    known = set()
    for rate in rates:
        candidates = [j for j in rows if tier.machines[j].interruptions_per_year <= rate]
        if problem.slow is not None:
            sets = _sets_of_equal_vcpus(tier, candidates)
        else:
            sets = _sets_of_neighbouring_sizes(problem, tier, candidates, for_cost)
        for machine_set in sets:
            if machine_set not in known:
                known.add(machine_set)
                yield machine_set


def _sets_of_equal_vcpus(
    tier: HourlyTier, rows: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], bool]]:
    for vcpus in sorted({tier.machines[j].vcpus for j in rows}):
        same = [j for j in rows if tier.machines[j].vcpus == vcpus]
        for least in sorted({tier.carried_per_s[j] for j in same}):
            yield tuple(j for j in same if tier.carried_per_s[j] >= least), True


def _sets_of_neighbouring_sizes(
    problem: HourlyProblem, tier: HourlyTier, rows: Sequence[int], for_cost: bool
) -> Iterator[tuple[tuple[int, ...], bool]]:
    sizes = sorted({tier.carried_per_s[j] for j in rows})
    for low, high in itertools.combinations_with_replacement(sizes, 2):
        chosen = [j for j in rows if low <= tier.carried_per_s[j] <= high]
        if for_cost:
            chosen = [j for j in chosen if not any(_adds_up(problem, tier, i, j) for i in chosen)]
        yield tuple(chosen), len({tier.carried_per_s[j] for j in chosen}) == 1


def _adds_up(problem: HourlyProblem, tier: HourlyTier, i: int, j: int) -> bool:
    """True if a few machines i equal one machine j and cost no more: then j is never needed."""
    small, large = tier.machines[i], tier.machines[j]
    ratio = tier.carried_per_s[j] / tier.carried_per_s[i]
    times = round(ratio)
    return (
        times > 1
        and abs(ratio - times) <= _SAME * ratio
        and times * small.usd_per_hour <= large.usd_per_hour * (1.0 + _SAME)
        and all(times * quota.of(small) <= quota.of(large) for quota in problem.quotas)
        and small.interruptions_per_year <= large.interruptions_per_year
        and committed(small) <= committed(large)
    )


def _find_needs(
    problem: HourlyProblem, tier: HourlyTier, smallest: float, more: int, floor: float
) -> tuple[list[float], tuple[int, ...]]:
    """Return the load in machines of the smallest kind, and the whole machines that carry it."""
    full = tier.request_per_s / (smallest * problem.utilisation_max)
    busiest = max(tier.least, _round_up(full))
    if more:
        full = float(busiest + more)
        busiest += more
    load = [full * period.load for period in problem.periods]
    least = max(tier.least, math.ceil(floor * busiest - LIMIT_INSIDE))
    return load, tuple(max(least, _round_up(capacity)) for capacity in load)


def _round_up(value: float) -> int:
    """Return the least integer that is at least the value; an integer is not raised by rounding."""
    return max(1, math.ceil(value * (1.0 - LIMIT_INSIDE)))


def _find_demand(
    tier: HourlyTier,
    load: Sequence[float],
    needed: Sequence[int],
    extra: int,
    units: Sequence[float],
    counted: bool,
) -> tuple[float, ...]:
    if counted:
        return tuple(float(max(n + extra, tier.fewest)) for n in needed)
    demand = [capacity + extra * max(units) for capacity in load]
    if all(float(u).is_integer() for u in units):
        return tuple(float(_round_up(capacity)) for capacity in demand)
    return tuple(capacity * (1.0 - LIMIT_INSIDE) for capacity in demand)


def _extras(
    problem: HourlyProblem, tier: HourlyTier, needed: Sequence[int], interruptions: float
) -> Iterator[tuple[int, float]]:
    """Yield numbers of extra machines that make the tier more available, and its unavailability."""
    best = math.inf
    for extra in range(min(EXTRA_MAX, tier.most - max(needed)) + 1):
        lost = math.fsum(
            problem.share(p) * tier.lost(n, extra, interruptions) for p, n in enumerate(needed)
        )
        if lost < best:
            yield extra, lost
            best = lost
        if problem.unavailability_max is None or best <= U_FLOOR:
            return


def least_cost(problem: HourlyProblem, design: Design, measure: Measure = USD) -> float:
    """Return a lower bound of the cost of a design; if `is_exact`, it is the cost itself."""
    demand = np.array(design.demand)
    hours = np.array([problem.share(p) for p in range(len(demand))])
    heights, indices = np.unique(demand, return_inverse=True)
    by_height = np.bincount(indices.reshape(-1), weights=hours, minlength=len(heights))
    running = np.cumsum(by_height[::-1])[::-1]  # share of the hours that ask for that height
    width = np.diff(heights, prepend=0.0)
    tier = problem.tiers[design.tier]
    costs = [measure.cost_of(tier.machines[j], problem.watts_per_vcpu) for j in design.machines]
    price = np.min(
        [(c.standing + c.running * running) / u for c, u in zip(costs, design.units, strict=True)],
        axis=0,
    )
    return float(width @ price)


def is_exact(problem: HourlyProblem, design: Design) -> bool:
    """True if `least_cost` is the cost of the design, not only a bound."""
    return design.counted and not problem.tied


@dataclass(frozen=True)
class Bought:
    """Machines of one kind in a tier: `standing` are paid in all hours, `running` by period."""

    machine: Instance
    standing: int
    running: tuple[int, ...]


@dataclass(frozen=True)
class Schedule:
    """Per tier its design and its machines."""

    designs: tuple[Design, ...]
    bought: tuple[tuple[Bought, ...], ...]

    def total(self, problem: HourlyProblem, measure: Measure = USD) -> float:
        """Return the measure of the whole schedule, with starts."""
        return math.fsum(
            _measure_purchase(problem, purchase, measure)
            for tier in self.bought
            for purchase in tier
        )

    def quota_used(self, problem: HourlyProblem, quota: Quota, period: int) -> float:
        """Return the used part of a quota in a period, with the machines that start then."""
        used, after = 0.0, (period + 1) % len(problem.periods)
        for purchase in (purchase for tier in self.bought for purchase in tier):
            running = purchase.running[period]
            if problem.starting_h > 0 and not committed(purchase.machine):
                running += starts(purchase.running)[after]
            used += quota.of(purchase.machine) * running
        return used


def sizes_at(chosen: Sequence[Design], period: int) -> Sizes:
    """Return the arguments of the latency law."""
    return tuple((design.needed[period], design.vcpus) for design in chosen)


def starts(running: Sequence[int]) -> list[int]:
    """Machines that start before each period; the last period comes before the first."""
    return [max(0, count - running[p - 1]) for p, count in enumerate(running)]


def _measure_purchase(problem: HourlyProblem, purchase: Bought, measure: Measure) -> float:
    cost = measure.cost_of(purchase.machine, problem.watts_per_vcpu)
    total = cost.standing * purchase.standing
    total += cost.running * math.fsum(n * problem.share(p) for p, n in enumerate(purchase.running))
    if committed(purchase.machine):
        return total  # a committed machine needs no start: it is ready in all hours
    waiting_h = problem.starting_h * sum(starts(purchase.running))
    return total + cost.running * waiting_h / problem.hours


def cheapest_machines(
    problem: HourlyProblem, design: Design, measure: Measure
) -> tuple[Bought, ...]:
    """Return the machines of a design for which `least_cost` is exact."""
    tier = problem.tiers[design.tier]
    running = {j: [0] * len(problem.periods) for j in design.machines}
    most = dict.fromkeys(design.machines, 0)
    for low, high in itertools.pairwise(sorted({0.0, *design.demand})):  # layers of the load
        periods = [p for p, capacity in enumerate(design.demand) if capacity >= high]
        share = math.fsum(problem.share(p) for p in periods)

        def price(j: int, share: float = share) -> float:
            cost = measure.cost_of(tier.machines[j], problem.watts_per_vcpu)
            return cost.standing + cost.running * share

        cheapest = min(design.machines, key=price)
        most[cheapest] += round(high - low)
        for p in periods:
            running[cheapest][p] += round(high - low)
    return tuple(
        Bought(tier.machines[j], most[j] if committed(tier.machines[j]) else 0, tuple(running[j]))
        for j in design.machines
        if most[j]
    )
