r"""Expected rewards of a Markov chain over a horizon, by rational approximation of the exponential.

The chains here are stiff: a fail-over takes 15 s, the horizon is a year. Uniformization needs
millions of steps, a plain matrix exponential is dense. Instead exp(Q h) x is a contour integral,

    exp(Q h) x = 1/(2 pi i) \int_C e^z (z I - Q h)^{-1} x dz  ~  sum_k c_k (z_k I - Q h)^{-1} x,

on Talbot's cotangent contour with the parameters of Trefethen, Weideman and Schmelzer (BIT 46,
2006, 653-670), whose error falls as 3.89^-n on the negative real axis whatever the stiffness. The
rule of n = 28 nodes needs 14 sparse complex factors, which all substeps share.

What can go wrong, and the guard: the chain is far from normal (hundreds of crashes in a row), and a
resolvent chain (c / (z + c))^m explodes where c, the crash rate times the substep, is larger than
|z|^2 / (2 |Re z|) on the contour's left part. So a substep keeps c below the least of these (then
each factor is at most one), and nothing is believed unchecked: the result is computed with half the
substep again, the difference is the error estimate, probabilities must sum to one and none be
negative; otherwise the substep is halved, a bounded number of times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import PlannerError

if TYPE_CHECKING:
    from numpy.typing import NDArray

NODES = 28
ROUNDING = 2e-13  # of one substep's sums: e^{max Re z} * machine epsilon, with a margin
ACCEPTED = 1e-10  # a larger difference between h and h/2 is not believed
HALVINGS_MAX = 5


@dataclass(frozen=True)
class Rewards:
    """Rewards at the horizon and a bound on their absolute numerical error (see module)."""

    values: NDArray[np.float64]
    error: float
    substeps: int


def expected_rewards(rates: Any, rewards: Any, start: int, crash_per_horizon: float) -> Rewards:
    r"""E[ \int_0^1 rewards x(t) dt ], the time in units of the horizon, from state `start`.

    Parameters: rates (n, n) sparse [1/horizon], column j holds the flows out of j (columns sum to
    zero); rewards (m, n) sparse, each entry in [0, 1]; start the initial state; crash_per_horizon
    the largest total crash rate out of a state [1/horizon], which sets the substep.
    Returns: Rewards with (m,) values.  Raises: PlannerError if the checks never pass.
    Source: Trefethen, Weideman, Schmelzer 2006; checked against Laplace inversions at 50-70 digits.
    """
    substeps = max(1, math.ceil(crash_per_horizon / _coupling_max()))
    coarse = _propagate(rates, rewards, start, substeps)
    for _ in range(HALVINGS_MAX):
        substeps *= 2
        fine = _propagate(rates, rewards, start, substeps)
        difference = float(np.max(np.abs(fine.values - coarse.values)))
        if max(difference, coarse.defect, fine.defect) < ACCEPTED:
            floor = ROUNDING * substeps
            values = np.clip(fine.values, 0.0, None)
            return Rewards(values, difference + fine.defect + floor, substeps)
        coarse = fine
    raise PlannerError(
        "availability model",
        expected=f"a solution that is stable to {ACCEPTED}",
        came=f"a defect of {coarse.defect:.1e} at {substeps} substeps",
        do="Please report the rates: the method does not cover them.",
    )


@dataclass(frozen=True)
class _Propagated:
    values: NDArray[np.float64]
    defect: float  # how far the probabilities are from a distribution


def _propagate(rates: Any, rewards: Any, start: int, substeps: int) -> _Propagated:
    from scipy.sparse import block_array, csc_array, eye_array
    from scipy.sparse.linalg import splu

    states, accounts = rates.shape[0], rewards.shape[0]
    empty = csc_array((accounts, accounts))
    matrix = block_array([[rates, None], [rewards, empty]], format="csc") / substeps
    identity = eye_array(states + accounts, format="csc")
    points, weights = _contour()
    factors = [splu((point * identity - matrix).tocsc(), permc_spec="NATURAL") for point in points]
    x = np.zeros(states + accounts)
    x[start] = 1.0
    for _ in range(substeps):
        right = x.astype(np.complex128)
        x = np.zeros_like(x)
        for weight, factor in zip(weights, factors, strict=True):
            x += (weight * factor.solve(right)).real
    probability = x[:states]
    defect = max(abs(float(probability.sum()) - 1.0), -float(probability.min()))
    if not np.all(np.isfinite(x)):
        return _Propagated(np.zeros(accounts), math.inf)
    return _Propagated(x[states:], defect)


def _contour() -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Nodes z_k and weights c_k in the upper half plane (the lower one is their conjugate)."""
    theta = np.pi * np.arange(1, NODES, 2) / NODES
    tangent = np.tan(0.6407 * theta)
    points = NODES * (0.5017 * theta / tangent - 0.6122 + 0.2645j * theta)
    slope = NODES * (
        0.5017 / tangent - 0.5017 * 0.6407 * theta / np.sin(0.6407 * theta) ** 2 + 0.2645j
    )
    return points, (-2j / NODES) * np.exp(points) * slope


def _coupling_max() -> float:
    """The largest c for which |c / (z + c)| <= 1 at every node left of the imaginary axis."""
    points, _ = _contour()
    left = points[points.real < 0]
    return float(np.min(np.abs(left) ** 2 / (-2.0 * left.real)))
