r"""The cheapest plan under latency limits for long chains of tiers: labels, route by route.

Cuts of the kind "this fleet is too slow, and so are all smaller ones" prove little each: with six
tiers thousands are needed. But a tier depends on the tiers below it only by the law of the time
spent there, a few numbers; if none of them grows, the tiers above are no slower (`problem.Chain`).
So on a route (replicas r_1 ... r_N) only those ways to build the tiers t..N count that no other one
beats in cost, loss of log availability, and each of these numbers.

Labels are built from the back to the front. A label is removed if with the cheapest tiers above it
costs more than a known plan, if its loss does not fit, or if even the largest tiers above it are
too slow. The remaining ones at the front are tried in the order of their cost, and evaluated whole,
like every plan; a fleet that is too slow removes all pairs that are no faster.

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
from optimizer.plan.solve.incumbent import thinned
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import (
    Group,
    Pool,
    affordable,
    best_price,
    bounds,
    budget,
    cost,
    degraded_servers,
    routes_by_cost,
    weights_at,
)
from optimizer.plan.solve.problem import Path, Problem, too_slow, violations
from optimizer.plan.solve.table import Columns, undominated

_FACTORS = (1.0, 3.0, 10.0, 30.0)  # times the price of availability
_ROUTES_TRIED = 24  # with all of them
_REDUCTIONS = 4  # rounds of leaving out what is too slow, or too dear then
_COMPARED_AT = 100_000  # candidates at one tier
_LABELS_MAX = 100_000  # at one tier, that no other one beats


class GivenUpError(Exception):
    """The search met its bound of time or memory; `least` is what it has proved of the cost."""

    def __init__(self, best: Path | None, least: float) -> None:
        self.best, self.least = best, least
        super().__init__("search given up")


def cheap(
    problem: Problem, pools: Sequence[Pool], best: Path | None, deadline: Deadline
) -> Path | None:
    """Return a cheap plan of `pools`, not proved to be the cheapest; `best` if it finds none
    cheaper.

    Few options of each route are looked at: the best for their speed at a price of availability,
    which is tried out on the first routes.
    """
    fair, time_s = best_price(problem, pools), _time_in(problem)
    factors: tuple[float, ...] = _FACTORS
    good = factors[0]
    found = routes_by_cost(pools, weights_at(problem, pools, fair))
    for number, (priced, route) in enumerate(found):
        if priced - fair >= cost(best) - USD_ROUNDING:
            break
        if number == _ROUTES_TRIED:
            factors = (good,)
        try:
            deadline.check()
            some = _reduced(
                problem, _affordable(problem, _on(pools, route), best), best, deadline.check
            )
            for factor in factors:
                some = _affordable(problem, some, best) if some else []
                price = factor * fair
                thin = thinned(problem, some, price, time_s, deadline.check) if some else []
                thin = _affordable(problem, thin, best) if some else []
                if not thin:
                    break
                cheaper = _Route(problem, thin, best, deadline.check, price).cheapest()
                if cheaper is not None:
                    best, good = cheaper, factor
        except (OutOfTimeError, _FullError):
            return best
    return best


def cheapest(
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
            some = _reduced(
                problem, _affordable(problem, _on(pools, route), best), best, deadline.check
            )
            if not some:
                continue
            best = _Route(problem, some, best, deadline.check, None).cheapest() or best
        except (OutOfTimeError, _FullError) as ended:
            raise GivenUpError(best, min(least, cost(best))) from ended
    return best


class _FullError(Exception):
    """There are more labels than memory."""


def _on(pools: Sequence[Pool], route: tuple[Group, ...]) -> list[Pool]:
    return [
        pool.keep(np.sort(pool.groups[group])) for pool, group in zip(pools, route, strict=True)
    ]


def _affordable(problem: Problem, pools: Sequence[Pool], best: Path | None) -> list[Pool]:
    """Return the rest of a route; empty if a tier has nothing left."""
    found = affordable(problem, pools, cost(best))
    return found if all(len(pool) for pool in found) else []


def _reduced(problem: Problem, pools: list[Pool], best: Path | None, check: Check) -> list[Pool]:
    """Return the rest of a route without options that are too slow even if all other tiers are as
    large as any that is left; what is too dear by that goes too, and so on. Maybe nothing.
    """
    for _ in range(_REDUCTIONS):
        before = sum(map(len, pools))
        for t in range(len(pools)):
            if pools:
                pools[t] = pools[t].keep(_fast_alone(problem, pools, t, check))
                pools = _affordable(problem, pools, best) if len(pools[t]) else []
        if sum(map(len, pools)) > 0.9 * before:
            break
    return pools


def _fast_alone(problem: Problem, pools: Sequence[Pool], t: int, check: Check) -> Mask:
    """Options of tier t that are fast enough if all other tiers are as large as any."""
    others = [largest_of(problem, pool) for pool in pools]
    c, sizes = pools[t].columns, _sizes(problem, pools[t].columns)
    alive = np.zeros(len(c.usd), dtype=bool)
    undecided = ~alive
    while undecided.any():
        check()
        left = np.flatnonzero(undecided)
        i = int(left[np.argsort(c.needed[left] * c.vcpus[left])[len(left) // 2]])
        path = (*others[:t], pools[t].option(i), *others[t + 1 :])
        if too_slow(problem, path):
            undecided &= ~np.all(sizes <= sizes[i], axis=1)
        else:
            faster = np.all(sizes >= sizes[i], axis=1)
            alive |= faster
            undecided &= ~faster
    return alive


def _sizes(problem: Problem, c: Columns) -> Floats:
    """Figures by which a tier is fast, (n, 2 or 3)."""
    columns = [c.needed, c.vcpus]
    if problem.degraded is not None:
        columns.append(degraded_servers(problem.degraded, c))
    return np.stack(columns, axis=1).astype(np.float64)


def _time_in(problem: Problem) -> Callable[[int, Option], float]:
    """Mean time [s] in one tier alone, as the chain tells it."""
    chain = problem.chain
    assert chain is not None
    known: dict[tuple[float, ...], float] = {}

    def mean_s(t: int, option: Option) -> float:
        key = (t, option.upstream, option.replicas, option.needed, option.instance.vcpus)
        if key not in known:
            known[key] = alone(t, option)
        return known[key]

    def alone(t: int, option: Option) -> float:
        return float(chain.mean_s(chain.above(t, option, None))[0])

    return mean_s


@dataclass(frozen=True, eq=False)
class Labels:
    """Ways to build tier t and all below it: option `row`, then label `below` of the next tier;
    `law` is the number of the law of the time there."""

    usd: Floats
    loss: Floats
    law: Ints
    row: Ints
    below: Ints

    def __len__(self) -> int:
        return len(self.usd)

    def columns(self) -> tuple[Floats | Ints, ...]:
        """Return all columns."""
        return self.usd, self.loss, self.law, self.row, self.below

    def keep(self, which: Ints | Mask) -> Labels:
        """Return the selected labels."""
        return Labels(*(column[which] for column in self.columns()))  # type: ignore[arg-type]


class _Laws:
    """The laws of one tier, each computed once for a size of it and a law below it."""

    def __init__(self, problem: Problem, tier: int, below: _Laws | None) -> None:
        assert problem.chain is not None
        self._degraded, self._chain = problem.degraded, problem.chain
        self._tier, self._below = tier, below
        self._parts: list[Floats] = []
        self._count = 0
        self._known: dict[tuple[int, float, int], Ints] = {}

    def numbers(self, option: Option, below: Ints) -> Ints:
        """Return the law of `option` for each law `below`; for the last tier they are equal."""
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
        """One row a law."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]


class _Route:
    """The search on one route: each of `pools` holds one group.

    With `price` for the whole availability budget, labels are compared by cost and loss in one sum.
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
        self._problem, self._pools, self._check, self._one_sum = problem, pools, check, price
        self._most = cost(best)
        self._budget = budget(problem) * (1.0 + LOG_ROUNDING)
        self._price = best_price(problem, pools)
        self._above_usd = _before(pools, [pool.columns.usd for pool in pools])
        self._above_priced = _before(pools, weights_at(problem, pools, self._price))
        self._above_loss = _before(pools, [pool.columns.loss for pool in pools])
        self._largest = tuple(largest_of(problem, pool) for pool in pools)
        self._labels: list[Labels] = []  # [t], once it is built
        self._laws: list[_Laws] = []  # [t]
        for t in reversed(range(len(pools))):
            self._laws.insert(0, _Laws(problem, t, self._laws[0] if self._laws else None))

    def cheapest(self) -> Path | None:
        """None: nothing costs less than `best`. Raises _FullError, and what the check raises."""
        last = len(self._pools) - 1
        self._labels = [self._last()] * (last + 1)
        for t in range(last, 0, -1):
            if t == last:
                self._labels[t] = self._fast_enough(t, self._labels[t])
            else:
                self._labels[t] = self._worth_keeping(t)
            if not len(self._labels[t]):
                return None
        return self._pairs(self._labels[1])

    def _last(self) -> Labels:
        """One label per option of the last tier."""
        t, pool = len(self._pools) - 1, self._pools[-1]
        rows = np.flatnonzero(self._fits(t, pool.columns.usd, pool.columns.loss))
        only = np.zeros(1, dtype=np.int64)
        laws = [int(self._laws[t].numbers(pool.option(int(row)), only)[0]) for row in rows]
        c = pool.columns
        return Labels(c.usd[rows], c.loss[rows], np.array(laws, dtype=np.int64), rows, rows)

    def _worth_keeping(self, t: int) -> Labels:
        """Return each option of tier t before each label below it, as far as cost and loss allow,
        without those that the others beat or that are too slow; compared whenever many have come
        up.
        """
        below = self._labels[t + 1]
        kept, fresh, count = below.keep(np.zeros(0, dtype=np.int64)), [], 0
        for part in self._extended(t, below):
            fresh.append(part)
            count += len(part)
            if count > _COMPARED_AT:
                kept, fresh, count = self._compared(t, [kept, *fresh]), [], 0
                if len(kept) > _LABELS_MAX:
                    raise _FullError
        return self._compared(t, [kept, *fresh])

    def _compared(self, t: int, parts: Sequence[Labels]) -> Labels:
        columns = zip(*(part.columns() for part in parts), strict=True)
        joined = Labels(*(np.concatenate(column) for column in columns))
        if self._one_sum is not None:
            return self._fast_enough(t, self._undominated(t, joined))
        return self._undominated(t, self._fast_enough(t, joined))

    def _extended(self, t: int, below: Labels) -> Iterator[Labels]:
        c, pool = self._pools[t].columns, self._pools[t]
        for row in range(len(pool)):
            self._check()
            usd, loss = below.usd + c.usd[row], below.loss + c.loss[row]
            which = np.flatnonzero(self._fits(t, usd, loss))
            if not len(which):
                continue
            laws = self._laws[t].numbers(pool.option(row), below.law[which])
            same = np.full(len(which), row, dtype=np.int64)
            yield Labels(usd[which], loss[which], laws, same, which)

    def _fits(self, t: int, usd: Floats, loss: Floats) -> Mask:
        """True if a plan with this from tier t on costs little enough and loses little
        enough."""
        fits: Mask = usd + self._above_usd[t] <= self._most + USD_ROUNDING
        if math.isfinite(self._budget):
            priced = usd + (self._price / self._budget) * loss + self._above_priced[t]
            fits = fits & (loss + self._above_loss[t] <= self._budget)
            fits = fits & (priced <= self._most + self._price * (1.0 + LOG_ROUNDING) + USD_ROUNDING)
        return fits

    def _undominated(self, t: int, labels: Labels) -> Labels:
        if not len(labels):
            return labels
        columns = [labels.usd]
        if self._problem.unavailability_max is not None:
            if self._one_sum is None:
                columns.append(labels.loss)
            else:
                columns = [labels.usd + (self._one_sum / self._budget) * labels.loss]
        table = np.stack(columns, axis=1)
        some = _best_of_each(labels.law, table)
        laws = self._laws[t].all()[labels.law[some]]
        whole = np.concatenate([table[some], laws], axis=1)
        return labels.keep(some[undominated(whole, self._check)])

    def _fast_enough(self, t: int, labels: Labels) -> Labels:
        """Labels that the largest tiers above them make fast enough."""
        if not len(labels):
            return labels
        used, first = np.unique(labels.law, return_index=True)
        laws = self._laws[t].all()[used]
        size = laws.sum(axis=1)
        alive = np.zeros(len(used), dtype=bool)
        undecided = ~alive
        while undecided.any():
            self._check()
            left = np.flatnonzero(undecided)
            i = left[np.argsort(size[left])[len(left) // 2]]
            path = (*self._largest[:t], *self._path(t, labels, int(first[i])))
            if too_slow(self._problem, path):
                undecided &= ~np.all(laws >= laws[i], axis=1)
            else:
                better = np.all(laws <= laws[i], axis=1)
                alive |= better
                undecided &= ~better
        return labels.keep(np.isin(labels.law, used[alive]))

    def _path(self, t: int, labels: Labels, i: int) -> Path:
        """Return the options of a label of tier t, from there to the back."""
        option = self._pools[t].option(int(labels.row[i]))
        if t + 1 == len(self._pools):
            return (option,)
        return (option, *self._path(t + 1, self._labels[t + 1], int(labels.below[i])))

    def _pairs(self, below: Labels) -> Path | None:
        """Return the cheapest of all pairs of an option of the first tier and a label below it."""
        pool = self._pools[0]
        c = pool.columns
        usd = (c.usd[:, None] + below.usd[None, :]).ravel()
        loss = (c.loss[:, None] + below.loss[None, :]).ravel()
        some = np.flatnonzero((usd < self._most - USD_ROUNDING) & (loss <= self._budget))
        order = some[np.argsort(usd[some], kind="stable")]
        option, label = np.divmod(order, len(below))
        laws = self._laws[1].all()
        sizes, law = _sizes(self._problem, c)[option], below.law[label]
        open_ = np.ones(len(order), dtype=bool)
        while open_.any():
            self._check()
            i = int(np.argmax(open_))
            path = (pool.option(int(option[i])), *self._path(1, below, int(label[i])))
            broken = violations(self._problem, path)
            if not broken:
                return path
            open_[i] = False
            if set(broken) & {"latency", "degraded"}:
                slower = np.all(laws >= laws[law[i]], axis=1)[law]
                open_ &= ~(slower & np.all(sizes <= sizes[i], axis=1))
        return None


def largest_of(problem: Problem, pool: Pool) -> Option:
    """Return an option that none of the pool exceeds in nodes and vCPUs, nor in what is left when
    it is degraded; it may not exist.
    """
    one, c = pool.option(0), pool.columns
    machine = replace(one.instance, vcpus=float(c.vcpus.max()))
    large = replace(one, needed=int(c.needed.max()), instance=machine)
    if problem.degraded is None:
        return large
    missing = large.needed - int(degraded_servers(problem.degraded, c).max())
    extra = problem.degraded.nodes_down - missing
    return replace(large, mechanism=Mechanism.ara, extra=extra)


def _before(pools: Sequence[Pool], weights: Sequence[Floats]) -> list[float]:
    """Least sum of a weight over the tiers above each tier of a route."""
    known = bounds(pools, weights)
    return [min(before.values()) for before in known.before]


def _best_of_each(law: Ints, table: Floats) -> Ints:
    """Return the rows of each law that no other row of it matches or undercuts.

    The table has one or two columns. The last one decreases from row to row of the result.
    """
    order = np.lexsort((*(table.T[::-1]), law))
    ranks = np.unique(table[order, -1], return_inverse=True)[1].reshape(-1)
    groups = np.cumsum(np.diff(law[order], prepend=law[order[:1]]) != 0)
    keys = ranks - groups * (len(law) + 1)  # each law's begin below those of the one before
    least = np.minimum.accumulate(keys)
    found: Ints = np.sort(order[np.append(True, keys[1:] < least[:-1])[: len(order)]])
    return found
