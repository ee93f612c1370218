r"""The least fleet that reaches a target availability with a stated confidence.

With one uncertain figure the result is exact: the least size at its `confidence` quantile, since
availability falls with it. With more, the same draws of the rates are used for every size (common
random numbers), and the size is the least for which a share `confidence` of them reaches the
target. Few of the draws have to be solved, for two reasons. A draw that is in no figure better than
one that fails, fails too; a draw that is in no figure worse than one that holds, holds too. And a
larger fleet never does worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

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

_BISECTIONS = 20
_SAMPLES_MOST = 5_000  # all pairs of draws are compared
_Model = Callable[[int, FailureRates], Availability]


@dataclass(frozen=True)
class ConfidentSizing:
    """A size and its confidence. `extra` is None if no size, or none up to the limit, is enough.

    `probability` is P(availability >= target) with `extra`, and `one_fewer_probability` with one
    node less, which is below the confidence; None if there is no such size. `samples` draws were
    used; 0 if the size is exact. The standard error of a probability p is then 0, otherwise
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
    """Return the least extra active nodes such that P(availability >= target) >= confidence.

    Parameters: as `optimizer.availability.least_extra_nodes`; confidence in (0, 1); samples draws
    where more than one figure matters (fail-over in the cloud, repair on-premises).
    Returns: ConfidentSizing. With draws and shocks of some nodes, where more nodes may be worse,
    the size suffices and is perhaps not the least.  Raises: InputError for impossible values.
    """
    mean, label = rates.mean(), "extra active nodes"
    if mean.common_cause:
        extra_max = min(extra_max, SHOCKED_MAX)
    model = partial(active_route_anywhere, needed, scheme=scheme, horizon_s=horizon_s)
    least = partial(
        least_extra_nodes, needed, target, scheme=scheme, extra_max=extra_max, horizon_s=horizon_s
    )
    shocks = partial(shocks_alone, needed, scheme=scheme, horizon_s=horizon_s)
    to_all = mean.common_cause and mean.common_cause_nodes is None
    unlimited = _Unlimited(shocks, "a tier that only shocks take down") if to_all else None
    problem = _Problem(model, least, unlimited, target, confidence, extra_max, label)
    unused = "repair_s" if scheme == Scheme.cloud else "failover_s"
    return _solve(problem, rates.with_means(unused), samples, rng)


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
    """Return the least pool such that P(availability >= target) >= confidence.

    The pool is for passive failover on-premises.

    Parameters: as `optimizer.availability.least_pool`; confidence in (0, 1); samples draws where
    more than one figure is uncertain.
    Returns: ConfidentSizing. If even an unlimited pool misses the target in more than
    1 - confidence of the draws, its reason says that no size is feasible.
    Raises: InputError for impossible values.
    """
    if rates.mean().standby_fraction:
        pool_max = min(pool_max, FAILING_POOL_MAX)
    model = partial(passive_failover, needed, horizon_s=horizon_s)
    unlimited = partial(passive_failover, needed, None, scheme=Scheme.cloud, horizon_s=horizon_s)
    least = partial(least_pool, needed, target, pool_max=pool_max, horizon_s=horizon_s)
    label, alone = "nodes in the pool", _Unlimited(unlimited, "fail-over alone")
    problem = _Problem(model, least, alone, target, confidence, pool_max, label)
    return _solve(problem, rates, samples, rng)


@dataclass(frozen=True)
class _Unlimited:
    """The availability that no size exceeds, and the cause of the unavailability that is left."""

    model: Callable[[FailureRates], Availability]
    cause: str


@dataclass(frozen=True)
class _Problem:
    model: _Model
    least: Callable[[FailureRates], Sizing]
    unlimited: _Unlimited | None
    target: float
    confidence: float
    size_max: int
    label: str

    def holds(self, size: int, known: FailureRates) -> bool:
        return self.model(size, known).keeps(self.target)


def _solve(
    problem: _Problem, rates: UncertainRates, samples: int, rng: np.random.Generator
) -> ConfidentSizing:
    require_target("target", problem.target)
    proper_share("confidence", problem.confidence)
    if require_count("samples", samples, least=20) > _SAMPLES_MOST:
        raise InputError("samples", expected=f"at most {_SAMPLES_MOST}", got=str(samples))
    known = rates.uncertain
    if not known or (len(known) == 1 and rates.monotone):
        return _size_exactly(problem, rates)
    return _size_by_draws(problem, rates, samples, rng)


def _size_exactly(problem: _Problem, rates: UncertainRates) -> ConfidentSizing:
    sizing = problem.least(rates.at(problem.confidence))
    if sizing.extra is None:
        where = f"with the rates at {problem.confidence:.0%}: {sizing.reason}"
        return ConfidentSizing(None, None, None, problem.confidence, 0, where)
    reached = _probability(problem, rates, sizing.extra)
    fewer = _probability(problem, rates, sizing.extra - 1) if sizing.extra else None
    reason = _state_reason(problem, sizing.extra, reached, fewer, 0)
    return ConfidentSizing(sizing.extra, reached, fewer, problem.confidence, 0, reason)


def _probability(problem: _Problem, rates: UncertainRates, size: int) -> float:
    """Return P(target reached) with one uncertain figure: the level up to which it may grow."""
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


def _size_by_draws(
    problem: _Problem, rates: UncertainRates, samples: int, rng: np.random.Generator
) -> ConfidentSizing:
    worlds = _Worlds(problem.holds, rates.sample(rng, samples), rates.monotone)
    unlimited = problem.unlimited
    if unlimited is not None:
        unlimited_worlds = _Worlds(
            lambda _, known: not unlimited.model(known).misses(problem.target),
            worlds.draws,
            rates.monotone,
        )
        if (possible := unlimited_worlds.share(0)) < problem.confidence:
            reason = (
                f"infeasible at any size: {unlimited.cause} misses {problem.target} in "
                f"{1.0 - possible:.1%} of {samples:,} draws of the rates"
            )
            return ConfidentSizing(None, None, None, problem.confidence, samples, reason)
    size = _least_size(problem, worlds, problem.least(rates.at(problem.confidence)).extra)
    if size is None:
        reached = worlds.share(problem.size_max)
        reason = f"{problem.size_max} {problem.label} reach {problem.target} in {reached:.1%} only"
        return ConfidentSizing(None, None, None, problem.confidence, samples, reason)
    reached = worlds.share(size)
    fewer = worlds.share(size - 1) if size else None
    reason = _state_reason(problem, size, reached, fewer, samples)
    return ConfidentSizing(size, reached, fewer, problem.confidence, samples, reason)


def _least_size(problem: _Problem, worlds: _Worlds, guess: int | None) -> int | None:
    """Return the least size that is enough, by bisection; None if the largest is not.

    The search starts at `guess`: the size at the corner of the rates is nearly always enough."""

    low, high = -1, min(guess if guess is not None else 1, problem.size_max)
    while not worlds.enough(high, problem.confidence):
        if high == problem.size_max:
            return None
        low, high = high, min(max(1, 2 * high), problem.size_max)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if worlds.enough(middle, problem.confidence) else (middle, high)
    return high


def _state_reason(
    problem: _Problem, size: int, reached: float, fewer: float | None, draws: int
) -> str:
    basis = f"of {draws} draws of the rates" if draws else "probability"
    if fewer is None:
        return f"no {problem.label} needed: {problem.target} is reached with {reached:.2%} {basis}"
    return (
        f"{size} {problem.label} reach {problem.target} with {reached:.2%} {basis}, "
        f"{size - 1} with {fewer:.2%} < {problem.confidence:.2%}"
    )


class _Worlds:
    """Draws of the rates, each with the sizes for which it is known to reach or miss the target."""

    def __init__(
        self, holds: Callable[[int, FailureRates], bool], draws: list[FailureRates], ordered: bool
    ) -> None:
        self.draws = draws
        self._holds = holds
        self._worse = np.eye(len(draws), dtype=bool)
        if ordered:  # [i, j]: True if draw i is in no figure better than draw j
            self._worse[:] = True
            for name in UNCERTAIN:
                values = np.array([getattr(draw, name) or 0.0 for draw in draws])
                self._worse &= values[:, None] >= values[None, :]
        self._reaches_from = np.full(len(draws), np.inf)
        self._misses_to = np.full(len(draws), -np.inf)

    def share(self, size: int) -> float:
        """Return the share of the draws that reach the target with `size`."""
        while (undecided := self._undecided_draws(size)).size:
            self._solve_draw(size, undecided)
        return float(np.mean(self._reaches_from <= size))

    def enough(self, size: int, confidence: float) -> bool:
        """True if share(size) >= confidence; solves only as many draws as needed."""
        total = len(self.draws)
        while (undecided := self._undecided_draws(size)).size:
            if np.count_nonzero(self._reaches_from <= size) >= confidence * total:
                return True
            if np.count_nonzero(self._misses_to < size) < confidence * total:
                return False
            self._solve_draw(size, undecided)
        return self.share(size) >= confidence

    def _undecided_draws(self, size: int) -> NDArray[np.intp]:
        return np.flatnonzero((self._reaches_from > size) & (self._misses_to < size))

    def _solve_draw(self, size: int, undecided: NDArray[np.intp]) -> None:
        """Solve the draw that decides most others in the worse of its two results; decide these."""
        order = self._worse[np.ix_(undecided, undecided)]
        chosen = undecided[np.argmax(np.minimum(order.sum(axis=0), order.sum(axis=1)))]
        if self._holds(size, self.draws[chosen]):
            no_worse = self._worse[chosen]
            self._reaches_from[no_worse] = np.minimum(self._reaches_from[no_worse], size)
        else:
            no_better = self._worse[:, chosen]
            self._misses_to[no_better] = np.maximum(self._misses_to[no_better], size)
