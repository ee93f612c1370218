"""Small random schedules, and the cheapest of all that there are: each fleet of each tier, written
down by plain loops over the machines that run in each period."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from optimizer.plan.solve.schedule import HourlyProblem, HourlyTier, Measure, Period, Quota
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
    """Return a made-up unavailability that grows with `needed` and falls with `extra`."""
    loss_share = 1e-3 * (1.0 + interruptions)
    return min(1.0, math.comb(needed + extra, extra + 1) * loss_share ** (extra + 1))


@st.composite
def small_schedules(draw: st.DrawFn) -> HourlyProblem:
    """Draw a problem of at most two tiers, with two or three kinds of machine and random limits."""
    purchases = st.sampled_from(["on-demand", "reserved", "spot"])
    hourly_tiers = []
    for number in range(draw(st.integers(1, 2))):
        kinds = {}
        for _ in range(draw(st.sampled_from([2, 2, 2, 2, 3]))):
            vcpus, purchase = draw(st.sampled_from([1.0, 2.0, 3.0])), draw(purchases)
            price = (
                vcpus
                * draw(st.integers(8, 12))
                * {"on-demand": 1, "reserved": 0.6, "spot": 0.4}[purchase]
            )
            instance = machine(f"m{vcpus:g}", vcpus, price, committed=purchase == "reserved",
                               purchase=purchase,
                               interruptions=4.0 if purchase == "spot" else 0.0)  # fmt: skip
            kinds[instance.name] = instance
        carried_per_s = tuple(10.0 * kind.vcpus for kind in kinds.values())
        hourly_tiers.append(
            HourlyTier(f"t{number}", tuple(kinds.values()), carried_per_s,
                       float(draw(st.integers(4, 24))), draw(st.integers(1, 2)), MOST, lost,
                       draw(st.sampled_from([0, 0, 3])))
        )  # fmt: skip
    shares = [1.0, draw(st.sampled_from([0.2, 0.4, 0.7, 1.0]))]
    quotas: tuple[Quota, ...] = ()
    if draw(st.booleans()):
        quotas = (
            Quota(frozenset({"m1", "m2"}), float(draw(st.integers(1, 8))), draw(st.booleans())),
        )
    return HourlyProblem(tuple(hourly_tiers), tuple(Period(share, 1) for share in shares), 1.0,
                         draw(st.sampled_from([None, 1.0, 2e-2, 6e-3, 1e-3, 1e-5])), quotas=quotas,
                         starting_h=draw(st.sampled_from([0.0, 0.0, 0.25])),
                         run_h_min=draw(st.sampled_from([1, 1, 2])),
                         watts_per_vcpu=10.0)  # fmt: skip


Fleet = tuple[tuple[int, ...], ...]  # per kind of machine, those that run in each period


def least_of_all(problem: HourlyProblem, measure: Measure) -> float | None:
    """Return the least measure over all schedules; None if no schedule keeps the limits."""
    per_tier = [list(_fleets(problem, tier, measure)) for tier in problem.tiers]
    unavailability_max = problem.unavailability_max
    best = None
    for fleets in itertools.product(*per_tier):
        value = math.fsum(fleet[0] for fleet in fleets)
        if best is not None and value >= best:
            continue
        if (
            unavailability_max is not None
            and math.fsum(fleet[1] for fleet in fleets) > unavailability_max
        ):
            continue
        totals = [math.fsum(parts) for parts in zip(*(fleet[2] for fleet in fleets), strict=True)]
        if all(u <= q for u, q in zip(totals, _quotas(problem), strict=True)):
            best = value
    return best


def _quotas(problem: HourlyProblem) -> list[float]:
    return [quota.most for quota in problem.quotas for _ in problem.periods]


def _fleets(
    problem: HourlyProblem, tier: HourlyTier, measure: Measure
) -> Iterator[tuple[float, float, tuple[float, ...]]]:
    """Yield value, unavailability and quotas' use of each fleet that carries the load and that no
    other fleet matches or beats in all three."""
    count = len(problem.periods)
    front: list[tuple[float, float, tuple[float, ...]]] = []
    rows = itertools.product(range(MOST + 1), repeat=count)
    for fleet in itertools.product(list(rows), repeat=len(tier.machines)):
        value = _value(problem, tier, fleet, measure)
        for unavailability in _unavailabilities(problem, tier, fleet):
            if not _runs_long_enough(problem, tier, fleet):
                continue
            candidate = (value, unavailability, _used(problem, tier, fleet))
            if any(_no_more(rival, candidate) for rival in front):
                continue
            front = [rival for rival in front if not _no_more(candidate, rival)] + [candidate]
    yield from front


def _no_more(
    left: tuple[float, float, tuple[float, ...]], right: tuple[float, float, tuple[float, ...]]
) -> bool:
    uses = all(a <= b for a, b in zip(left[2], right[2], strict=True))
    return left[0] <= right[0] and left[1] <= right[1] and uses


def _began(running: Sequence[int]) -> list[int]:
    return [max(0, running[p] - running[p - 1]) for p in range(len(running))]


def _committed(instance: Instance) -> bool:
    return instance.usd_per_month_off is not None


def _value(problem: HourlyProblem, tier: HourlyTier, fleet: Fleet, measure: Measure) -> float:
    count, total = len(problem.periods), 0.0
    for instance, running in zip(tier.machines, fleet, strict=True):
        hours = float(sum(running))
        if not _committed(instance):
            hours += problem.starting_h * sum(_began(running))
        value = {"nodes": 1.0, "energy": 7.3 * instance.vcpus, "usd": instance.usd_per_month}[
            measure.unit
        ]
        if measure.unit == "usd" and _committed(instance):
            total += value * max(running)
        else:
            total += value * hours / count
    return total


def _unavailabilities(problem: HourlyProblem, tier: HourlyTier, fleet: Fleet) -> Iterator[float]:
    """Yield the unavailability for each number of extra machines, while the load is carried."""
    kinds = [k for k, running in enumerate(fleet) if any(running)]
    if not kinds:
        return
    sizes = [tier.carried_per_s[k] for k in kinds]
    worst = max(tier.machines[k].interruptions_per_year for k in kinds)
    loads = [tier.request_per_s * p.load / problem.utilisation_max for p in problem.periods]
    for extra in range(tier.most):
        for p, load in enumerate(loads):
            machines = sum(fleet[k][p] for k in kinds)
            carried = math.fsum(fleet[k][p] * tier.carried_per_s[k] for k in kinds)
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
    totals, count = [], len(problem.periods)
    for quota in problem.quotas:
        for p in range(count):
            total = 0.0
            for instance, running in zip(tier.machines, fleet, strict=True):
                if instance.type not in quota.types:
                    continue
                starting = problem.starting_h > 0 and not _committed(instance)
                machines = running[p] + (_began(running)[(p + 1) % count] if starting else 0)
                total += machines * (instance.vcpus if quota.vcpus else 1.0)
            totals.append(total)
    return tuple(totals)


def _runs_long_enough(problem: HourlyProblem, tier: HourlyTier, fleet: Fleet) -> bool:
    count = len(problem.periods)
    for instance, running in zip(tier.machines, fleet, strict=True):
        if _committed(instance):
            continue
        for p in range(count):
            started = sum(
                _began(running)[(p - k) % count] for k in range(min(problem.run_h_min, count))
            )
            if started > running[p]:
                return False
    return True
