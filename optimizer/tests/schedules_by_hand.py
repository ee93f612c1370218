"""Small random schedules, and the cheapest of all that there are: each fleet of each tier, written
down by plain loops over the machines that run in each period."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from optimizer.plan.solve.schedule import USD, HourlyProblem, HourlyTier, Measure, Period, Quota
from optimizer.prices import Instance

MOST = 4  # machines of a tier that are needed and extra, were all the smallest of them


def machine(
    name: str, vcpus: float, usd: float, *, committed: bool = False, interruptions: float = 0.0,
    purchase: str = "on-demand",
) -> Instance:  # fmt: skip
    """A machine of `usd` a month."""
    return Instance(f"{name}@{purchase}", vcpus, 8.0, usd / 730.0,
                    usd_per_month_off=(usd / 730.0) * 730.0 if committed else None, type=name,
                    purchase=purchase, interruptions_per_year=interruptions)  # fmt: skip


def lost(needed: int, extra: int, interruptions: float) -> float:
    """Any law will do that grows with the needed machines, and falls with extra ones."""
    each = 1e-3 * (1.0 + interruptions)
    return min(1.0, math.comb(needed + extra, extra + 1) * each ** (extra + 1))


@st.composite
def small_schedules(draw: st.DrawFn, tiers: int = 2, periods: int = 2) -> HourlyProblem:
    """Of one or two tiers, two or three kinds of machine, and limits at random."""
    ways = st.sampled_from(["on-demand", "reserved", "spot"])
    found = []
    for number in range(draw(st.integers(1, tiers))):
        kinds = {}
        for _ in range(draw(st.sampled_from([2, 2, 2, 2, 3]))):
            vcpus, way = draw(st.sampled_from([1.0, 2.0, 3.0])), draw(ways)
            price = (
                vcpus
                * draw(st.integers(8, 12))
                * {"on-demand": 1, "reserved": 0.6, "spot": 0.4}[way]
            )
            one = machine(f"m{vcpus:g}", vcpus, price, committed=way == "reserved", purchase=way,
                          interruptions=4.0 if way == "spot" else 0.0)  # fmt: skip
            kinds[one.name] = one
        carried = tuple(10.0 * one.vcpus for one in kinds.values())
        found.append(
            HourlyTier(f"t{number}", tuple(kinds.values()), carried,
                       float(draw(st.integers(4, 24))), draw(st.integers(1, 2)), MOST, lost,
                       draw(st.sampled_from([0, 0, 3])))
        )  # fmt: skip
    shares = [1.0, *(draw(st.sampled_from([0.2, 0.4, 0.7, 1.0])) for _ in range(periods - 1))]
    quotas: tuple[Quota, ...] = ()
    if draw(st.booleans()):
        quotas = (
            Quota(frozenset({"m1", "m2"}), float(draw(st.integers(1, 8))), draw(st.booleans())),
        )
    return HourlyProblem(tuple(found), tuple(Period(share, 1) for share in shares), 1.0,
                         draw(st.sampled_from([None, 1.0, 2e-2, 6e-3, 1e-3, 1e-5])), quotas=quotas,
                         starting_h=draw(st.sampled_from([0.0, 0.0, 0.25])),
                         run_h_min=draw(st.sampled_from([1, 1, 2])),
                         watts_per_vcpu=10.0)  # fmt: skip


Fleet = tuple[tuple[int, ...], ...]  # per kind of machine, those that run in each period


def least_of_all(problem: HourlyProblem, measure: Measure = USD) -> float | None:
    """The least measure over all schedules; None where there is none."""
    per_tier = [list(_fleets(problem, tier, measure)) for tier in problem.tiers]
    most = problem.unavailability_max
    best = None
    for chosen in itertools.product(*per_tier):
        value = math.fsum(one[0] for one in chosen)
        if best is not None and value >= best:
            continue
        if most is not None and math.fsum(one[1] for one in chosen) > most:
            continue
        used = [math.fsum(parts) for parts in zip(*(one[2] for one in chosen), strict=True)]
        if all(u <= q for u, q in zip(used, _quotas(problem), strict=True)):
            best = value
    return best


def _quotas(problem: HourlyProblem) -> list[float]:
    return [quota.most for quota in problem.quotas for _ in problem.periods]


def _fleets(
    problem: HourlyProblem, tier: HourlyTier, measure: Measure
) -> Iterator[tuple[float, float, tuple[float, ...]]]:
    """Value, unavailability and quotas' use of each fleet that carries the load, without those that
    another one beats in all three."""
    count = len(problem.periods)
    kept: list[tuple[float, float, tuple[float, ...]]] = []
    rows = itertools.product(range(MOST + 1), repeat=count)
    for fleet in itertools.product(list(rows), repeat=len(tier.machines)):
        value = _value(problem, tier, fleet, measure)
        for lost_of in _unavailabilities(problem, tier, fleet):
            if not _runs_long_enough(problem, tier, fleet):
                continue
            one = (value, lost_of, _used(problem, tier, fleet))
            if any(_no_more(other, one) for other in kept):
                continue
            kept = [other for other in kept if not _no_more(one, other)] + [one]
    yield from kept


def _no_more(
    one: tuple[float, float, tuple[float, ...]], other: tuple[float, float, tuple[float, ...]]
) -> bool:
    uses = all(a <= b for a, b in zip(one[2], other[2], strict=True))
    return one[0] <= other[0] and one[1] <= other[1] and uses


def _began(running: Sequence[int]) -> list[int]:
    return [max(0, running[p] - running[p - 1]) for p in range(len(running))]


def _committed(one: Instance) -> bool:
    return one.usd_per_month_off is not None


def _value(problem: HourlyProblem, tier: HourlyTier, fleet: Fleet, measure: Measure) -> float:
    count, total = len(problem.periods), 0.0
    for one, running in zip(tier.machines, fleet, strict=True):
        hours = float(sum(running))
        if not _committed(one):
            hours += problem.starting_h * sum(_began(running))
        each = {"nodes": 1.0, "energy": 7.3 * one.vcpus, "usd": one.usd_per_month}[measure.unit]
        if measure.unit == "usd" and _committed(one):
            total += each * max(running)
        else:
            total += each * hours / count
    return total


def _unavailabilities(problem: HourlyProblem, tier: HourlyTier, fleet: Fleet) -> Iterator[float]:
    """For each number of machines of which any may be lost; none where the load is not carried."""
    used = [k for k, running in enumerate(fleet) if any(running)]
    if not used:
        return
    sizes = [tier.carried_per_s[k] for k in used]
    worst = max(tier.machines[k].interruptions_per_year for k in used)
    loads = [tier.request_per_s * p.load / problem.utilisation_max for p in problem.periods]
    for extra in range(tier.most):
        for p, load in enumerate(loads):
            machines = sum(fleet[k][p] for k in used)
            carried = math.fsum(fleet[k][p] * tier.carried_per_s[k] for k in used)
            if (
                machines < tier.fewest
                or machines - extra < tier.least
                or carried - extra * max(sizes) < load - 1e-9
            ):
                return
        needed = [max(tier.least, math.ceil(load / min(sizes) - 1e-9)) for load in loads]
        if max(needed) + extra > tier.most:
            return
        yield math.fsum(tier.lost(n, extra, worst) for n in needed) / len(loads)


def _used(problem: HourlyProblem, tier: HourlyTier, fleet: Fleet) -> tuple[float, ...]:
    found, count = [], len(problem.periods)
    for quota in problem.quotas:
        for p in range(count):
            total = 0.0
            for one, running in zip(tier.machines, fleet, strict=True):
                if one.type not in quota.types:
                    continue
                starting = problem.starting_h > 0 and not _committed(one)
                now = running[p] + (_began(running)[(p + 1) % count] if starting else 0)
                total += now * (one.vcpus if quota.vcpus else 1.0)
            found.append(total)
    return tuple(found)


def _runs_long_enough(problem: HourlyProblem, tier: HourlyTier, fleet: Fleet) -> bool:
    count = len(problem.periods)
    for one, running in zip(tier.machines, fleet, strict=True):
        if _committed(one):
            continue
        for p in range(count):
            lately = sum(
                _began(running)[(p - k) % count] for k in range(min(problem.run_h_min, count))
            )
            if lately > running[p]:
                return False
    return True
