r"""The cheapest plan under latency limits for long chains of tiers: labels, route by route.

Cuts of the kind "this fleet is too slow, and so are all smaller ones" prove little each: with six
tiers thousands are needed. But a tier depends on the tiers below it only by the law of the time
spent there, a few numbers; if none of them grows, the tiers above are no slower (`problem.Chain`).
A label is one way to build the tiers t..N of a route (replicas r_1 ... r_N). Only labels count that
no other one beats in cost, loss of log availability, and each of these numbers.

Labels are built from the back to the front. A label is removed if it costs more than a known plan
together with the cheapest tiers above it, if its loss does not fit, or if it is too slow even with
the largest tiers above it. At the front, the remaining labels are tried in the order of their cost.
Each is evaluated as a whole plan; a fleet that is too slow removes all pairs that are no faster.

Routes are taken in the order of their least possible cost. A first round among few options (the
best for their speed at a price of availability) finds a cheap plan, the second proves the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.arrays import Floats, Ints, Mask
from core.tolerances import LOG_ROUNDING, USD_ROUNDING
from core.vocabulary import Mechanism
from optimizer.plan.solve.deadline import Check, Deadline, OutOfTimeError
from optimizer.plan.solve.incumbent import thin_pools
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import (
    Group,
    Pool,
    best_price,
    bounds,
    budget,
    cost,
    degraded_servers,
    keep_affordable,
    routes_by_cost,
    weights_at,
)
from optimizer.plan.solve.problem import Path, Problem, too_slow, violations
from optimizer.plan.solve.table import Columns, find_undominated

_FACTORS = (1.0, 3.0, 10.0, 30.0)  # times the price of availability
_ROUTES_TRIED = 24  # routes on which all factors are tried
_REDUCTIONS = 4  # rounds of removing options that are too slow, or then too dear
_COMPARED_AT = 100_000  # candidates at one tier
_LABELS_MAX = 100_000  # labels at one tier that no other one beats


class GivenUpError(Exception):
    """The search met its bound of time or memory; `least` is a proved lower bound of the cost."""

    def __init__(self, best: Path | None, least: float) -> None:
        self.best, self.least = best, least
        super().__init__("search given up")


def find_cheap(
    problem: Problem, pools: Sequence[Pool], best: Path | None, deadline: Deadline
) -> Path | None:
    """Return a cheap plan of `pools`, or `best` if it finds none cheaper.

    The plan is not proved to be the cheapest. The search sees few options of each route: the best
    for their speed at a price of availability. It finds this price on the first routes.
    """
    fair, time_s = best_price(problem, pools), _tier_time(problem)
    factors: tuple[float, ...] = _FACTORS
    best_factor = factors[0]
    routes = routes_by_cost(pools, weights_at(problem, pools, fair))
    for number, (priced, route) in enumerate(routes):
        if priced - fair >= cost(best) - USD_ROUNDING:
            break
        if number == _ROUTES_TRIED:
            factors = (best_factor,)
        try:
            deadline.check()
            remaining = _reduce(problem, _pools_on_route(pools, route), best, deadline.check)
            for factor in factors:
                remaining = _keep_affordable(problem, remaining, best) if remaining else []
                price = factor * fair
                thin = (
                    thin_pools(problem, remaining, price, time_s, deadline.check)
                    if remaining
                    else []
                )
                thin = _keep_affordable(problem, thin, best) if remaining else []
                if not thin:
                    break
                cheaper = _Route(problem, thin, best, deadline.check, price).cheapest()
                if cheaper is not None:
                    best, best_factor = cheaper, factor
        except (OutOfTimeError, _FullError):
            return best
    return best


def find_cheapest(
    problem: Problem, pools: Sequence[Pool], best: Path | None, deadline: Deadline
) -> Path | None:
    """Return the cheapest plan of `pools`, or `best` if none is cheaper.

    Raises: GivenUpError when time or memory is used up, with the best plan up to then.
    """
    price = best_price(problem, pools)
    for priced, route in routes_by_cost(pools, weights_at(problem, pools, price)):
        if (least := priced - price) >= cost(best) - USD_ROUNDING:
            break
        try:
            deadline.check()
            remaining = _reduce(problem, _pools_on_route(pools, route), best, deadline.check)
            if not remaining:
                continue
            best = _Route(problem, remaining, best, deadline.check, None).cheapest() or best
        except (OutOfTimeError, _FullError) as error:
            raise GivenUpError(best, min(least, cost(best))) from error
    return best


class _FullError(Exception):
    """There are more labels than memory."""


def _pools_on_route(pools: Sequence[Pool], route: tuple[Group, ...]) -> list[Pool]:
    return [
        pool.keep(np.sort(pool.groups[group])) for pool, group in zip(pools, route, strict=True)
    ]


def _keep_affordable(problem: Problem, pools: Sequence[Pool], best: Path | None) -> list[Pool]:
    """Return the rest of a route; empty if a tier has nothing left."""
    remaining = keep_affordable(problem, pools, cost(best))
    return remaining if all(len(pool) for pool in remaining) else []


def _reduce(problem: Problem, pools: list[Pool], best: Path | None, check: Check) -> list[Pool]:
    """Remove options that are too slow even with the largest remaining options of all other tiers.

    Then options that are too dear are removed, and so on for some rounds. Returns an empty list if
    a tier has nothing left.
    """
    pools = _keep_affordable(problem, pools, best)
    for _ in range(_REDUCTIONS):
        before = sum(map(len, pools))
        for t in range(len(pools)):
            if pools:
                pools[t] = pools[t].keep(_find_fast_alone(problem, pools, t, check))
                pools = _keep_affordable(problem, pools, best) if len(pools[t]) else []
        if sum(map(len, pools)) > 0.9 * before:
            break
    return pools


def _find_fast_alone(problem: Problem, pools: Sequence[Pool], t: int, check: Check) -> Mask:
    """Return a mask of the options of tier t that are fast enough with the largest other tiers."""
    largest = [largest_of(problem, pool) for pool in pools]
    c = pools[t].columns

    def slow(i: int) -> bool:
        return too_slow(problem, (*largest[:t], pools[t].option(i), *largest[t + 1 :]))

    return _find_fast(-_sizes(problem, c), c.needed * c.vcpus, slow, check)


def _find_fast(times: Floats, order: Floats, slow: Callable[[int], bool], check: Check) -> Mask:
    """Return a mask of the rows of `times` that are not `slow`.

    A row with no lower figure than a slow one is slow as well. The middle one by `order` is asked
    each time.
    """
    alive = np.zeros(len(times), dtype=bool)
    undecided = ~alive
    while undecided.any():
        check()
        rows = np.flatnonzero(undecided)
        i = int(rows[np.argsort(order[rows])[len(rows) // 2]])
        if slow(i):
            undecided &= ~np.all(times >= times[i], axis=1)
        else:
            faster = np.all(times <= times[i], axis=1)
            alive |= faster
            undecided &= ~faster
    return alive


def _sizes(problem: Problem, c: Columns) -> Floats:
    """Return the figures that make a tier fast, (n, 2 or 3)."""
    columns = [c.needed, c.vcpus]
    if problem.degraded is not None:
        columns.append(degraded_servers(problem.degraded, c))
    return np.stack(columns, axis=1).astype(np.float64)


def _tier_time(problem: Problem) -> Callable[[int, Option], float]:
    """Return a function that gives the mean time [s] in one tier alone, by the chain."""
    chain = problem.chain
    assert chain is not None
    known: dict[tuple[float, ...], float] = {}

    def mean_s(t: int, option: Option) -> float:
        key = (t, option.upstream, option.replicas, option.needed, option.instance.vcpus)
        if key not in known:
            known[key] = float(chain.mean_s(chain.above(t, option, None))[0])
        return known[key]

    return mean_s


@dataclass(frozen=True, eq=False)
class Labels:
    """Ways to build tier t and all below it.

    Option `row` of tier t, then label `below` of the next tier; `law` is the number of the law of
    the time in these tiers."""

    usd: Floats
    loss: Floats
    law: Ints
    row: Ints
    below: Ints

    def __len__(self) -> int:
        return len(self.usd)

    def columns(self) -> tuple[Floats | Ints, ...]:
        return self.usd, self.loss, self.law, self.row, self.below

    def keep(self, rows: Ints | Mask) -> Labels:
        return Labels(*(column[rows] for column in self.columns()))  # type: ignore[arg-type]


class _Laws:
    """The laws of one tier, each computed once for a size of the tier and a law below it."""

    def __init__(self, problem: Problem, tier: int, below: _Laws | None) -> None:
        assert problem.chain is not None
        self._degraded, self._chain = problem.degraded, problem.chain
        self._tier, self._below = tier, below
        self._parts: list[Floats] = []
        self._count = 0
        self._known: dict[tuple[int, float, int], Ints] = {}

    def numbers(self, option: Option, below: Ints) -> Ints:
        """Return the number of the law of `option` for each law `below`; equal in the last tier."""
        size = 1 if self._below is None else self._below._count
        left = 0 if self._degraded is None else self._degraded.servers(option)
        key = (option.needed, option.instance.vcpus, left)
        known = self._known.get(key, np.zeros(0, dtype=np.int64))
        if len(known) < size:
            known = np.append(known, np.full(size - len(known), -1))
            self._known[key] = known
        new = np.unique(below[known[below] < 0])
        if len(new):
            laws = None if self._below is None else self._below.all()[new]
            known[new] = self._count + np.arange(len(new))
            self._parts.append(self._chain.above(self._tier, option, laws))
            self._count += len(new)
        return known[below]

    def all(self) -> Floats:
        """Return all laws, one in a row."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]


class _Route:
    """The search on one route: each of `pools` holds one group.

    `price` is for the whole availability budget: with it, cost and loss are compared as one sum.
    """

    def __init__(
        self,
        problem: Problem,
        pools: Sequence[Pool],
        best: Path | None,
        check: Check,
        price: float | None,
    ) -> None:
        assert len(pools) > 1
        self._problem, self._pools, self._check, self._sum_price = problem, pools, check, price
        self._most = cost(best)
        self._budget = budget(problem) * (1.0 + LOG_ROUNDING)
        self._price = best_price(problem, pools)
        self._above_usd = _least_above(pools, [pool.columns.usd for pool in pools])
        self._above_priced = _least_above(pools, weights_at(problem, pools, self._price))
        self._above_loss = _least_above(pools, [pool.columns.loss for pool in pools])
        self._largest = tuple(largest_of(problem, pool) for pool in pools)
        self._labels: list[Labels] = []  # [t], once it is built
        self._laws: list[_Laws] = []  # [t]
        for t in reversed(range(len(pools))):
            self._laws.insert(0, _Laws(problem, t, self._laws[0] if self._laws else None))

    def cheapest(self) -> Path | None:
        """Return the cheapest plan; None if no plan costs less than `best`.

        Raises: _FullError; the errors of the check.
        """
        last = len(self._pools) - 1
        self._labels = [self._label_last_tier()] * (last + 1)
        for t in range(last, 0, -1):
            if t == last:
                self._labels[t] = self._keep_fast_enough(t, self._labels[t])
            else:
                self._labels[t] = self._label_tier(t)
            if not len(self._labels[t]):
                return None
        return self._find_cheapest_pair(self._labels[1])

    def _label_last_tier(self) -> Labels:
        """Return one label per option of the last tier."""
        t, pool = len(self._pools) - 1, self._pools[-1]
        rows = np.flatnonzero(self._fits(t, pool.columns.usd, pool.columns.loss))
        only = np.zeros(1, dtype=np.int64)
        laws = [int(self._laws[t].numbers(pool.option(int(row)), only)[0]) for row in rows]
        c = pool.columns
        return Labels(c.usd[rows], c.loss[rows], np.array(laws, dtype=np.int64), rows, rows)

    def _label_tier(self, t: int) -> Labels:
        """Return the labels of tier t: each option of it before each label below it.

        Labels that cost or lose too much, are too slow, or are beaten by others are removed. They
        are compared each time that many have come together.
        """
        below = self._labels[t + 1]
        labels, fresh, count = below.keep(np.zeros(0, dtype=np.int64)), [], 0
        for part in self._extend(t, below):
            fresh.append(part)
            count += len(part)
            if count > _COMPARED_AT:
                labels, fresh, count = self._prune(t, [labels, *fresh]), [], 0
                if len(labels) > _LABELS_MAX:
                    raise _FullError
        return self._prune(t, [labels, *fresh])

    def _prune(self, t: int, parts: Sequence[Labels]) -> Labels:
        columns = zip(*(part.columns() for part in parts), strict=True)
        labels = Labels(*(np.concatenate(column) for column in columns))
        if self._sum_price is not None:
            return self._keep_fast_enough(t, self._remove_dominated(t, labels))
        return self._remove_dominated(t, self._keep_fast_enough(t, labels))

    def _extend(self, t: int, below: Labels) -> Iterator[Labels]:
        c, pool = self._pools[t].columns, self._pools[t]
        for row in range(len(pool)):
            self._check()
            usd, loss = below.usd + c.usd[row], below.loss + c.loss[row]
            affordable_rows = np.flatnonzero(self._fits(t, usd, loss))
            if not len(affordable_rows):
                continue
            laws = self._laws[t].numbers(pool.option(row), below.law[affordable_rows])
            option_rows = np.full(len(affordable_rows), row, dtype=np.int64)
            yield Labels(
                usd[affordable_rows], loss[affordable_rows], laws, option_rows, affordable_rows
            )

    def _fits(self, t: int, usd: Floats, loss: Floats) -> Mask:
        """Return a mask: True where a plan with this cost and loss from tier t on can still fit."""
        fits: Mask = usd + self._above_usd[t] <= self._most + USD_ROUNDING
        if math.isfinite(self._budget):
            priced = usd + (self._price / self._budget) * loss + self._above_priced[t]
            fits = fits & (loss + self._above_loss[t] <= self._budget)
            fits = fits & (priced <= self._most + self._price * (1.0 + LOG_ROUNDING) + USD_ROUNDING)
        return fits

    def _remove_dominated(self, t: int, labels: Labels) -> Labels:
        if not len(labels):
            return labels
        columns = [labels.usd]
        if self._problem.unavailability_max is not None:
            if self._sum_price is None:
                columns.append(labels.loss)
            else:
                columns = [labels.usd + (self._sum_price / self._budget) * labels.loss]
        table = np.stack(columns, axis=1)
        rows = _best_of_each(labels.law, table)
        laws = self._laws[t].all()[labels.law[rows]]
        full_table = np.concatenate([table[rows], laws], axis=1)
        return labels.keep(rows[find_undominated(full_table, self._check)])

    def _keep_fast_enough(self, t: int, labels: Labels) -> Labels:
        """Return the labels that are fast enough with the largest tiers above them."""
        if not len(labels):
            return labels
        used, first = np.unique(labels.law, return_index=True)
        laws = self._laws[t].all()[used]

        def slow(i: int) -> bool:
            path = (*self._largest[:t], *self._path(t, labels, int(first[i])))
            return too_slow(self._problem, path)

        alive = _find_fast(laws, laws.sum(axis=1), slow, self._check)
        return labels.keep(np.isin(labels.law, used[alive]))

    def _path(self, t: int, labels: Labels, i: int) -> Path:
        """Return the options of a label of tier t, from there to the back."""
        option = self._pools[t].option(int(labels.row[i]))
        if t + 1 == len(self._pools):
            return (option,)
        return (option, *self._path(t + 1, self._labels[t + 1], int(labels.below[i])))

    def _find_cheapest_pair(self, below: Labels) -> Path | None:
        """Return the cheapest of all pairs of an option of the first tier and a label below it."""
        pool = self._pools[0]
        c = pool.columns
        usd = (c.usd[:, None] + below.usd[None, :]).ravel()
        loss = (c.loss[:, None] + below.loss[None, :]).ravel()
        rows = np.flatnonzero((usd < self._most - USD_ROUNDING) & (loss <= self._budget))
        order = rows[np.argsort(usd[rows], kind="stable")]
        option, label = np.divmod(order, len(below))
        laws = self._laws[1].all()
        sizes, law = _sizes(self._problem, c)[option], below.law[label]
        untried = np.ones(len(order), dtype=bool)
        while untried.any():
            self._check()
            i = int(np.argmax(untried))
            path = (pool.option(int(option[i])), *self._path(1, below, int(label[i])))
            broken = violations(self._problem, path)
            if not broken:
                return path
            untried[i] = False
            if set(broken) & {"latency", "degraded"}:
                slower = np.all(laws >= laws[law[i]], axis=1)[law]
                untried &= ~(slower & np.all(sizes <= sizes[i], axis=1))
        return None


def largest_of(problem: Problem, pool: Pool) -> Option:
    """Return an option at least as large as each of the pool; it need not exist.

    It is as large in nodes, in vCPUs, and in the servers that are left when it is degraded.
    """
    option, c = pool.option(0), pool.columns
    machine = replace(option.instance, vcpus=float(c.vcpus.max()))
    large = replace(option, needed=int(c.needed.max()), instance=machine)
    if problem.degraded is None:
        return large
    missing = large.needed - int(degraded_servers(problem.degraded, c).max())
    extra = problem.degraded.nodes_down - missing
    return replace(large, mechanism=Mechanism.ara, extra=extra)


def _least_above(pools: Sequence[Pool], weights: Sequence[Floats]) -> list[float]:
    """Return the least sum of a weight over the tiers above each tier of a route."""
    known = bounds(pools, weights)
    return [min(before.values()) for before in known.before]


def _best_of_each(law: Ints, table: Floats) -> Ints:
    """Return the rows of each law that no other row of the same law matches or undercuts.

    The table has one or two columns. The last one decreases from row to row of the result.
    """
    order = np.lexsort((*(table.T[::-1]), law))
    ranks = np.unique(table[order, -1], return_inverse=True)[1].reshape(-1)
    groups = np.cumsum(np.diff(law[order], prepend=law[order[:1]]) != 0)
    keys = ranks - groups * (len(law) + 1)  # all keys of a law are below those of the law before
    least = np.minimum.accumulate(keys)
    rows: Ints = np.sort(order[np.append(True, keys[1:] < least[:-1])[: len(order)]])
    return rows
