r"""Time that a small Markov chain spends in each state over a horizon, to nearly full precision.

A retried transaction takes 2.5 us and the horizon is a month: 10^12 of the one in the other. An
eigen-decomposition or a matrix exponential of such a generator is good to about
10^12 * machine epsilon = 10^-4. Doubling has no such limit if all of its numbers are probabilities:

    P(h) = exp(Q h) and M(h) = 1/h \int_0^h exp(Q s) ds   by uniformization, h <= 1 / max rate
    M(2h) = (M(h) + P(h) M(h)) / 2,   P(2h) = P(h) P(h),  rows made to sum to one each time

No step subtracts, so each entry keeps its relative precision. A chain is determined by its
off-diagonal entries, whose errors do not grow with the number of steps.

The bound. A doubling at step h gives off-diagonal entries a relative error u = 2 (c + 3) eps, c the
longest sum in it. This has the effect of a wrong state change with probability u, so it counts once
per change of state on the grid of step h: at most min(J, T/h) times, J the expected number of
jumps. A wrong path costs at most D = \int_0^T d(P(t)) dt of time, with d <= 1 the Doeblin
coefficient, until it meets the right one, in each of its 1 + log2(T/D) windows. Hence

    |error| <= u (doublings + terms) + u sum_h min(J, T/h) (D/T) (1 + log2(T/D)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.arrays import Floats
from core.errors import InputError

Matrix = Floats

_DOUBLINGS_MAX = 200
_NOTHING = 1e-150  # 2^200 times this is nothing, and products of smaller numbers are slow
_BLOCK = 64  # columns of a product summed at once: sums of 64 and of n/64 round less than one of n


@dataclass(frozen=True)
class Occupancy:
    """Share of the horizon in each state (n,), and a bound on the absolute error of each."""

    shares: Floats
    error: float


def occupancy(rates: Matrix, horizon_s: float) -> Occupancy:
    """E[ share of [0, T] in state i ] from state 0.

    Parameters: rates (n, n) [1/s], off-diagonal >= 0, entry (i, j) from i to j, diagonal zero;
    horizon_s T [s] > 0.
    Returns: Occupancy with (n,) shares that sum to one; error as derived at the top of the module.
    Raises: InputError if the fastest rate times T is above 2^200.
    Source: doubling with exact row sums, after Grassmann, Taksar, Heyman (Oper. Res. 33, 1985).
    """
    shares = np.zeros(len(rates))
    reached = _reachable(rates)
    rates = rates[np.ix_(reached, reached)]
    leaving = rates.sum(axis=1)
    events = float(leaving.max()) * horizon_s
    if not events <= 2.0**_DOUBLINGS_MAX:
        raise InputError(
            "horizon_s",
            expected=f"at most 2^{_DOUBLINGS_MAX} events of the fastest kind within it",
            got=f"{events:.1e}",
            hint="A recovery time is too short, or a rate or the horizon too large.",
        )
    doublings = max(0, math.ceil(math.log2(events))) if events > 0 else 0
    step, mean, terms = _first_step(rates, leaving, events, doublings)
    apart = 1.0  # D / T, from the time before the first step on
    rounding = len(rates) * float(np.finfo(np.float64).eps)
    apart_share = 2.0**-doublings
    for level in range(doublings):
        overlap = float(step.min(axis=0).sum()) - rounding
        apart = min(apart, 1.0 - max(0.0, overlap))
        apart_share += apart * 2.0 ** (level - doublings)
        mean = _stochastic(mean + _product(step, mean))
        step = _stochastic(_product(step, step))
    jumps = float(mean[0] @ leaving) * horizon_s
    shares[reached] = mean[0]
    return Occupancy(shares, _bound(len(rates), doublings, terms, jumps, min(1.0, apart_share)))


def _reachable(rates: Matrix) -> NDArray[np.intp]:
    """Return the states reachable from state 0; others would only shorten the steps."""
    reached = np.zeros(len(rates), dtype=bool)
    new = np.arange(len(rates)) == 0
    while new.any():
        reached |= new
        new = (rates[new] > 0).any(axis=0) & ~reached
    return np.flatnonzero(reached)


def _first_step(
    rates: Matrix, leaving: Matrix, events: float, doublings: int
) -> tuple[Matrix, Matrix, int]:
    """P(h) and M(h) for h = T / 2^doublings, and the terms of their series."""
    identity = np.eye(len(rates))
    if events == 0:
        return identity, identity, 1
    mean_jumps = events / 2.0**doublings
    weights = [math.exp(-mean_jumps)]  # Poisson; the cut leaves less than 2^-60 over all steps
    while len(weights) < 4 or weights[-1] > 2.0 ** -(doublings + 62):
        weights.append(weights[-1] * mean_jumps / len(weights))
    beyond = np.cumsum(weights[::-1])[::-1]  # P(N >= m), summed from its small end
    jump = rates / leaving.max() + np.diag(np.clip(1.0 - leaving / leaving.max(), 0.0, None))
    power, step, mean = identity, weights[0] * identity, beyond[1] * identity
    for m in range(1, len(weights) - 1):
        power = _stochastic(_product(power, jump))
        step, mean = step + weights[m] * power, mean + beyond[m + 1] * power
    return _stochastic(step), _stochastic(mean), len(weights)


def _product(a: Matrix, b: Matrix) -> Matrix:
    blocks = [a[:, k : k + _BLOCK] @ b[k : k + _BLOCK] for k in range(0, len(a), _BLOCK)]
    product: Matrix = sum(blocks[1:], start=blocks[0])
    return product


def _stochastic(matrix: Matrix) -> Matrix:
    matrix[matrix < _NOTHING] = 0.0
    rows: Matrix = matrix / matrix.sum(axis=1, keepdims=True)
    return rows


def _bound(states: int, doublings: int, terms: int, jumps: float, apart_share: float) -> float:
    longest = min(states, _BLOCK) + math.ceil(states / _BLOCK)
    share = 2.0 * (longest + 3) * float(np.finfo(np.float64).eps)
    changes = terms * min(jumps, 2.0**doublings)
    changes += sum(min(jumps, 2.0**level) for level in range(doublings))
    return share * (doublings + terms + changes * apart_share * (1.0 - math.log2(apart_share)))
