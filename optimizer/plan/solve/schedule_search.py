"""The search for the cheapest schedule: bounds, screening, HiGHS, and cuts of slow ones.

The least cost of each design by itself (`schedule.least_cost`) and its unavailability U bound the
cost of every schedule from below (weak duality). With a price lambda of the availability budget,
the bound is the sum over the tiers of the least cost + lambda U / budget, less lambda. A first
schedule is the bound from above. A design that costs more than that, with all others at their
least, is removed. HiGHS decides among the rest.

Latency is evaluated outside of the program, by period. Designs that are too slow together in a
period are cut off, and so are all designs that have no more servers and no more vCPUs in any tier
in that period. The sizes of the cut are raised as far as they stay too slow, and the cut holds in
all periods with at least that load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from core.tolerances import CENT, GAP_LEAST, LOG_ROUNDING
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.problem import find_last
from optimizer.plan.solve.schedule import (
    USD,
    Bought,
    Design,
    HourlyProblem,
    HourlyTier,
    Measure,
    Schedule,
    Sizes,
    cheapest_machines,
    committed,
    designs,
    least_cost,
    sizes_at,
    starts,
)
from optimizer.plan.solve.schedule_model import Caps, Cut, ScheduleModel, counts_of

_FIRST = 4  # designs a tier for the first schedule, at each price
_PRICES = (0.0, 0.5, 1.0, 2.0, 10.0, 1000.0)  # of availability, times the fair one
_CUTS_MAX = 3_000
_COUNTS_MAX = 40_000  # integer variables of a program: to write so many takes seconds
_HALVINGS = 80
_OF_TIME = (
    0.85  # share of the time left that HiGHS gets: it reads the clock only between long steps
)


@dataclass(frozen=True)
class FoundSchedule:
    """The best schedule, None if none was found; `value` is in the requested measure.

    `gap`: nothing costs less than (1 - gap) times this. It is 0 where the schedule is proved to be
    the best, or proved not to exist; None without a schedule and without such a proof.
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

    def weights(self, price: float) -> list[float]:
        """Return the least cost of each design, plus its unavailability at that price."""
        return [c + price * u for c, u in zip(self.least, self.lost, strict=True)]

    def keep(self, rows: Sequence[int]) -> Pool:
        return Pool(
            tuple(self.designs[i] for i in rows),
            tuple(self.least[i] for i in rows),
            tuple(self.lost[i] for i in rows),
        )


def cheapest_schedule(
    problem: HourlyProblem, deadline: Deadline, *, measure: Measure = USD, caps: Caps | None = None
) -> FoundSchedule:
    """Return the schedule of least `measure` that keeps all limits and `caps`.

    Raises: OutOfTimeError if the time ends while the designs are made.
    """
    pools = pools_of(problem, measure, deadline, for_cost=measure == USD and not caps)
    if not all(pool.designs for pool in pools):
        return FoundSchedule(None, None, 0.0)
    price, least = best_price(pools)
    if math.isinf(least):
        return FoundSchedule(None, None, 0.0)
    best = _find_first_schedule(problem, pools, price, measure, caps, deadline)
    value = math.inf if best is None else best.total(problem, measure)
    left = _remove_unaffordable(pools, price, value)
    count = sum(len(pool.designs) for pool in left)
    search = _Search(problem, left, best, least, measure, caps, deadline)
    return replace(search.run(), designs=count)


def pools_of(
    problem: HourlyProblem, measure: Measure, deadline: Deadline, *, for_cost: bool = False
) -> list[Pool]:
    """Return all designs of all tiers that alone fit in the availability budget.

    `for_cost`: only those that a cheapest schedule may have.
    """
    budget = problem.unavailability_max
    pools = []
    for t in range(len(problem.tiers)):
        candidates = designs(problem, t, deadline.check, for_cost=for_cost)
        if budget is not None:
            candidates = [design for design in candidates if design.unavailability <= budget]
        candidates = _remove_dominated(problem, candidates)
        pools.append(
            Pool(
                tuple(candidates),
                tuple(least_cost(problem, design, measure) for design in candidates),
                tuple(
                    0.0 if budget is None else design.unavailability / budget
                    for design in candidates
                ),
            )
        )
    return pools


def _remove_dominated(problem: HourlyProblem, candidates: Sequence[Design]) -> list[Design]:
    """Remove each design that another one dominates.

    The dominant design has its machines and sizes, no more loss, and in no period more machines.
    """
    if problem.slow is not None:
        return list(candidates)
    remaining: list[Design] = []
    for design in sorted(candidates, key=lambda d: (d.extra, -len(d.machines), d.unavailability)):
        if not any(_dominates(dominant, design) for dominant in remaining):
            remaining.append(design)
    return remaining


def _dominates(dominant: Design, design: Design) -> bool:
    """True if every fleet of `design` is also a fleet of `dominant`, which loses no more."""
    return (
        dominant.extra == design.extra
        and dominant.unavailability <= design.unavailability
        and set(design.machines) <= set(dominant.machines)
        and (dominant.extra == 0 or max(_sizes(dominant)) == max(_sizes(design)))
        and dominant.counted == design.counted
    )


def _sizes(design: Design) -> list[float]:
    return [unit * design.vcpus for unit in design.units]


def best_price(pools: Sequence[Pool]) -> tuple[float, float]:
    """Return the price of availability with the highest lower bound, and that bound."""

    def bound_at(price: float) -> tuple[float, float]:
        value, used = -price, 0.0
        for pool in pools:
            cost, lost = min(zip(pool.weights(price), pool.lost, strict=True))
            value, used = value + cost, used + lost
        return value, used

    bound, used = bound_at(0.0)
    if used <= 1.0:
        return 0.0, bound + 0.0
    if math.fsum(min(pool.lost) for pool in pools) > 1.0:
        return 0.0, math.inf  # even the most available designs lose too much
    low, high = 0.0, 1.0
    while bound_at(high)[1] > 1.0 and high < 1e15:
        low, high = high, 4 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if bound_at(middle)[1] > 1.0 else (low, middle)
    return high, max(bound_at(low)[0], bound_at(high)[0])


def _remove_unaffordable(pools: Sequence[Pool], price: float, most: float) -> list[Pool]:
    """Remove designs that no schedule below `most` can have."""
    if math.isinf(most):
        return list(pools)
    weights = [pool.weights(price) for pool in pools]
    total = math.fsum(min(tier_weights) for tier_weights in weights) - price
    slack = most * (1.0 + LOG_ROUNDING) - total
    return [
        pool.keep([i for i, w in enumerate(tier_weights) if w - min(tier_weights) <= slack])
        for pool, tier_weights in zip(pools, weights, strict=True)
    ]


def _find_first_schedule(
    problem: HourlyProblem,
    pools: Sequence[Pool],
    price: float,
    measure: Measure,
    caps: Caps | None,
    deadline: Deadline,
) -> Schedule | None:
    """Return a cheap schedule among few designs, without a proof."""

    def cheapest(schedules: Iterator[Schedule]) -> Schedule | None:
        return min(schedules, key=lambda schedule: schedule.total(problem, measure), default=None)

    if problem.slow is not None:
        return cheapest(_find_fast_schedules(problem, pools, price, measure, deadline))
    known = None if caps else cheapest(_buy_by_curves(problem, pools, price, measure))
    if known is not None:
        return known
    reduced = []
    for pool in pools:
        rows: set[int] = set()
        for factor in _PRICES:
            weights = pool.weights(price * factor)
            rows |= set(sorted(range(len(weights)), key=weights.__getitem__)[:_FIRST])
        reduced.append(pool.keep(sorted(rows)))
    model = ScheduleModel(problem, [pool.designs for pool in reduced], measure, caps)
    return model.solve(deadline.left_s() / 4).schedule


def _buy_by_curves(
    problem: HourlyProblem, pools: Sequence[Pool], price: float, measure: Measure
) -> Iterator[Schedule]:
    """Yield a few schedules, of designs with machines of one size, that keep the limits.

    The machines of each design are bought by its screening curve, and run on until their least
    time is over.
    """
    for factor in _PRICES:
        chosen = []
        for pool in pools:
            rows = [i for i, design in enumerate(pool.designs) if design.counted]
            if not rows:
                return
            weight = pool.weights(price * factor)
            chosen.append(pool.designs[min(rows, key=weight.__getitem__)])
        bought = tuple(
            tuple(_extend_runs(problem, b) for b in cheapest_machines(problem, design, measure))
            for design in chosen
        )
        schedule = Schedule(tuple(chosen), bought)
        if not violations(problem, schedule):
            yield schedule


def _extend_runs(problem: HourlyProblem, bought: Bought) -> Bought:
    """Return the schedule with machines that run for their least time."""
    if committed(bought.machine):
        return bought
    running, count = list(bought.running), len(bought.running)
    lately = min(problem.run_h_min, count)
    for _ in range(count):  # each round lengthens runs; after so many all are whole
        begun = starts(running)
        least = [sum(begun[(p - k) % count] for k in range(lately)) for p in range(count)]
        if all(running_now >= low for running_now, low in zip(running, least, strict=True)):
            break
        running = [max(running_now, low) for running_now, low in zip(running, least, strict=True)]
    return replace(bought, running=tuple(running))


def _find_fast_schedules(
    problem: HourlyProblem,
    pools: Sequence[Pool],
    price: float,
    measure: Measure,
    deadline: Deadline,
) -> Iterator[Schedule]:
    """Yield schedules of the cheapest designs for their speed that meet the latency limit.

    Each tier has a ladder of designs. All tiers go up their ladders together until no period is
    too slow.
    """
    for factor in (1.0, 10.0):
        ladders = [_build_ladder(pool, price * factor) for pool in pools]
        low, high = -1, max(len(ladder) for ladder in ladders) - 1
        if _fails(problem, _pick_step(ladders, high)):
            continue
        while high - low > 1 and not deadline.over():
            middle = (low + high) // 2
            fails = _fails(problem, _pick_step(ladders, middle))
            low, high = (middle, high) if fails else (low, middle)
        model = ScheduleModel(problem, [[design] for design in _pick_step(ladders, high)], measure)
        schedule = model.solve(deadline.left_s() / 4).schedule
        if schedule is not None:
            yield schedule


def _fails(problem: HourlyProblem, chosen: Sequence[Design]) -> bool:
    return not _fits(problem, chosen) or _slow_period(problem, chosen) is not None


def _pick_step(ladders: Sequence[Sequence[Design]], step: int) -> list[Design]:
    """Return the designs of all tiers at this step, scaled to the length of each ladder."""
    share = step / max(1, max(len(ladder) for ladder in ladders) - 1)
    return [ladder[round(share * (len(ladder) - 1))] for ladder in ladders]


def _build_ladder(pool: Pool, price: float) -> list[Design]:
    """Return designs that are dearer step by step, and larger in every period."""
    rows = sorted(range(len(pool.designs)), key=pool.weights(price).__getitem__)
    ladder: list[Design] = []
    for i in rows:
        design = pool.designs[i]
        if not ladder or (
            design.vcpus >= ladder[-1].vcpus
            and all(a >= b for a, b in zip(design.needed, ladder[-1].needed, strict=True))
        ):
            ladder.append(design)
    return ladder


def _fits(problem: HourlyProblem, chosen: Sequence[Design]) -> bool:
    most = problem.unavailability_max
    return most is None or math.fsum(design.unavailability for design in chosen) <= most


def _slow_period(problem: HourlyProblem, chosen: Sequence[Design]) -> int | None:
    """Return the busiest period in which these designs together are too slow."""
    if problem.slow is None:
        return None
    order = sorted(range(len(problem.periods)), key=lambda p: -problem.periods[p].load)
    return next((p for p in order if problem.slow(p, sizes_at(chosen, p))), None)


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
            proposed = self._model.solve(_OF_TIME * self._deadline.left_s())
            self._solves += 1
            if proposed.proved and proposed.schedule is None:
                return self._end(proved=True)
            self._least = max(self._least, proposed.bound)
            if proposed.schedule is None:
                break
            if not _fits(self._problem, proposed.schedule.designs):
                self._forbid(proposed.schedule.designs)
                continue
            period = _slow_period(self._problem, proposed.schedule.designs)
            if period is None:
                self._take(proposed.schedule)
                return self._end(proved=proposed.proved)
            if not proposed.proved:
                break
            self._cut(proposed.schedule.designs, period)
        return self._end(proved=False)

    def _take(self, schedule: Schedule) -> None:
        total = schedule.total(self._problem, self._measure)
        if self._best is None or total < self._best.total(self._problem, self._measure):
            self._best = schedule

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
            tuple((pool.index(design),) for pool, design in zip(self._pools, chosen, strict=True))
        )
        self._cuts += 1

    def _cut(self, chosen: Sequence[Design], period: int) -> None:
        """Forbid these designs, and all that are no faster, in this period and in busier ones."""
        slow = self._problem.slow
        assert slow is not None
        tiers = range(len(chosen))
        for order in dict.fromkeys((tuple(tiers), tuple(reversed(tiers)))):
            corner = self._raise_sizes(sizes_at(chosen, period), period, order)
            load = self._problem.periods[period].load
            for p, candidate in enumerate(self._problem.periods):
                cut = self._find_no_faster(corner, p) if candidate.load >= load else ()
                if cut and all(cut):  # else a tier is large enough in any case
                    self._model.cut(cut)
                    self._cuts += 1

    def _find_no_faster(self, corner: Sizes, period: int) -> Cut:
        return tuple(
            tuple(
                d
                for d, design in enumerate(pool)
                if design.needed[period] <= servers and design.vcpus <= vcpus
            )
            for pool, (servers, vcpus) in zip(self._pools, corner, strict=True)
        )

    def _raise_sizes(self, sizes: Sizes, period: int, order: Sequence[int]) -> Sizes:
        """Return sizes that are still too slow, each tier in `order` as large as possible."""
        slow = self._problem.slow
        assert slow is not None
        current = list(sizes)
        for t in order:

            def still_slow(size: tuple[int, float], t: int = t) -> bool:
                return slow(period, (*current[:t], size, *current[t + 1 :]))

            servers, vcpus = current[t]
            larger = sorted({d.vcpus for d in self._pools[t] if d.vcpus > vcpus})
            current[t] = find_last([current[t], *((servers, v) for v in larger)], still_slow)
            vcpus = current[t][1]
            counts = (d.needed[period] for d in self._pools[t])
            more = sorted({count for count in counts if count > servers})
            current[t] = find_last([current[t], *((n, vcpus) for n in more)], still_slow)
        return tuple(current)


def violations(problem: HourlyProblem, schedule: Schedule) -> list[str]:
    """Return the limits that a schedule breaks; they are evaluated without the solver."""
    broken = []
    for tier, design, bought in zip(problem.tiers, schedule.designs, schedule.bought, strict=True):
        capacity = {
            machine.name: c for machine, c in zip(tier.machines, tier.carried_per_s, strict=True)
        }
        for p in range(len(problem.periods)):
            running = [
                capacity[purchase.machine.name]
                for purchase in bought
                for _ in range(purchase.running[p])
            ]
            if not _carries_load(problem, tier, design, p, running):
                broken.append(f"{tier.name}, period {p}")
        broken += [
            f"{tier.name}: {purchase.machine.name} not bought"
            for purchase in bought
            if committed(purchase.machine) and max(purchase.running) > purchase.standing
        ]
    if not _fits(problem, schedule.designs):
        broken.append("availability")
    if _slow_period(problem, schedule.designs) is not None:
        broken.append("latency")
    return [*broken, *_find_over_quota(problem, schedule), *_find_early_stops(problem, schedule)]


def _carries_load(
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


def _find_over_quota(problem: HourlyProblem, schedule: Schedule) -> list[str]:
    return [
        f"quota {q}, period {p}"
        for q, quota in enumerate(problem.quotas)
        for p in range(len(problem.periods))
        if schedule.quota_used(problem, quota, p) > quota.most
    ]


def _find_early_stops(problem: HourlyProblem, schedule: Schedule) -> list[str]:
    """Return the machines by the hour that run for less than their least time.

    In each period, at least as many must run as were started in the last periods."""
    broken = []
    count = len(problem.periods)
    for purchase in (
        purchase for tier in schedule.bought for purchase in tier if not purchase.standing
    ):
        begun = starts(purchase.running)
        for p in range(count):
            lately = range(min(problem.run_h_min, count))
            if sum(begun[(p - k) % count] for k in lately) > purchase.running[p]:
                broken.append(f"{purchase.machine.name}, period {p}: stopped early")
    return broken
