r"""The state space and the transitions of every availability model (PCRAFT Fig. 1 and beyond).

A state is (d, l, k): d of the active places empty, l of the nodes in the others limping, k of the
pool consumed (passive failover on-premises only). Of n active places n - d - l run at full speed.

    crash            (n - d - l) lambda (1 - beta)         d + 1
    crash, limping   l lambda (1 - beta)                   d + 1, l - 1
    starts to limp   (n - d - l) alpha                     l + 1
    stops limping    l omega                               l - 1
    fail-over        rho, if d > 0 [and k < pool]          d - 1 [, k + 1]
    repair           min(k or d, crew) rho_repair          k - 1, or d - 1 where there is no pool
    standby crash    (pool - k) sigma lambda               k + 1
    common shock     lambda beta n / g                     g places are drawn at random, and those
                                                           with a node become empty

So every node crashes at lambda in total, for any beta. Few nodes are down or limping at once: d and
l are cut, and transitions beyond the cut leave into a separate class, whose time is the bracket.
Without repair, an empty place that cannot be filled again leaves into the class `dead`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from core.arrays import Floats, Ints, Mask
from core.errors import InputError
from core.tolerances import CAPACITY
from core.units import YEAR_S
from optimizer.availability.rates import FailureRates
from optimizer.availability.transient import Flow

STATES_MAX = 150_000
PAST_CUT, DEAD = 0, 1  # the classes that a chain leaves into
_SLOW_FAILOVER = 0.1  # crash rate over fail-over rate from which fail-over is slow
_FEW_LIMPING = 10.0  # at once, on average


@dataclass(frozen=True)
class Shape:
    """The model: `slots` active nodes; `pool` None if there is none, or an unlimited one.

    failover: a crashed node is replaced at 1 / failover_s; otherwise it is repaired, if at all.
    down_max, limping_max: the cuts of d and l. d may exceed body_max only with at most free_max
    nodes in the pool, because empty places are filled within seconds while nodes are waiting.
    """

    slots: int
    pool: int | None
    failover: bool
    down_max: int
    limping_max: int
    body_max: int
    free_max: int

    def holds(self, down: Ints, limping: Ints, consumed: Ints) -> Mask:
        """Mark the states inside the cut: (n,) of (n,) each."""
        inside = (down <= self.down_max) & (limping <= self.limping_max)
        if self.pool is not None:
            inside &= (down <= self.body_max) | (self.pool - consumed <= self.free_max)
        return inside


@dataclass(frozen=True)
class Chain:
    """A shape's states and transitions, rates [1/horizon]; `leaves`: row PAST_CUT, row DEAD."""

    down: Ints  # (n,)
    limping: Ints
    consumed: Ints
    generator: Any  # (n, n) sparse, column j: flows out of state j
    leaves: Any  # (2, n) sparse
    start: int
    crash_per_horizon: float

    @property
    def states(self) -> int:
        return len(self.down)

    def shortfall(self, limp_capacity: float) -> Ints:
        """Return the number of missing active places (n,), rounded up.

        Parameters: limp_capacity in [0, 1]; a limping node counts as missing by 1 - limp_capacity.
        """
        missing = self.down + (1.0 - limp_capacity) * self.limping
        return np.ceil(missing - CAPACITY).astype(np.int64)

    def flow(self, rewards: Any) -> Flow:
        return Flow(self.generator, self.leaves, rewards, self.start, self.crash_per_horizon)


def build(shape: Shape, rates: FailureRates, horizon_s: float, *, reflect: bool = False) -> Chain:
    """Return the chain of `shape`, with rates [1/horizon]; with `reflect` nothing passes the cut.

    Parameters: shape; rates; horizon_s [s] > 0.
    Raises: InputError if it has more than STATES_MAX states.  Source: PCRAFT Fig. 1.
    """
    from scipy.sparse import csc_array

    down, limping, consumed, index = _states(shape)
    n = len(down)
    sources, targets, values = [], [], []
    leaving = np.zeros((2, n))
    for rate, step in _moves(shape, rates, horizon_s, down, limping, consumed):
        origins = np.flatnonzero(rate > 0)
        goal = tuple(
            _take(a + by, origins) for a, by in zip((down, limping, consumed), step, strict=True)
        )
        dead = _dead(shape, rates, goal)
        past = ~dead & ~shape.holds(*goal)
        inside = ~(dead | past)
        sources.append(origins[inside])
        targets.append(index[tuple(axis[inside] for axis in goal)])
        values.append(rate[origins[inside]])
        for row, mask in ((PAST_CUT, past), (DEAD, dead)):
            leaving[row, origins[mask]] += rate[origins[mask]]
    if reflect:
        leaving[PAST_CUT] = 0.0
    source, target = np.concatenate(sources), np.concatenate(targets)
    crash = rates.crash_per_year * horizon_s / YEAR_S
    return Chain(
        down=down,
        limping=limping,
        consumed=consumed,
        generator=_generator(source, target, np.concatenate(values), leaving.sum(axis=0)),
        leaves=csc_array(leaving),
        start=int(index[0, 0, 0]),
        crash_per_horizon=_drift(shape, rates, crash, horizon_s),
    )


def _take(values: Any, origins: Ints) -> Ints:
    taken: Ints = np.asarray(values)[origins]
    return taken


def _dead(shape: Shape, rates: FailureRates, goal: tuple[Ints, ...]) -> Mask:
    """Mark states with a place that stays empty: the pool is used up, or nothing is replaced."""
    down, _, consumed = goal
    if rates.repair_s is not None or (shape.failover and shape.pool is None):
        return np.zeros(len(down), dtype=bool)
    if shape.pool is not None:
        return (consumed >= shape.pool) & (down > 0)
    return down > shape.down_max


def _states(shape: Shape) -> tuple[Ints, Ints, Ints, Ints]:
    """States (d, l, k) inside the cut with d + l <= slots, and their index."""
    pool = shape.pool or 0
    body = range(min(shape.body_max, shape.down_max) + 1), range(pool + 1)
    arm = (
        range(shape.body_max + 1, shape.down_max + 1),
        range(max(0, pool - shape.free_max), pool + 1),
    )
    count = _count(shape, *body) + _count(shape, *arm)
    if count > STATES_MAX:
        raise InputError(
            "availability model",
            expected=f"at most {STATES_MAX} states",
            got=f"{count} (up to {shape.down_max} nodes down, {shape.limping_max} limping, a "
            f"pool of {pool})",
            hint="Fewer nodes, a smaller pool, or shocks that take fewer nodes.",
        )
    grids = (_grid(shape, *body), _grid(shape, *arm))
    down, limping, consumed = (np.concatenate(pair) for pair in zip(*grids, strict=True))
    sizes = (shape.down_max + 1, shape.limping_max + 1, pool + 1)
    index = np.full(sizes, -1, dtype=np.int64)
    index[down, limping, consumed] = np.arange(len(down))
    return down, limping, consumed, index


def _count(shape: Shape, down: range, consumed: range) -> int:
    """Return the number of states of `_grid`, or a lower bound if that exceeds STATES_MAX."""
    if len(down) > STATES_MAX:
        return len(down) * len(consumed)
    limping = (min(shape.limping_max, shape.slots - d) + 1 for d in down)
    return len(consumed) * sum(max(0, count) for count in limping)


def _grid(shape: Shape, down: range, consumed: range) -> tuple[Ints, ...]:
    """Return all (d, l, k) with d in `down`, l up to its cut, k in `consumed`."""
    axes = np.meshgrid(
        np.fromiter(down, np.int64),
        np.arange(shape.limping_max + 1),
        np.fromiter(consumed, np.int64),
        indexing="ij",
    )
    flat = tuple(axis.ravel() for axis in axes)
    possible = flat[0] + flat[1] <= shape.slots
    return tuple(axis[possible] for axis in flat)


Step = tuple[Any, Any, Any]


def _moves(
    shape: Shape, rates: FailureRates, horizon_s: float, d: Ints, limp: Ints, k: Ints
) -> Iterator[tuple[Any, Step]]:
    """Yield rates [1/horizon] (n,) and their change of (d, l, k); 0 for impossible transitions."""
    per_year = horizon_s / YEAR_S
    crash = rates.crash_per_year * (1.0 - rates.common_cause) * per_year
    full = shape.slots - d - limp
    yield full * crash, (1, 0, 0)
    if rates.limps:
        assert rates.limp_recovery_s is not None
        yield limp * crash, (1, -1, 0)
        yield full * rates.limp_per_year * per_year, (0, 1, 0)
        yield limp * (horizon_s / rates.limp_recovery_s), (0, -1, 0)
    if rates.common_cause:
        yield from _shocks(shape, rates, per_year, d, limp)
    repair = 0.0 if rates.repair_s is None else horizon_s / rates.repair_s
    if shape.failover:
        ready = d > 0 if shape.pool is None else (d > 0) & (k < shape.pool)
        yield ready * (horizon_s / rates.failover_s), (-1, 0, 0 if shape.pool is None else 1)
    elif repair:
        yield np.minimum(d, rates.repair_crew) * repair, (-1, 0, 0)
    if shape.pool:
        standby = rates.standby_fraction * rates.crash_per_year * per_year
        yield (shape.pool - k) * standby, (0, 0, 1)
        yield np.minimum(k, rates.repair_crew) * repair, (0, 0, -1)


def _shocks(
    shape: Shape, rates: FailureRates, per_year: float, d: Ints, limp: Ints
) -> Iterator[tuple[Any, Step]]:
    """Yield shocks: each draws g of the n places; a full-speed and b limping nodes fail."""
    n = shape.slots
    g = min(n, rates.common_cause_nodes or n)
    shock = rates.crash_per_year * rates.common_cause * per_year * n / g
    if g == n:
        yield np.where(d < n, shock, 0.0), (n - d, -limp, 0)
        return
    full, table = n - d - limp, _log_factorials(n)
    for a in range(g + 1):
        for b in range(min(g - a, int(limp.max(initial=0))) + 1):
            if a + b:
                share = _hypergeometric(table, (full, limp, d), (a, b, g - a - b))
                yield shock * share, (a + b, -b, 0)


def _hypergeometric(table: Floats, sizes: tuple[Ints, ...], drawn: tuple[int, ...]) -> Floats:
    """Probability (n,) of drawing `drawn` from classes of these `sizes`, without replacement."""
    total, number = sum(sizes), sum(drawn)
    log = np.zeros(len(sizes[0]))
    possible = np.ones(len(sizes[0]), dtype=bool)
    for size, x in zip(sizes, drawn, strict=True):
        possible &= size >= x
        log += _log_choose(table, np.maximum(size, x), x)
    log -= _log_choose(table, total, number)
    return np.where(possible, np.exp(log), 0.0)


def _log_choose(table: Floats, n: Any, k: int) -> Floats:
    chosen: Floats = table[n] - table[k] - table[n - k]
    return chosen


@lru_cache(maxsize=8)
def _log_factorials(n: int) -> Floats:
    from scipy.special import gammaln

    table: Floats = gammaln(np.arange(n + 1) + 1.0)
    return table


def _generator(source: Ints, target: Ints, rate: Floats, leaving: Floats) -> Any:
    from scipy.sparse import csc_array

    n = len(leaving)
    out = np.bincount(source, weights=rate, minlength=n) + leaving
    diagonal = np.arange(n)
    rows = np.concatenate((target, diagonal))
    columns = np.concatenate((source, diagonal))
    return csc_array((np.concatenate((rate, -out)), (rows, columns)), shape=(n, n))


def _drift(shape: Shape, rates: FailureRates, crash: float, horizon_s: float) -> float:
    """Return the largest rate [1/horizon] at which the chain passes through many states in a row.

    Fail-over is included if it cannot keep up, because many places are then empty at once. Limping
    is included if many nodes limp at once; otherwise a limping node is soon back.
    """
    limping = rates.limp_per_year * (rates.limp_recovery_s or 0.0) / YEAR_S  # over a whole one
    many = rates.limps and shape.slots * limping > _FEW_LIMPING
    limp = rates.limp_per_year * horizon_s / YEAR_S if many else 0.0
    standby = (shape.pool or 0) * rates.standby_fraction * crash
    failover = horizon_s / rates.failover_s if shape.failover else 0.0
    moving = shape.slots * crash
    slow = failover if shape.pool and moving > _SLOW_FAILOVER * failover else 0.0
    return moving + shape.slots * limp + standby + slow
