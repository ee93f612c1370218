r"""The cheapest plan under latency limits for long chains of tiers: labels, route by route.

Cuts of the kind "this fleet is too slow, and so are all smaller ones" prove little each: with six
tiers thousands are needed. But a tier sees what lies below it only by the mean and the variance of
the time spent there (`problem.Chain`), so on a route (replicas r_1 ... r_N) only those ways to
build the tiers t..N count that no other one beats in cost, loss of log availability, and

    mean and variance of the time below    where nothing above is copied
    its quantiles of 1 % and 99 %          where something is: copies race, and more variance helps
                                           the first (two gamma laws cross at most once)
    nodes and vCPUs                        for the last tier, whose law is a mixture

Labels are built from the back to the front. A label goes if with the cheapest tiers above it costs
more than a known plan, if its loss does not fit, or if even the largest tiers above it are too
slow. What is left at the front is tried in the order of its cost, and evaluated whole, like every
plan; a fleet that is too slow takes all pairs with it that are no faster.

Routes are taken in the order of the least they can cost. A first round among few options (the best
for their speed at a price of availability) finds a cheap plan, the second proves the optimum.
The moments are computed on another grid than the page's percentiles (means agree within 0.5 %,
variances within 2 %), so labels that are closer than that can be mistaken for each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from core.tolerances import LOG_ROUNDING, USD_ROUNDING
from optimizer.latency import Parts, moments_of
from optimizer.plan.solve.first import thinned
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.problem import Chain, Path, Problem, too_slow, violations
from optimizer.plan.solve.screen import (
    Group,
    Pool,
    affordable,
    best_price,
    bounds,
    budget,
    cost,
    routes,
    weights_at,
)
from optimizer.plan.solve.table import undominated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_FACTORS = (1.0, 3.0, 10.0, 30.0)  # times the price of availability
_ROUTES_TRIED = 24  # with all of them
_REDUCTIONS = 4  # rounds of leaving out what is too slow, or too dear then
_COMPARED_AT = 100_000  # candidates at one tier
_LABELS_MAX = 100_000  # at one tier, that no other one beats
_FAR = 2.33  # standard deviations: quantiles of 1 % and 99 %


class GivenUpError(Exception):
    """The search met its bound of time or memory; `least` is what it has proved of the cost."""

    def __init__(self, best: Path | None, least: float) -> None:
        self.best, self.least = best, least
        super().__init__("search given up")


def cheap(
    problem: Problem, pools: Sequence[Pool], best: Path | None, spent: Callable[[], bool]
) -> Path | None:
    """A cheap plan of `pools`, not proved to be the cheapest; `best` if it finds none cheaper.

    Few options of each route are looked at: the best for their speed at a price of availability,
    which is tried out on the first routes.
    """
    fair, time_s = best_price(problem, pools), _time_in(problem, len(pools))
    factors: tuple[float, ...] = _FACTORS
    good = factors[0]
    for number, (least, route) in enumerate(_by_cost(problem, pools, fair)):
        if least >= cost(best) - USD_ROUNDING or spent():
            break
        if number == _ROUTES_TRIED:
            factors = (good,)
        some = _reduced(problem, _affordable(problem, _on(pools, route), best), best)
        for factor in factors:
            some = _affordable(problem, some, best) if some else []
            thin = thinned(problem, some, factor * fair, time_s) if some else []
            thin = _affordable(problem, thin, best) if some else []
            if not thin:
                break
            try:
                found = _Route(problem, thin, best, spent, factor * fair).cheapest()
            except _SpentError:
                return best
            if found is not None:
                best, good = found, factor
    return best


def cheapest(
    problem: Problem, pools: Sequence[Pool], best: Path | None, spent: Callable[[], bool]
) -> Path | None:
    """The cheapest plan of `pools`, which is `best` if nothing costs less.

    Raises: GivenUpError when `spent()` says so, with the best plan up to then.
    """
    for least, route in _by_cost(problem, pools, best_price(problem, pools)):
        if least >= cost(best) - USD_ROUNDING:
            break
        some = _reduced(problem, _affordable(problem, _on(pools, route), best), best)
        if not some:
            continue
        try:
            best = _Route(problem, some, best, spent, None).cheapest() or best
        except _SpentError as ended:
            raise GivenUpError(best, min(least, cost(best))) from ended
    return best


class _SpentError(Exception):
    """Time or memory is used up."""


def _by_cost(
    problem: Problem, pools: Sequence[Pool], price: float
) -> list[tuple[float, tuple[Group, ...]]]:
    """All routes with a bound on their cost, the cheapest first."""
    weights = weights_at(problem, pools, price)
    arcs = [
        {group: float(weight[rows].min()) for group, rows in pool.groups.items()}
        for pool, weight in zip(pools, weights, strict=True)
    ]
    found = [
        (math.fsum(arcs[t][group] for t, group in enumerate(route)) - price, route)
        for route in routes(arcs)
    ]
    return sorted(found)


def _on(pools: Sequence[Pool], route: tuple[Group, ...]) -> list[Pool]:
    return [
        pool.keep(np.sort(pool.groups[group])) for pool, group in zip(pools, route, strict=True)
    ]


def _affordable(problem: Problem, pools: Sequence[Pool], best: Path | None) -> list[Pool]:
    """What is left of a route; empty if a tier has nothing left."""
    found = affordable(problem, pools, cost(best))
    return found if all(len(pool) for pool in found) else []


def _reduced(problem: Problem, pools: list[Pool], best: Path | None) -> list[Pool]:
    """What is left of a route without options that are too slow even if all other tiers are as
    large as any that is left; what is too dear by that goes too, and so on. Maybe nothing."""
    for _ in range(_REDUCTIONS):
        before = sum(map(len, pools))
        for t in range(len(pools)):
            if pools:
                pools[t] = pools[t].keep(_fast_alone(problem, pools, t))
                pools = _affordable(problem, pools, best) if len(pools[t]) else []
        if sum(map(len, pools)) > 0.9 * before:
            break
    return pools


def _fast_alone(problem: Problem, pools: Sequence[Pool], t: int) -> Mask:
    """Options of tier t that are fast enough if all other tiers are as large as any."""
    others = [largest_of(pool) for pool in pools]
    c = pools[t].columns
    alive = np.zeros(len(c.usd), dtype=bool)
    undecided = ~alive
    while undecided.any():
        left = np.flatnonzero(undecided)
        i = int(left[np.argsort(c.needed[left] * c.vcpus[left])[len(left) // 2]])
        path = (*others[:t], pools[t].option(i), *others[t + 1 :])
        if too_slow(problem, path):
            undecided &= ~((c.needed <= c.needed[i]) & (c.vcpus <= c.vcpus[i]))
        else:
            faster = (c.needed >= c.needed[i]) & (c.vcpus >= c.vcpus[i])
            alive |= faster
            undecided &= ~faster
    return alive


def _time_in(problem: Problem, tiers: int) -> Callable[[int, Option], float]:
    """Mean time [s] in one of the `tiers` alone, as the chain tells it."""
    chain = problem.chain
    assert chain is not None
    known: dict[tuple[float, ...], float] = {}

    def mean_s(t: int, option: Option) -> float:
        key = (t, option.upstream, option.replicas, option.needed, option.instance.vcpus)
        if key not in known:
            known[key] = alone(t, option)
        return known[key]

    def alone(t: int, option: Option) -> float:
        if t == tiers - 1:
            return moments_of(chain.last(option))[0]
        nothing = np.full(1, 1e-9), np.full(1, 1e-18)
        return float(chain.above(t, option, nothing, None)[0][0])

    return mean_s


@dataclass(frozen=True, eq=False)
class Labels:
    """Ways to build tier t and all below it: option `row`, then label `below` of the next tier."""

    usd: Floats
    loss: Floats
    mean_s: Floats
    variance: Floats
    row: Ints
    below: Ints

    def __len__(self) -> int:
        return len(self.usd)

    def columns(self) -> tuple[Floats | Ints, ...]:
        """All columns."""
        return self.usd, self.loss, self.mean_s, self.variance, self.row, self.below

    def keep(self, which: Ints | Mask) -> Labels:
        """These of the labels."""
        return Labels(*(column[which] for column in self.columns()))  # type: ignore[arg-type]


class _Route:
    """The search on one route: each of `pools` holds one group. See the module.

    With `price` for the whole availability budget, labels are compared by cost and loss in one sum.
    """

    def __init__(
        self,
        problem: Problem,
        pools: Sequence[Pool],
        best: Path | None,
        spent: Callable[[], bool],
        price: float | None,
    ) -> None:
        assert problem.chain is not None
        assert len(pools) > 1
        self._problem, self._pools, self._spent, self._one_sum = problem, pools, spent, price
        self._chain: Chain = problem.chain
        self._most = cost(best)
        self._budget = budget(problem) * (1.0 + LOG_ROUNDING)
        self._price = best_price(problem, pools)
        self._above_usd = _before(pools, [pool.columns.usd for pool in pools])
        self._above_priced = _before(pools, weights_at(problem, pools, self._price))
        self._above_loss = _before(pools, [pool.columns.loss for pool in pools])
        self._largest = tuple(largest_of(pool) for pool in pools)
        self._labels: list[Labels] = []  # [t], once it is built
        self._laws: dict[int, Parts] = {}

    def cheapest(self) -> Path | None:
        """None: nothing costs less than `best`. Raises _SpentError."""
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

    def _check(self) -> None:
        if self._spent():
            raise _SpentError

    def _last(self) -> Labels:
        """One label per option of the last tier."""
        pool = self._pools[-1]
        rows = np.flatnonzero(self._fits(len(self._pools) - 1, pool.columns.usd, pool.columns.loss))
        found = [moments_of(self._last_law(int(row))) for row in rows]
        mean_s, variance = np.array(found, dtype=np.float64).reshape(-1, 2).T
        c = pool.columns
        return Labels(c.usd[rows], c.loss[rows], mean_s, variance, rows, rows)

    def _last_law(self, row: int) -> Parts:
        if row not in self._laws:
            self._laws[row] = self._chain.last(self._pools[-1].option(row))
        return self._laws[row]

    def _worth_keeping(self, t: int) -> Labels:
        """Each option of tier t before each label below it, as far as cost and loss allow, without
        those that the others beat or that are too slow; compared whenever many have come up."""
        below = self._labels[t + 1]
        kept, fresh, count = below.keep(np.zeros(0, dtype=np.int64)), [], 0
        for part in self._extended(t, below):
            fresh.append(part)
            count += len(part)
            if count > _COMPARED_AT:
                kept, fresh, count = self._compared(t, [kept, *fresh]), [], 0
                if len(kept) > _LABELS_MAX:
                    raise _SpentError
        return self._compared(t, [kept, *fresh])

    def _compared(self, t: int, parts: Sequence[Labels]) -> Labels:
        columns = zip(*(part.columns() for part in parts), strict=True)
        joined = Labels(*(np.concatenate(column) for column in columns))
        if self._one_sum is not None:
            return self._fast_enough(t, self._undominated(t, joined))
        return self._undominated(t, self._fast_enough(t, joined))

    def _extended(self, t: int, below: Labels) -> Iterator[Labels]:
        c, pool = self._pools[t].columns, self._pools[t]
        last = t + 2 == len(self._pools)
        for row in range(len(pool)):
            self._check()
            usd, loss = below.usd + c.usd[row], below.loss + c.loss[row]
            which = np.flatnonzero(self._fits(t, usd, loss))
            if not len(which):
                continue
            laws = [self._last_law(int(below.row[i])) for i in which] if last else None
            tails = below.mean_s[which], below.variance[which]
            mean_s, variance = self._chain.above(t, pool.option(row), tails, laws)
            same = np.full(len(which), row, dtype=np.int64)
            yield Labels(usd[which], loss[which], mean_s, variance, same, which)

    def _fits(self, t: int, usd: Floats, loss: Floats) -> Mask:
        """Whether a plan with this from tier t on costs little enough and loses little enough."""
        fits: Mask = usd + self._above_usd[t] <= self._most + USD_ROUNDING
        if math.isfinite(self._budget):
            priced = usd + (self._price / self._budget) * loss + self._above_priced[t]
            fits = fits & (loss + self._above_loss[t] <= self._budget)
            fits = fits & (priced <= self._most + self._price * (1.0 + LOG_ROUNDING) + USD_ROUNDING)
        return fits

    def _undominated(self, t: int, labels: Labels) -> Labels:
        columns = [labels.usd, *self._slowness(t, labels)]
        if self._problem.unavailability_max is not None:
            if self._one_sum is None:
                columns.append(labels.loss)
            else:
                columns[0] = labels.usd + (self._one_sum / self._budget) * labels.loss
        return labels.keep(undominated(np.stack(columns, axis=1)))

    def _slowness(self, t: int, labels: Labels) -> tuple[Floats, Floats]:
        """What has to be smaller for the tiers above to be no slower; see the module."""
        if t == len(self._pools) - 1:
            c = self._pools[t].columns.take(labels.row)
            return -c.needed.astype(np.float64), -c.vcpus
        if int(self._pools[t].columns.upstream[0]) == 1:
            return labels.mean_s, labels.variance
        return _quantile(labels, -_FAR), _quantile(labels, _FAR)

    def _fast_enough(self, t: int, labels: Labels) -> Labels:
        """Labels that the largest tiers above them make fast enough."""
        alive = np.zeros(len(labels), dtype=bool)
        undecided = ~alive
        x, y = self._slowness(t, labels)
        while undecided.any():
            self._check()
            left = np.flatnonzero(undecided)
            i = left[np.argsort(x[left])[len(left) // 2]]
            path = (*self._largest[:t], *self._path(t, labels, int(i)))
            if too_slow(self._problem, path):
                undecided &= ~((x >= x[i]) & (y >= y[i]))
            else:
                better = (x <= x[i]) & (y <= y[i])
                alive |= better
                undecided &= ~better
        return labels.keep(alive)

    def _path(self, t: int, labels: Labels, i: int) -> Path:
        """The options of a label of tier t, from there to the back."""
        option = self._pools[t].option(int(labels.row[i]))
        if t + 1 == len(self._pools):
            return (option,)
        return (option, *self._path(t + 1, self._labels[t + 1], int(labels.below[i])))

    def _pairs(self, below: Labels) -> Path | None:
        """The cheapest of all pairs of an option of the first tier and a label below it."""
        pool = self._pools[0]
        c = pool.columns
        usd = (c.usd[:, None] + below.usd[None, :]).ravel()
        loss = (c.loss[:, None] + below.loss[None, :]).ravel()
        some = np.flatnonzero((usd < self._most - USD_ROUNDING) & (loss <= self._budget))
        order = some[np.argsort(usd[some], kind="stable")]
        option, label = np.divmod(order, len(below))
        x, y = self._slowness(1, below)
        needed, vcpus, x, y = c.needed[option], c.vcpus[option], x[label], y[label]
        open_ = np.ones(len(order), dtype=bool)
        while open_.any():
            self._check()
            i = int(np.argmax(open_))
            path = (pool.option(int(option[i])), *self._path(1, below, int(label[i])))
            broken = violations(self._problem, path)
            if not broken:
                return path
            open_[i] = False
            if "latency" in broken:
                slower = (needed <= needed[i]) & (vcpus <= vcpus[i]) & (x >= x[i]) & (y >= y[i])
                open_ &= ~slower
        return None


def largest_of(pool: Pool) -> Option:
    """An option that none of the pool exceeds in nodes and vCPUs; it may not exist."""
    one, c = pool.option(0), pool.columns
    machine = replace(one.instance, vcpus=float(c.vcpus.max()))
    return replace(one, needed=int(c.needed.max()), instance=machine)


def _before(pools: Sequence[Pool], weights: Sequence[Floats]) -> list[float]:
    """Least sum of a weight over the tiers above each tier of a route."""
    known = bounds(pools, weights)
    return [min(before.values()) for before in known.before]


def _quantile(labels: Labels, z: float) -> Floats:
    """Quantiles [s] of gamma laws, z standard deviations out (Wilson and Hilferty 1931)."""
    ninth = labels.variance / (9.0 * labels.mean_s**2)
    found: Floats = labels.mean_s * np.maximum(0.0, 1.0 - ninth + z * np.sqrt(ninth)) ** 3
    return found
