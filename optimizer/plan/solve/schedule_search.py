"""The search for the cheapest schedule: bounds, screening, HiGHS, and cuts of slow ones.

A design's least cost by itself (`schedule.least_cost`) and its unavailability bound every schedule
from below: with a price lambda of the availability budget, the sum over the tiers of the least cost
+ lambda U / budget, less lambda (weak duality). A first schedule bounds it from above, and a design
that costs more than that, with all others at their least, is removed. HiGHS decides among the rest.

Latency is evaluated outside of the program, by period. Designs that are too slow together in a
period are cut off with all that have, in that period, no more servers and no more vCPUs in any
tier, extended as far as that holds, and in all periods with at least that load.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.tolerances import CENT, GAP_LEAST, LOG_ROUNDING
from optimizer.plan.solve.deadline import Clock, Deadline
from optimizer.plan.solve.schedule import (
    USD,
    Bought,
    Design,
    HourlyProblem,
    HourlyTier,
    Measure,
    Schedule,
    Sizes,
    committed,
    designs,
    least_cost,
    screened,
    starts,
)
from optimizer.plan.solve.schedule_model import Caps, Cut, ScheduleModel, counts_of

_FLOORS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the busiest hour's machines, where latency is limited
_HEADROOM = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_FIRST = 4  # designs a tier for the first schedule, at each price
_PRICES = (0.0, 0.5, 1.0, 2.0, 10.0, 1000.0)  # of availability, times the fair one
_CUTS_MAX = 3_000
_COUNTS_MAX = 40_000  # of machines, that a program decides on: it takes seconds to be written down
_HALVINGS = 80
_OF_TIME = 0.85  # that is left, for HiGHS: it looks at the clock between long steps only


@dataclass(frozen=True)
class FoundSchedule:
    """The best schedule, None if none was found; `value` in the measure that was asked for.

    `gap`: nothing costs less than (1 - gap) times this; 0 where that is proved, None without a
    schedule and without a proof that there is none.
    """

    schedule: Schedule | None
    value: float | None
    gap: float | None
    designs: int = 0
    solves: int = 0
    cuts: int = 0

    @property
    def proved(self) -> bool:
        return self.gap == 0.0


@dataclass(frozen=True)
class Pool:
    """A tier's designs, with what each costs at least and its share of the availability budget."""

    designs: tuple[Design, ...]
    least: tuple[float, ...]
    lost: tuple[float, ...]

    def keep(self, rows: Sequence[int]) -> Pool:
        """Only these."""
        return Pool(
            tuple(self.designs[i] for i in rows),
            tuple(self.least[i] for i in rows),
            tuple(self.lost[i] for i in rows),
        )


def cheapest_schedule(
    problem: HourlyProblem,
    *,
    measure: Measure = USD,
    caps: Caps | None = None,
    limit_s: float,
    clock: Clock = time.monotonic,
) -> FoundSchedule:
    """Return the schedule of least `measure` that keeps all limits and `caps`, within `limit_s`
    seconds.

    Raises: OutOfTimeError if the time ends while the designs are made.
    """
    deadline = Deadline(limit_s, clock)
    pools = pools_of(problem, measure, deadline, for_cost=measure == USD and not caps)
    if not all(pool.designs for pool in pools):
        return FoundSchedule(None, None, 0.0)
    price, least = best_price(pools)
    if math.isinf(least):
        return FoundSchedule(None, None, 0.0)
    best = _first(problem, pools, price, measure, caps, deadline)
    value = math.inf if best is None else best.total(problem, measure)
    left = _affordable(pools, price, value)
    count = sum(len(pool.designs) for pool in left)
    search = _Search(problem, left, best, least, measure, caps, deadline)
    return replace(search.run(), designs=count)


def pools_of(
    problem: HourlyProblem, measure: Measure, deadline: Deadline, *, for_cost: bool = False
) -> list[Pool]:
    """Return all designs of all tiers that alone fit in the availability budget.

    `for_cost`: those that a cheapest schedule may have.
    """
    limited = problem.slow is not None
    most = problem.unavailability_max
    pools = []
    for t in range(len(problem.tiers)):
        found = designs(
            problem, t, deadline.check,
            _HEADROOM if limited else (0,), _FLOORS if limited else (0.0,), for_cost=for_cost,
        )  # fmt: skip
        if most is not None:
            found = [one for one in found if one.unavailability <= most]
        found = _undominated(problem, found)
        pools.append(
            Pool(
                tuple(found),
                tuple(least_cost(problem, one, measure) for one in found),
                tuple(0.0 if most is None else one.unavailability / most for one in found),
            )
        )
    return pools


def _undominated(problem: HourlyProblem, found: Sequence[Design]) -> list[Design]:
    """Remove designs that another one dominates.

    The other one has their machines and sizes, no more loss and no more machines in any period.
    """
    if problem.slow is not None:
        return list(found)
    kept: list[Design] = []
    for one in sorted(found, key=lambda d: (d.extra, -len(d.machines), d.unavailability)):
        if not any(_covers(other, one) for other in kept):
            kept.append(one)
    return kept


def _covers(other: Design, one: Design) -> bool:
    """True if every fleet of `one` is one of `other`, which loses no more."""
    return (
        other.extra == one.extra
        and other.unavailability <= one.unavailability
        and set(one.machines) <= set(other.machines)
        and (other.extra == 0 or max(_sizes(other)) == max(_sizes(one)))
        and other.counted == one.counted
    )


def _sizes(one: Design) -> list[float]:
    return [unit * one.vcpus for unit in one.units]


def best_price(pools: Sequence[Pool]) -> tuple[float, float]:
    """Return the price of availability with the highest lower bound, and that bound."""

    def at(price: float) -> tuple[float, float]:
        value, used = -price, 0.0
        for pool in pools:
            rows = zip(pool.least, pool.lost, strict=True)
            cost, lost = min((c + price * u, u) for c, u in rows)
            value, used = value + cost, used + lost
        return value, used

    bound, used = at(0.0)
    if used <= 1.0:
        return 0.0, bound + 0.0
    if math.fsum(min(pool.lost) for pool in pools) > 1.0:
        return 0.0, math.inf  # even the most available designs lose too much
    low, high = 0.0, 1.0
    while at(high)[1] > 1.0 and high < 1e15:
        low, high = high, 4 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[1] > 1.0 else (low, middle)
    return high, max(at(low)[0], at(high)[0])


def _affordable(pools: Sequence[Pool], price: float, most: float) -> list[Pool]:
    """Remove designs that no schedule below `most` can have."""
    if math.isinf(most):
        return list(pools)
    weights = [
        [c + price * u for c, u in zip(pool.least, pool.lost, strict=True)] for pool in pools
    ]
    total = math.fsum(min(own) for own in weights) - price
    slack = most * (1.0 + LOG_ROUNDING) - total
    return [
        pool.keep([i for i, w in enumerate(own) if w - min(own) <= slack])
        for pool, own in zip(pools, weights, strict=True)
    ]


def _first(
    problem: HourlyProblem,
    pools: Sequence[Pool],
    price: float,
    measure: Measure,
    caps: Caps | None,
    deadline: Deadline,
) -> Schedule | None:
    """Return a cheap schedule among few designs, without a proof."""
    if problem.slow is not None:
        return _first_fast(problem, pools, price, measure, deadline)
    known = None if caps else _by_curves(problem, pools, price, measure)
    if known is not None:
        return known
    few = []
    for pool in pools:
        rows: set[int] = set()
        for factor in _PRICES:
            own = [c + price * factor * u for c, u in zip(pool.least, pool.lost, strict=True)]
            rows |= set(sorted(range(len(own)), key=own.__getitem__)[:_FIRST])
        few.append(pool.keep(sorted(rows)))
    model = ScheduleModel(problem, [pool.designs for pool in few], measure, caps)
    return model.solve(deadline.left_s() / 4).schedule


def _by_curves(
    problem: HourlyProblem, pools: Sequence[Pool], price: float, measure: Measure
) -> Schedule | None:
    """Return the best of few choices of designs of one size, each bought by its screening curve,
    with machines that run on until their least time is over; None if none keeps the limits.
    """
    best: Schedule | None = None
    for factor in _PRICES:
        chosen = []
        for pool in pools:
            rows = [i for i, one in enumerate(pool.designs) if one.counted]
            if not rows:
                return None
            weight = {i: pool.least[i] + price * factor * pool.lost[i] for i in rows}
            chosen.append(pool.designs[min(rows, key=weight.__getitem__)])
        bought = tuple(
            tuple(_running_on(problem, b) for b in screened(problem, one, measure))
            for one in chosen
        )
        found = Schedule(tuple(chosen), bought)
        if violations(problem, found):
            continue
        if best is None or found.total(problem, measure) < best.total(problem, measure):
            best = found
    return best


def _running_on(problem: HourlyProblem, one: Bought) -> Bought:
    """Return the schedule with machines that run for their least time."""
    if committed(one.machine):
        return one
    running, count = list(one.running), len(one.running)
    lately = min(problem.run_h_min, count)
    for _ in range(count):  # each round lengthens runs; after so many all are whole
        begun = starts(running)
        least = [sum(begun[(p - k) % count] for k in range(lately)) for p in range(count)]
        if all(now >= low for now, low in zip(running, least, strict=True)):
            break
        running = [max(now, low) for now, low in zip(running, least, strict=True)]
    return replace(one, running=tuple(running))


def _first_fast(
    problem: HourlyProblem,
    pools: Sequence[Pool],
    price: float,
    measure: Measure,
    deadline: Deadline,
) -> Schedule | None:
    """Return a schedule of the cheapest designs for their speed that meets the latency.

    There is one design for each number of vCPUs. All are raised together until no period is too
    slow.
    """
    best: Schedule | None = None
    for factor in (1.0, 10.0):
        ladders = [_ladder(pool, price * factor) for pool in pools]
        low, high = -1, max(len(ladder) for ladder in ladders) - 1
        if _fails(problem, _on_step(ladders, high)):
            continue
        while high - low > 1 and not deadline.over():
            middle = (low + high) // 2
            fails = _fails(problem, _on_step(ladders, middle))
            low, high = (middle, high) if fails else (low, middle)
        model = ScheduleModel(problem, [[one] for one in _on_step(ladders, high)], measure)
        found = model.solve(deadline.left_s() / 4).schedule
        if found is not None and (
            best is None or found.total(problem, measure) < best.total(problem, measure)
        ):
            best = found
    return best


def _fails(problem: HourlyProblem, chosen: Sequence[Design]) -> bool:
    return not _fits(problem, chosen) or _too_slow(problem, chosen)


def _on_step(ladders: Sequence[Sequence[Design]], step: int) -> list[Design]:
    """Return the designs of all tiers at this step, scaled to the length of each ladder."""
    share = step / max(1, max(len(ladder) for ladder in ladders) - 1)
    return [ladder[round(share * (len(ladder) - 1))] for ladder in ladders]


def _ladder(pool: Pool, price: float) -> list[Design]:
    """Designs that are dearer step by step, and larger in every period."""
    rows = sorted(range(len(pool.designs)), key=lambda i: pool.least[i] + price * pool.lost[i])
    kept: list[Design] = []
    for i in rows:
        one = pool.designs[i]
        if not kept or (
            one.vcpus >= kept[-1].vcpus
            and all(a >= b for a, b in zip(one.needed, kept[-1].needed, strict=True))
        ):
            kept.append(one)
    return kept


def _fits(problem: HourlyProblem, chosen: Sequence[Design]) -> bool:
    most = problem.unavailability_max
    return most is None or math.fsum(one.unavailability for one in chosen) <= most


def _sizes_at(chosen: Sequence[Design], period: int) -> Sizes:
    return tuple((one.needed[period], one.vcpus) for one in chosen)


def _too_slow(problem: HourlyProblem, chosen: Sequence[Design]) -> bool:
    return _slow_period(problem, chosen) is not None


def _slow_period(problem: HourlyProblem, chosen: Sequence[Design]) -> int | None:
    """Return the busiest period in which these designs together are too slow."""
    if problem.slow is None:
        return None
    order = sorted(range(len(problem.periods)), key=lambda p: -problem.periods[p].load)
    return next((p for p in order if problem.slow(p, _sizes_at(chosen, p))), None)


class _Search:
    """The loop: propose, evaluate, cut."""

    def __init__(
        self,
        problem: HourlyProblem,
        pools: Sequence[Pool],
        best: Schedule | None,
        least: float,
        measure: Measure,
        caps: Caps | None,
        deadline: Deadline,
    ) -> None:
        self._problem, self._pools = problem, [pool.designs for pool in pools]
        self._best, self._least, self._measure = best, least, measure
        self._deadline = deadline
        self._solves = self._cuts = 0
        self._caps = caps

    def run(self) -> FoundSchedule:
        """Search until a proposed schedule keeps all limits, none is left, or a bound is met."""
        large = counts_of(self._problem, self._pools, self._caps or {}) > _COUNTS_MAX
        if self._deadline.over() or large:
            return self._end(proved=False)
        self._model = ScheduleModel(self._problem, self._pools, self._measure, self._caps)
        while not self._deadline.over() and self._cuts < _CUTS_MAX:
            found = self._model.solve(_OF_TIME * self._deadline.left_s())
            self._solves += 1
            if found.proved and found.schedule is None:
                return self._end(proved=True)
            self._least = max(self._least, found.bound)
            if found.schedule is None:
                break
            if not _fits(self._problem, found.schedule.designs):
                self._forbid(found.schedule.designs)
                continue
            period = _slow_period(self._problem, found.schedule.designs)
            if period is None:
                self._take(found.schedule)
                return self._end(proved=found.proved)
            if not found.proved:
                break
            self._cut(found.schedule.designs, period)
        return self._end(proved=False)

    def _take(self, one: Schedule) -> None:
        total = one.total(self._problem, self._measure)
        if self._best is None or total < self._best.total(self._problem, self._measure):
            self._best = one

    def _end(self, *, proved: bool) -> FoundSchedule:
        if self._best is None:
            return FoundSchedule(
                None, None, 0.0 if proved else None, solves=self._solves, cuts=self._cuts
            )
        value = self._best.total(self._problem, self._measure)
        gap = 0.0
        if not proved and value - self._least > CENT:
            gap = max(GAP_LEAST, 1.0 - self._least / value)
        return FoundSchedule(self._best, value, gap, solves=self._solves, cuts=self._cuts)

    def _forbid(self, chosen: Sequence[Design]) -> None:
        """Cut off designs that are inside the solver's tolerance, and outside of the limit."""
        self._model.cut(
            tuple((pool.index(one),) for pool, one in zip(self._pools, chosen, strict=True))
        )
        self._cuts += 1

    def _cut(self, chosen: Sequence[Design], period: int) -> None:
        """Forbid them, and whatever is no faster, in this period and in busier ones."""
        slow = self._problem.slow
        assert slow is not None
        tiers = range(len(chosen))
        for order in dict.fromkeys((tuple(tiers), tuple(reversed(tiers)))):
            corner = self._raised(_sizes_at(chosen, period), period, order)
            load = self._problem.periods[period].load
            for p, other in enumerate(self._problem.periods):
                cut = self._no_faster(corner, p) if other.load >= load else ()
                if cut and all(cut):  # else a tier is large enough in any case
                    self._model.cut(cut)
                    self._cuts += 1

    def _no_faster(self, corner: Sizes, period: int) -> Cut:
        return tuple(
            tuple(
                d
                for d, one in enumerate(pool)
                if one.needed[period] <= servers and one.vcpus <= vcpus
            )
            for pool, (servers, vcpus) in zip(self._pools, corner, strict=True)
        )

    def _raised(self, sizes: Sizes, period: int, order: Sequence[int]) -> Sizes:
        """Sizes that are still too slow, each tier as large as that allows, in `order`."""
        slow = self._problem.slow
        assert slow is not None
        now = list(sizes)
        for t in order:
            pool = self._pools[t]
            for field, values in (
                (1, sorted({one.vcpus for one in pool if one.vcpus > now[t][1]})),
                (0, sorted({one.needed[period] for one in pool if one.needed[period] > now[t][0]})),
            ):
                low, high = -1, len(values)
                while high - low > 1:
                    middle = (low + high) // 2
                    trial = list(now)
                    trial[t] = _with(now[t], field, values[middle])
                    low, high = (middle, high) if slow(period, tuple(trial)) else (low, middle)
                if low >= 0:
                    now[t] = _with(now[t], field, values[low])
        return tuple(now)


def _with(size: tuple[int, float], field: int, value: float) -> tuple[int, float]:
    return (size[0], value) if field else (int(value), size[1])


def violations(problem: HourlyProblem, found: Schedule) -> list[str]:
    """Return the limits that a schedule breaks, evaluated without the solver and its tolerances."""
    broken = []
    for tier, design, bought in zip(problem.tiers, found.designs, found.bought, strict=True):
        capacity = {one.name: c for one, c in zip(tier.machines, tier.carried_per_s, strict=True)}
        for p in range(len(problem.periods)):
            running = [capacity[one.machine.name] for one in bought for _ in range(one.running[p])]
            if not _stands(problem, tier, design, p, running):
                broken.append(f"{tier.name}, period {p}")
        broken += [
            f"{tier.name}: {one.machine.name} not bought"
            for one in bought
            if committed(one.machine) and max(one.running) > one.standing
        ]
    if not _fits(problem, found.designs):
        broken.append("availability")
    if _too_slow(problem, found.designs):
        broken.append("latency")
    return [*broken, *_over_quota(problem, found), *_stopped_early(problem, found)]


def _stands(
    problem: HourlyProblem,
    tier: HourlyTier,
    design: Design,
    period: int,
    running: Sequence[float],
) -> bool:
    """True if the tier carries the load of a period without any `extra` of its machines."""
    left = sorted(running)[: max(0, len(running) - design.extra)]
    load = tier.request_per_s * problem.periods[period].load / problem.utilisation_max
    enough = math.fsum(left) >= load * (1.0 - LOG_ROUNDING)
    if problem.slow is not None and len(left) < design.needed[period]:
        return False
    return enough and len(left) >= tier.least and len(running) >= tier.fewest


def _over_quota(problem: HourlyProblem, found: Schedule) -> list[str]:
    return [
        f"quota {q}, period {p}"
        for q, quota in enumerate(problem.quotas)
        for p in range(len(problem.periods))
        if found.quota_used(problem, quota, p) > quota.most
    ]


def _stopped_early(problem: HourlyProblem, found: Schedule) -> list[str]:
    """Machines by the hour that run for less than their least time.

    Of those that run in a period no fewer may be than were started in the last ones."""
    broken = []
    count = len(problem.periods)
    for one in (one for tier in found.bought for one in tier if not one.standing):
        begun = starts(one.running)
        for p in range(count):
            lately = range(min(problem.run_h_min, count))
            if sum(begun[(p - k) % count] for k in lately) > one.running[p]:
                broken.append(f"{one.machine.name}, period {p}: stopped early")
    return broken
