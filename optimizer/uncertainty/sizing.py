r"""The least fleet that reaches a target availability with a stated confidence.

With one uncertain figure that is exact: the least size at its `confidence` quantile, since
availability falls with it. With more, the same draws of the rates are used for every size (common
random numbers), and the size is the least for which a share `confidence` of them reaches the
target. A draw that is nowhere better than one that fails, fails too, and the other way round; a
larger fleet never does worse: with both, few of the draws have to be solved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.errors import InputError, require_count
from core.vocabulary import Scheme
from optimizer.availability import (
    HORIZON_S,
    Availability,
    FailureRates,
    Sizing,
    active_route_anywhere,
    least_extra_nodes,
    least_pool,
    passive_failover,
)
from optimizer.availability.rates import require_target
from optimizer.availability.sizing import FAILING_POOL_MAX, SHOCKED_MAX, shocks_alone
from optimizer.uncertainty.interval import proper_share
from optimizer.uncertainty.rates import UNCERTAIN, UncertainRates

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BISECTIONS = 20
_SAMPLES_MOST = 5_000  # all pairs of draws are compared
_At = Callable[[int, FailureRates], Availability]


@dataclass(frozen=True)
class ConfidentSizing:
    """`extra` is None if no size, or none up to the limit, is enough.

    `probability` is P(availability >= target) with `extra`, and `one_fewer_probability` with one
    node less, which is below the confidence; None where there is no such size. `samples` draws were
    used, 0 where the size is exact: the standard error of a probability p is then 0, otherwise
    sqrt(p (1 - p) / samples).
    """

    extra: int | None
    probability: float | None
    one_fewer_probability: float | None
    confidence: float
    samples: int
    reason: str


def least_extra_nodes_at(
    needed: int,
    target: float,
    rates: UncertainRates,
    *,
    scheme: str,
    confidence: float = 0.95,
    samples: int = 1_000,
    rng: np.random.Generator,
    extra_max: int = 100_000,
    horizon_s: float = HORIZON_S,
) -> ConfidentSizing:
    """Least extra active nodes such that P(availability >= target) >= confidence.

    Parameters: as `optimizer.availability.least_extra_nodes`; confidence in (0, 1); samples draws
    where more than one figure matters (fail-over in the cloud, repair on-premises).
    Returns: ConfidentSizing; beside shocks of some nodes, where more nodes may be worse, with draws
    a size that suffices and not surely the least.  Raises: InputError for what cannot be.
    """

    def at(extra: int, known: FailureRates) -> Availability:
        return active_route_anywhere(needed, extra, known, scheme=scheme, horizon_s=horizon_s)

    def least(known: FailureRates) -> Sizing:
        return least_extra_nodes(
            needed, target, known, scheme=scheme, extra_max=extra_max, horizon_s=horizon_s
        )

    def shocks(known: FailureRates) -> Availability:
        return shocks_alone(needed, known, scheme, horizon_s)

    mean, what = rates.mean(), "extra active nodes"
    if mean.common_cause:
        extra_max = min(extra_max, SHOCKED_MAX)
    to_all = mean.common_cause and mean.common_cause_nodes is None
    unlimited = _Unlimited(shocks, "a tier that only shocks take down") if to_all else None
    problem = _Problem(at, least, unlimited, target, confidence, extra_max, what)
    unused = "repair_s" if scheme == Scheme.cloud else "failover_s"
    return _solve(problem, rates.settled(unused), samples, rng)


def least_pool_at(
    needed: int,
    target: float,
    rates: UncertainRates,
    *,
    confidence: float = 0.95,
    samples: int = 1_000,
    rng: np.random.Generator,
    pool_max: int = 2_000,
    horizon_s: float = HORIZON_S,
) -> ConfidentSizing:
    """Least pool (passive failover, on-premises) such that P(availability >= target) >= confidence.

    Parameters: as `optimizer.availability.least_pool`; confidence in (0, 1); samples draws where
    more than one figure is uncertain.
    Returns: ConfidentSizing; a target that even an unlimited pool misses in more than
    1 - confidence of the draws is infeasible at any size, and said to be.
    Raises: InputError for what cannot be.
    """

    def at(pool: int, known: FailureRates) -> Availability:
        return passive_failover(needed, pool, known, horizon_s=horizon_s)

    def unlimited(known: FailureRates) -> Availability:
        return passive_failover(needed, None, known, scheme=Scheme.cloud, horizon_s=horizon_s)

    def least(known: FailureRates) -> Sizing:
        return least_pool(needed, target, known, pool_max=pool_max, horizon_s=horizon_s)

    if rates.mean().standby_fraction:
        pool_max = min(pool_max, FAILING_POOL_MAX)
    what, alone = "nodes in the pool", _Unlimited(unlimited, "fail-over alone")
    problem = _Problem(at, least, alone, target, confidence, pool_max, what)
    return _solve(problem, rates, samples, rng)


@dataclass(frozen=True)
class _Unlimited:
    """The bound that no size beats, and what is then left."""

    at: Callable[[FailureRates], Availability]
    cause: str


@dataclass(frozen=True)
class _Problem:
    at: _At
    least: Callable[[FailureRates], Sizing]
    unlimited: _Unlimited | None
    target: float
    confidence: float
    size_max: int
    what: str

    def holds(self, size: int, known: FailureRates) -> bool:
        return self.at(size, known).keeps(self.target)


def _solve(
    problem: _Problem, rates: UncertainRates, samples: int, rng: np.random.Generator
) -> ConfidentSizing:
    require_target("target", problem.target)
    proper_share("confidence", problem.confidence)
    if require_count("samples", samples, least=20) > _SAMPLES_MOST:
        raise InputError("samples", expected=f"at most {_SAMPLES_MOST}", got=str(samples))
    known = rates.uncertain
    if not known or (len(known) == 1 and rates.monotone):
        return _exact(problem, rates)
    return _sampled(problem, rates, samples, rng)


def _exact(problem: _Problem, rates: UncertainRates) -> ConfidentSizing:
    found = problem.least(rates.at(problem.confidence))
    if found.extra is None:
        where = f"with the rates at {problem.confidence:.0%}: {found.reason}"
        return ConfidentSizing(None, None, None, problem.confidence, 0, where)
    reached = _probability(problem, rates, found.extra)
    fewer = _probability(problem, rates, found.extra - 1) if found.extra else None
    reason = _reason(problem, found.extra, reached, fewer, 0)
    return ConfidentSizing(found.extra, reached, fewer, problem.confidence, 0, reason)


def _probability(problem: _Problem, rates: UncertainRates, size: int) -> float:
    """P(target reached) with one uncertain figure: the level up to which it may grow."""
    if not rates.uncertain:
        return float(problem.holds(size, rates.mean()))
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        if problem.holds(size, rates.at(middle)):
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def _sampled(
    problem: _Problem, rates: UncertainRates, samples: int, rng: np.random.Generator
) -> ConfidentSizing:
    worlds = _Worlds(problem.holds, rates.sample(rng, samples), rates.monotone)
    unlimited = problem.unlimited
    if unlimited is not None:
        free = _Worlds(
            lambda _, known: not unlimited.at(known).misses(problem.target),
            worlds.draws,
            rates.monotone,
        )
        if (possible := free.share(0)) < problem.confidence:
            reason = (
                f"infeasible at any size: {unlimited.cause} misses {problem.target} in "
                f"{1.0 - possible:.1%} of {samples} draws of the rates"
            )
            return ConfidentSizing(None, None, None, problem.confidence, samples, reason)
    size = _least_size(problem, worlds, problem.least(rates.at(problem.confidence)).extra)
    if size is None:
        reached = worlds.share(problem.size_max)
        reason = f"{problem.size_max} {problem.what} reach {problem.target} in {reached:.1%} only"
        return ConfidentSizing(None, None, None, problem.confidence, samples, reason)
    reached = worlds.share(size)
    fewer = worlds.share(size - 1) if size else None
    reason = _reason(problem, size, reached, fewer, samples)
    return ConfidentSizing(size, reached, fewer, problem.confidence, samples, reason)


def _least_size(problem: _Problem, worlds: _Worlds, guess: int | None) -> int | None:
    """Bracketed from the size at the rates' corner, which is nearly always enough; bisected."""

    low, high = -1, min(guess if guess is not None else 1, problem.size_max)
    while not worlds.enough(high, problem.confidence):
        if high == problem.size_max:
            return None
        low, high = high, min(max(1, 2 * high), problem.size_max)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if worlds.enough(middle, problem.confidence) else (middle, high)
    return high


def _reason(problem: _Problem, size: int, reached: float, fewer: float | None, draws: int) -> str:
    how = f"of {draws} draws of the rates" if draws else "probability"
    if fewer is None:
        return f"no {problem.what} needed: {problem.target} is reached with {reached:.2%} {how}"
    return (
        f"{size} {problem.what} reach {problem.target} with {reached:.2%} {how}, "
        f"{size - 1} with {fewer:.2%} < {problem.confidence:.2%}"
    )


class _Worlds:
    """Draws of the rates, and for which sizes each is known to reach the target, or to miss it."""

    def __init__(
        self, holds: Callable[[int, FailureRates], bool], draws: list[FailureRates], ordered: bool
    ) -> None:
        self.draws = draws
        self._holds = holds
        self._worse = np.eye(len(draws), dtype=bool)
        if ordered:  # [i, j]: draw i is in no figure better than draw j
            self._worse[:] = True
            for name in UNCERTAIN:
                values = np.array([getattr(draw, name) or 0.0 for draw in draws])
                self._worse &= values[:, None] >= values[None, :]
        self._reaches_from = np.full(len(draws), np.inf)
        self._misses_to = np.full(len(draws), -np.inf)

    def share(self, size: int) -> float:
        """Share of the draws that reach the target with `size`."""
        while (undecided := self._undecided(size)).size:
            self._solve_one(size, undecided)
        return float(np.mean(self._reaches_from <= size))

    def enough(self, size: int, confidence: float) -> bool:
        """True if share(size) >= confidence, solving only as many draws as that takes."""
        total = len(self.draws)
        while (undecided := self._undecided(size)).size:
            if np.count_nonzero(self._reaches_from <= size) >= confidence * total:
                return True
            if np.count_nonzero(self._misses_to < size) < confidence * total:
                return False
            self._solve_one(size, undecided)
        return self.share(size) >= confidence

    def _undecided(self, size: int) -> NDArray[np.intp]:
        return np.flatnonzero((self._reaches_from > size) & (self._misses_to < size))

    def _solve_one(self, size: int, undecided: NDArray[np.intp]) -> None:
        """Solve the draw that decides most others, however it turns out, and decide them."""
        order = self._worse[np.ix_(undecided, undecided)]
        chosen = undecided[np.argmax(np.minimum(order.sum(axis=0), order.sum(axis=1)))]
        if self._holds(size, self.draws[chosen]):
            no_worse = self._worse[chosen]
            self._reaches_from[no_worse] = np.minimum(self._reaches_from[no_worse], size)
        else:
            no_better = self._worse[:, chosen]
            self._misses_to[no_better] = np.maximum(self._misses_to[no_better], size)
