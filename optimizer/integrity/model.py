r"""PCRAFT's integrity model of one node (section IV, Fig. 2), in the cloud and on-premises.

    Correct -> Corrupt   f corrupt_p        f transient faults per second; the rest are masked
    Correct -> Crash     f crash_p  [+ hardware crash rate]
    Correct -> Retry     f retry_p
    Corrupt -> Correct   1 / sdc_s          found and repaired by hand
    [Corrupt -> Crash    hardware crash rate: a machine crashes in any state]
    Retry   -> Correct   (1 - retry_abort_p) / retry_s
    Retry   -> Crash     retry_abort_p / retry_s
    Crash   -> Correct   1 / crash_s        replaced: always in the cloud; on-premises by a node of
                                            the pool, which then has one fewer
    pool    -> pool + 1  1 / repair_s       while it is not full, one at a time; no repair: never

Table I's crash probabilities already include the retries that end in a crash, so retry_abort_p is 0
unless a measurement gives them separately. Down is Crash and Retry together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.errors import InputError, require_count, require_positive, require_share
from core.units import FAULT_MONTH_S, YEAR_S
from optimizer.availability.doubling import Matrix, Occupancy, occupancy

_CORRECT, _CORRUPT, _CRASH, _RETRY = range(4)
_NEGLIGIBLE = 1e-12
_LEVELS_MAX = 200  # pool nodes that the chain can hold: 804 states, some seconds


@dataclass(frozen=True)
class FaultOutcomes:
    """The outcomes of a transient fault, as probabilities; the rest of the faults are masked."""

    corrupt_p: float
    crash_p: float
    retry_p: float = 0.0

    def __post_init__(self) -> None:
        for name in ("corrupt_p", "crash_p", "retry_p"):
            require_share(name, getattr(self, name))
        total = self.corrupt_p + self.crash_p + self.retry_p
        if total > 1.0 + 1e-12:
            raise InputError(
                "corrupt_p + crash_p + retry_p",
                expected="at most 1",
                got=f"{total:g}",
                hint="They are shares of all faults; masked faults are the rest.",
            )


NODE_TYPES = {
    "native": FaultOutcomes(0.2619, 0.1249),
    "ft_ilr": FaultOutcomes(0.008, 0.75),
    "ft_tx": FaultOutcomes(0.0117, 0.0772, 0.6699),
}
"""PCRAFT Table I as printed."""


@dataclass(frozen=True)
class Recovery:
    """Mean recovery times [s] (PCRAFT Table I), and the share of retries that end in a crash."""

    sdc_s: float = 6 * 3600.0
    crash_s: float = 15.0
    retry_s: float = 2.5e-6
    retry_abort_p: float = 0.0

    def __post_init__(self) -> None:
        for name in ("sdc_s", "crash_s", "retry_s"):
            require_positive(name, getattr(self, name))
        require_share("retry_abort_p", self.retry_abort_p)


@dataclass(frozen=True)
class Shares:
    """Shares of time; they sum to one."""

    correct: float
    corrupt: float
    down: float


@dataclass(frozen=True)
class Integrity:
    """Expected shares of the horizon; the steady state, None if the pool only gets empty."""

    correct: float
    corrupt: float
    crash: float
    retry: float
    error_bound: float
    states: int
    steady_state: Shares | None

    @property
    def down(self) -> float:
        return self.crash + self.retry


def integrity(
    outcomes: FaultOutcomes,
    faults_per_month: float,
    recovery: Recovery | None = None,
    *,
    hardware_crash_per_year: float | None = None,
    pool: int | None = None,
    repair_s: float | None = None,
    horizon_s: float = FAULT_MONTH_S,
) -> Integrity:
    r"""Expected share of the horizon that a node is correct, corrupt, crashed and in retry.

    Parameters: faults_per_month transient faults per node and 30 d > 0; hardware_crash_per_year
    per node and 365 d > 0, or None; pool the cold nodes that can replace this one (on-premises),
    None where they do not run out (cloud); repair_s [s] mean time until a crashed node is back in
    the pool, None: never; horizon_s [s] > 0, from Correct with a full pool.
    Returns: Integrity; error_bound is absolute, for each share, derived in `doubling`.
    Raises: InputError naming the field.  Source: PCRAFT Fig. 2, Table I, Fig. 7.
    """
    recovery = recovery or Recovery()
    fault_per_s = require_positive("faults_per_month", faults_per_month) / FAULT_MONTH_S
    require_positive("horizon_s", horizon_s)
    hardware_per_s = 0.0
    if hardware_crash_per_year is not None:
        hardware_per_s = require_positive("hardware_crash_per_year", hardware_crash_per_year)
        hardware_per_s /= YEAR_S
    _check_pool(pool, repair_s)
    node = _node_rates(outcomes, fault_per_s, recovery, hardware_per_s)
    replacement = np.zeros((4, 4))
    replacement[_CRASH, _CORRECT] = 1.0 / recovery.crash_s
    crash_per_s = node[_CORRECT, _CRASH] + outcomes.retry_p * fault_per_s * recovery.retry_abort_p
    with_replacement = node + replacement
    if pool is None or crash_per_s == 0:
        return _integrity(
            occupancy(with_replacement, horizon_s), 0.0, _steady_state(with_replacement)
        )
    steady = None
    if repair_s is not None:
        steady = _steady_state(node, pool, replacement, np.eye(4) / repair_s)
    exceeded = _pool_exceeded_p(pool, crash_per_s * horizon_s)
    if exceeded < _NEGLIGIBLE:
        return _integrity(occupancy(with_replacement, horizon_s), exceeded, steady)
    return _integrity(*_solve_with_pool(node, replacement, horizon_s, pool, repair_s), steady)


def _check_pool(pool: int | None, repair_s: float | None) -> None:
    if pool is not None:
        require_count("pool", pool)
    if repair_s is None:
        return
    require_positive("repair_s", repair_s)
    if not pool:
        raise InputError(
            "repair_s",
            expected="a pool of at least 1 node beside it, to which repaired nodes return",
            got="no pool" if pool is None else "a pool of 0",
            hint="Add such a pool, or leave the repair out.",
        )


def _node_rates(
    outcomes: FaultOutcomes, fault_per_s: float, recovery: Recovery, hardware_per_s: float
) -> Matrix:
    """Return the rates of Fig. 2 without the transition out of Crash."""
    rates = np.zeros((4, 4))
    rates[_CORRECT, _CORRUPT] = fault_per_s * outcomes.corrupt_p
    rates[_CORRECT, _CRASH] = fault_per_s * outcomes.crash_p + hardware_per_s
    rates[_CORRECT, _RETRY] = fault_per_s * outcomes.retry_p
    rates[_CORRUPT, _CORRECT] = 1.0 / recovery.sdc_s
    rates[_CORRUPT, _CRASH] = hardware_per_s
    rates[_RETRY, _CORRECT] = (1.0 - recovery.retry_abort_p) / recovery.retry_s
    rates[_RETRY, _CRASH] = recovery.retry_abort_p / recovery.retry_s
    return rates


def _pool_exceeded_p(pool: int, crashes: float) -> float:
    """Return P(more crashes than pool nodes), as for a node that is never down (an upper bound)."""
    from scipy.special import pdtrc

    return float(pdtrc(pool, crashes))


def _solve_with_pool(
    node: Matrix, replacement: Matrix, horizon_s: float, pool: int, repair_s: float | None
) -> tuple[Occupancy, float]:
    """Return the chain of node and pool, cut below an improbable pool, and the cut's error.

    A path with a smaller pool is the path with a larger one plus the waits at the empty pool, so no
    share differs by more than the time that is spent in Crash with the pool empty.
    """
    size = min(8, pool)
    while True:
        occupied = occupancy(_pool_rates(node, replacement, size, repair_s), horizon_s)
        waiting = float(occupied.shares[-4 + _CRASH])
        if size == pool:
            return occupied, 0.0
        if waiting < _NEGLIGIBLE:
            return occupied, waiting
        if size == _LEVELS_MAX:
            raise InputError(
                "pool",
                expected=f"at most {_LEVELS_MAX} nodes, or an unlimited number",
                got=str(pool),
                hint="A shorter horizon or repair time makes it solvable.",
            )
        size = min(8 * size, pool, _LEVELS_MAX)


def _pool_rates(node: Matrix, replacement: Matrix, pool: int, repair_s: float | None) -> Matrix:
    """Return the rates of node and pool; state 4 k + s: the node in s, k of the pool consumed."""
    above, below = np.eye(pool + 1, k=1), np.eye(pool + 1, k=-1)
    rates = np.kron(np.eye(pool + 1), node) + np.kron(above, replacement)
    if repair_s is not None:
        rates += np.kron(below, np.eye(4) / repair_s)
    return rates


def _steady_state(
    node: Matrix, pool: int = 0, replacement: Matrix | None = None, repair: Matrix | None = None
) -> Shares:
    """Return the long-run shares of `_pool_rates`, by elimination without subtraction.

    The emptiest pool comes first. A level meets only its neighbours, so two at a time are enough.

    Source: Grassmann, Taksar, Heyman 1985.
    """
    eliminated = []
    level_rates = node
    for _ in range(pool):
        window = np.block([[node, replacement], [repair, level_rates]])
        _eliminate(window, 4)
        eliminated.append(window[:, 4:])
        level_rates = window[:4, :4]
    window = level_rates.copy()
    _eliminate(window, 1)
    weight = _weights(np.ones(1), window[:, 1:])
    total = weight.copy()
    for columns in reversed(eliminated):
        weight = _weights(weight, columns)[4:]
        total += weight
        scale = total.sum()  # a pool that runs dry has weights that grow without bound
        total, weight = total / scale, weight / scale
    correct, corrupt, crash, retry = (float(share) for share in total / total.sum())
    return Shares(correct, corrupt, crash + retry)


def _eliminate(rates: Matrix, least: int) -> None:
    """Censor the states from the last down to `least`; their columns become visits per visit."""
    for last in range(len(rates) - 1, least - 1, -1):
        rates[:last, last] /= rates[last, :last].sum()
        rates[:last, :last] += np.outer(rates[:last, last], rates[last, :last])
        np.fill_diagonal(rates[:last, :last], 0.0)


def _weights(weights: Matrix, columns: Matrix) -> Matrix:
    """Return the stationary weights of the eliminated states behind those of the known ones."""
    for column in columns.T:
        weights = np.append(weights, weights @ column[: len(weights)])
    return weights


def _integrity(occupied: Occupancy, cut_error: float, steady: Shares | None) -> Integrity:
    correct, corrupt, crash, retry = (float(s) for s in occupied.shares.reshape(-1, 4).sum(axis=0))
    error = occupied.error + cut_error
    return Integrity(correct, corrupt, crash, retry, error, len(occupied.shares), steady)
