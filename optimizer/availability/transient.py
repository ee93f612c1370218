r"""Expected rewards of a Markov chain over a horizon, by rational approximation of the exponential.

(`uniformization` is used if nothing in the chain is fast, because a plain sum is then cheaper, and
`doubling` if the chain is small and passes through very many crashes.)

The chains here are stiff: a fail-over takes 15 s, the horizon is a year. Uniformization needs
millions of steps, a plain matrix exponential is dense. Instead exp(Q h) x is a contour integral,

    exp(Q h) x = 1/(2 pi i) \int_C e^z (z I - Q h)^{-1} x dz  ~  sum_k c_k (z_k I - Q h)^{-1} x,

on Talbot's cotangent contour with the parameters of Trefethen, Weideman and Schmelzer (BIT 46,
2006, 653-670), whose error falls as 3.89^-n on the negative real axis for any stiffness. The rule
of n = 28 nodes needs 14 complex factors, which all substeps share: LAPACK's banded ones if the
states' order keeps the band narrow, otherwise sparse ones.

A risk, and its guard: the chain is far from normal (hundreds of crashes in a row), and a resolvent
chain (c / (z + c))^m explodes if c, the crash rate times the substep, is larger than
|z|^2 / (2 |Re z|) on the contour's left part. So a substep keeps c below the least of these, and
each factor is at most one. Each result is checked: it is computed again with half the substep, the
difference is the error estimate, probabilities must sum to one and none may be negative; otherwise
the substep is halved, a limited number of times.

Most chains settle long before the horizon ends. When a substep no longer changes p, the remaining
law is taken to be p' = (I - Q)^{-1} p, with a bounded error (`_settle`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.arrays import Floats, Ints
from core.errors import PlannerError
from core.tolerances import U_HALVING
from optimizer.availability import doubling, uniformization

NODES = 28
ROUNDING = 5e-14  # of one substep's sums: e^{max Re z} * machine epsilon, with a margin
HALVINGS_MAX = 5
SUBSTEPS_MAX = 50_000  # taken, not counting those that a settled chain skips
_SETTLING = 1e-11  # change of a substep below which the limit is tried
_SETTLED = 2e-11  # distance to the limit that is accepted
_MANY_SUBSTEPS = 1_000  # from here on a small chain is rather doubled
_DENSE_STATES_MAX = 600
_STEP_OVERHEAD = 5_000  # multiplications that the call around one product or solve is worth
_BAND_WIDTH_MAX = 60  # a wider band is left to the sparse factors


@dataclass(frozen=True)
class Flow:
    """A chain in units of the horizon.

    generator (n, n) sparse [1/horizon]: column j has the flows out of state j; it sums to minus the
    rate that leaves for good. exits (e, n) sparse [1/horizon]: rates into absorbing classes.
    rewards (m, n) sparse in [0, 1], None for the laws alone. start: the initial state.
    crash_per_horizon: the largest total crash rate out of a state [1/horizon], which sets the
    substep.
    """

    generator: Any
    exits: Any
    rewards: Any
    start: int
    crash_per_horizon: float


@dataclass(frozen=True)
class Rewards:
    r"""E[\int_0^1 rewards p dt] (m,), E[\int_0^1 mass absorbed dt] (e,), and a bound on the
    absolute error of any of them."""

    values: Floats
    absorbed: Floats
    error: float


@dataclass
class _State:
    """Law p (n,), absorbed mass (e,), and the integrals of rewards p (m,) and of the mass (e,)."""

    p: Floats
    mass: Floats
    values: Floats
    absorbed: Floats


def expected_rewards(flow: Flow) -> Rewards:
    r"""Return the expected rewards over one horizon from `flow.start`.

    Returns: Rewards, shares of the horizon with an error below 1e-9.  Raises: PlannerError if the
    checks never pass.
    Source: Trefethen, Weideman, Schmelzer 2006; checked against Laplace inversions at 50-70 digits.
    """
    substeps = _substeps(flow.crash_per_horizon)
    if _are_steps_cheaper(flow, substeps):
        law, absorbed, error = uniformization.mean_law(flow.generator, flow.exits, flow.start)
        return Rewards(flow.rewards @ law, absorbed, error)
    if substeps > _MANY_SUBSTEPS and (doubled := _by_doubling(flow)) is not None:
        return doubled
    coarse = _propagate(flow, substeps)
    for _ in range(HALVINGS_MAX):
        substeps *= 2
        fine = _propagate(flow, substeps)
        difference = max(
            float(np.max(np.abs(fine.values - coarse.values), initial=0.0)),
            float(np.max(np.abs(fine.absorbed - coarse.absorbed), initial=0.0)),
        )
        if max(difference, coarse.defect, fine.defect) < U_HALVING:
            error = difference + fine.defect + ROUNDING * fine.taken
            return Rewards(fine.values, fine.absorbed, error)
        coarse = fine
    raise _uncovered_error(f"a defect of {coarse.defect:.1e} at {substeps} substeps")


def law_over_time(flow: Flow, points: int) -> tuple[Floats, float]:
    """Return laws (points + 1, n) at equidistant times from 0 to the horizon, and their absolute
    error.

    Raises: PlannerError if the checks never pass.
    """
    per_point = _substeps(flow.crash_per_horizon / points)
    coarse = _laws(flow, points, per_point)
    for _ in range(HALVINGS_MAX):
        per_point *= 2
        fine = _laws(flow, points, per_point)
        difference = float(np.max(np.abs(fine - coarse).sum(axis=1)))
        negative = max(0.0, -float(fine.min()))
        if max(difference, negative) < U_HALVING:
            return np.clip(fine, 0.0, 1.0), difference + negative + ROUNDING * points * per_point
        coarse = fine
    raise _uncovered_error(f"laws that differ by {difference:.1e} at {points * per_point} substeps")


def _by_doubling(flow: Flow) -> Rewards | None:
    """Solve a small chain by dense doubling; None if its bound is too wide."""
    n, classes = flow.generator.shape[0], flow.exits.shape[0]
    if n + classes > _DENSE_STATES_MAX or flow.start != 0:
        return None
    rates = np.zeros((n + classes, n + classes))
    rates[:n, :n] = flow.generator.toarray().T
    rates[:n, n:] = flow.exits.toarray().T
    np.fill_diagonal(rates, 0.0)
    occupied = doubling.occupancy(rates, 1.0)
    if not occupied.error < U_HALVING:
        return None
    return Rewards(flow.rewards @ occupied.shares[:n], occupied.shares[n:], occupied.error)


def _are_steps_cheaper(flow: Flow, substeps: int) -> bool:
    """Return True if uniformization needs fewer multiplications than the contour (estimated)."""
    n, entries = flow.generator.shape[0], flow.generator.nnz
    count = uniformization.steps(flow.generator)
    if count > uniformization.STEPS_MAX:
        return False
    by_steps = count * (entries + _STEP_OVERHEAD)
    _, lower, upper = _order(flow.generator)
    width = min(2 * lower + upper + 1, _BAND_WIDTH_MAX)
    by_contour = 3 * substeps * NODES * (n * width + _STEP_OVERHEAD)
    return bool(by_steps < by_contour)


@dataclass(frozen=True)
class _Propagated:
    values: Floats
    absorbed: Floats
    defect: float  # how far the law is from a distribution, plus what settling left out
    taken: int


def _propagate(flow: Flow, substeps: int) -> _Propagated:
    step = _make_step(flow, substeps)
    state = _initial_state(flow)
    left_out, taken, next_try = 0.0, substeps, 1
    for done in range(1, substeps + 1):
        if done > SUBSTEPS_MAX:
            raise _uncovered_error(f"more than {SUBSTEPS_MAX} substeps")
        before = state
        state = step(before)
        change = float(np.abs(state.p - before.p).sum())
        if done < next_try or done == substeps or change > _SETTLING:
            continue
        next_try = 2 * done
        settled = _settle(flow, state, (substeps - done) / substeps)
        if settled is not None:
            state, left_out = settled
            taken = done
            break
    if not all(np.all(np.isfinite(part)) for part in (state.p, state.values, state.absorbed)):
        return _Propagated(np.zeros_like(state.values), np.zeros_like(state.mass), math.inf, taken)
    total = float(state.p.sum() + state.mass.sum())
    defect = max(abs(total - 1.0), -float(state.p.min(initial=0.0))) + left_out
    clipped = np.clip(state.values, 0.0, None), np.clip(state.absorbed, 0.0, None)
    return _Propagated(*clipped, defect, taken)


def _settle(flow: Flow, state: _State, remaining: float) -> tuple[_State, float] | None:
    """Return the state at the horizon's end if the law is settled, and the error of assuming so.

    p' = (I - Q)^{-1} p has Q p' = p' - p, so |p(t) - p'|_1 <= (1 + t) |p' - p|_1 from here on. The
    difference p' - p is solved for, from the net flows; their sum is the flow that leaves.
    """
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    net = flow.generator @ state.p
    lost = float((flow.exits @ state.p).sum())
    net -= state.p * ((net.sum() + lost) / state.p.sum())
    identity = eye_array(flow.generator.shape[0], format="csc")
    moved: Floats = splu((identity - flow.generator).tocsc()).solve(net)
    error = (1.0 + remaining) * float(np.abs(moved).sum())
    if not error <= _SETTLED:
        return None
    values = state.values + remaining * (flow.rewards @ (state.p + moved))
    absorbed = state.absorbed + remaining * state.mass
    return _State(state.p + moved, state.mass, values, absorbed), error * remaining


def _laws(flow: Flow, points: int, per_point: int) -> Floats:
    step = _make_step(flow, points * per_point)
    state = _initial_state(flow)
    laws = [state.p]
    for _ in range(points):
        for _ in range(per_point):
            state = step(state)
        laws.append(state.p)
    return np.array(laws)


def _initial_state(flow: Flow) -> _State:
    p = np.zeros(flow.generator.shape[0])
    p[flow.start] = 1.0
    classes = flow.exits.shape[0]
    accounts = 0 if flow.rewards is None else flow.rewards.shape[0]
    return _State(p, np.zeros(classes), np.zeros(accounts), np.zeros(classes))


def _make_step(flow: Flow, substeps: int) -> Callable[[_State], _State]:
    """Return the function of a substep h.

    It computes p by the contour, and the integrals by the same contour over z and z^2.
    """
    h = 1.0 / substeps
    points, weights = _contour()
    solves = _resolvents(flow.generator * h, points)
    rewards = flow.rewards

    def step(state: _State) -> _State:
        law, integral, integral_twice = (np.zeros_like(state.p) for _ in range(3))
        for point, weight, solve in zip(points, weights, solves, strict=True):
            part = weight * solve(state.p)
            law += part.real
            part /= point
            integral += part.real
            part /= point
            integral_twice += part.real
        return _State(
            p=law,
            mass=state.mass + h * (flow.exits @ integral),
            values=state.values if rewards is None else state.values + h * (rewards @ integral),
            absorbed=state.absorbed + h * state.mass + h * h * (flow.exits @ integral_twice),
        )

    return step


Solve = Callable[[Floats], NDArray[np.complex128]]


def _resolvents(matrix: Any, points: NDArray[np.complex128]) -> list[Solve]:
    """Return x -> (z I - matrix)^{-1} x for each z."""
    rank, lower, upper = _order(matrix)
    n = matrix.shape[0]
    if 2 * lower + upper + 1 > _BAND_WIDTH_MAX:
        return [_sparse(matrix, point) for point in points]
    entries = matrix.tocoo()
    rows, columns = rank[entries.row], rank[entries.col]
    band = np.zeros((2 * lower + upper + 1, n), dtype=np.complex128)
    np.add.at(band, (lower + upper + rows - columns, columns), -entries.data)
    order = np.argsort(rank)
    return [_banded(band, lower, upper, order, point) for point in points]


def _order(matrix: Any) -> tuple[Ints, int, int]:
    """Return each state's rank in an order with a narrow band, and the band's lower and upper
    width.
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    order = np.asarray(reverse_cuthill_mckee(matrix.tocsr()), dtype=np.int64)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    entries = matrix.tocoo()
    offsets = rank[entries.row] - rank[entries.col]
    return rank, max(0, int(offsets.max(initial=0))), max(0, -int(offsets.min(initial=0)))


def _sparse(matrix: Any, point: complex) -> Solve:
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    identity: Any = eye_array(matrix.shape[0], format="csc")
    factor: Any = splu((point * identity - matrix).tocsc())

    def solve(x: Floats) -> NDArray[np.complex128]:
        solution: NDArray[np.complex128] = factor.solve(x.astype(np.complex128))
        return solution

    return solve


def _banded(
    band: NDArray[np.complex128], lower: int, upper: int, order: Ints, point: complex
) -> Solve:
    from scipy.linalg.lapack import zgbtrf, zgbtrs

    shifted = band.copy(order="F")
    shifted[lower + upper] += point
    factor, pivots, info = zgbtrf(shifted, lower, upper, overwrite_ab=True)
    if info != 0:
        raise _uncovered_error(f"a singular resolvent at {point:.3g}")

    def solve(x: Floats) -> NDArray[np.complex128]:
        right = x[order].astype(np.complex128)
        solution = np.empty_like(right)
        solution[order], _ = zgbtrs(factor, lower, upper, right, pivots, overwrite_b=True)
        return solution

    return solve


def _contour() -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return nodes z_k and weights c_k in the upper half plane (the lower has their conjugates)."""
    theta = np.pi * np.arange(1, NODES, 2) / NODES
    tangent = np.tan(0.6407 * theta)
    points = NODES * (0.5017 * theta / tangent - 0.6122 + 0.2645j * theta)
    slope = NODES * (
        0.5017 / tangent - 0.5017 * 0.6407 * theta / np.sin(0.6407 * theta) ** 2 + 0.2645j
    )
    return points, (-2j / NODES) * np.exp(points) * slope


def _substeps(crash_per_horizon: float) -> int:
    """Return the least number with |c / (z + c)| <= 1 at every node left of the imaginary axis."""
    points, _ = _contour()
    left_points = points[points.real < 0]
    crash_max = float(np.min(np.abs(left_points) ** 2 / (-2.0 * left_points.real)))
    return max(1, math.ceil(crash_per_horizon / crash_max))


def _uncovered_error(got: str) -> PlannerError:
    return PlannerError(
        "availability model",
        expected=f"a solution that is stable to {U_HALVING}",
        got=got,
        hint="Please report the rates: the method does not cover them.",
    )
