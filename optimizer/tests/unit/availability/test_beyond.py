"""PCRAFT's models and what goes beyond them against dense solutions; the method against itself."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm

from core.errors import InputError
from core.units import YEAR_S
from optimizer.availability import (
    FailureRates,
    active_route_anywhere,
    availability,
    least_extra_nodes,
    least_pool,
    passive_failover,
    steady_state,
    time_course,
    transient,
)
from optimizer.availability.chain import build
from optimizer.availability.models import depths, shape_of
from random_tests import examples

State = tuple[int, int, int]


@dataclass(frozen=True)
class _Case:
    """One model, and its whole state space written down once more, state by state."""

    needed: int
    extra: int
    rates: FailureRates
    mechanism: str
    scheme: str

    @property
    def slots(self) -> int:
        return self.needed + (self.extra if self.mechanism == "ara" else 0)

    @property
    def pool(self) -> int:
        return self.extra if (self.mechanism, self.scheme) == ("pf", "on-prem") else 0

    def enough(self, up: int, limping: int) -> bool:
        return up + self.rates.limp_capacity * limping >= self.needed - 1e-9

    def moves(
        self, up: int, limping: int, waiting: int
    ) -> list[tuple[tuple[int, int, int], float]]:
        r, broken = self.rates, self.slots - up - limping
        crash_rate = r.crash_per_year * (1 - r.common_cause)
        moves = [((up - 1, limping, waiting), up * crash_rate)]
        if r.limp_per_year:
            moves += [
                ((up, limping - 1, waiting), limping * crash_rate),
                ((up - 1, limping + 1, waiting), up * r.limp_per_year),
                ((up + 1, limping - 1, waiting), limping * YEAR_S / r.limp_recovery_s),
            ]
        if r.common_cause:
            struck = min(r.common_cause_nodes or self.slots, self.slots)
            shock = r.crash_per_year * r.common_cause * self.slots / struck
            ways = math.comb(self.slots, struck)
            for a, b in itertools.product(range(up + 1), range(limping + 1)):
                broken_struck = struck - a - b
                if 0 <= broken_struck <= broken and a + b:
                    combinations = (
                        math.comb(up, a) * math.comb(limping, b) * math.comb(broken, broken_struck)
                    )
                    moves.append(((up - a, limping - b, waiting), shock * combinations / ways))
        failover = YEAR_S / r.failover_s
        repair = YEAR_S / r.repair_s if r.repair_s else 0.0
        if self.scheme == "cloud":
            moves.append(((up + 1, limping, waiting), failover if broken else 0.0))
        elif self.mechanism == "ara":
            moves.append(((up + 1, limping, waiting), repair * min(broken, r.repair_crew)))
        else:
            absent = self.pool - waiting
            moves.append(((up + 1, limping, waiting - 1), failover if broken and waiting else 0.0))
            moves.append(((up, limping, waiting + 1), repair * min(absent, r.repair_crew)))
            standby = waiting * r.standby_fraction * r.crash_per_year
            moves.append(((up, limping, waiting - 1), standby))
        return [(goal, rate) for goal, rate in moves if rate > 0]

    def generator(self) -> tuple[np.ndarray, list[State]]:
        limping_max = self.slots if self.rates.limp_per_year else 0
        states = [
            (up, limping, waiting)
            for up in range(self.slots + 1)
            for limping in range(limping_max + 1)
            for waiting in range(self.pool + 1)
            if up + limping <= self.slots
        ]
        index = {state: i for i, state in enumerate(states)}
        q = np.zeros((len(states), len(states)))
        for state, i in index.items():
            for goal, rate in self.moves(*state):
                q[i, index[goal]] += rate
                q[i, i] -= rate
        return q, states

    def dense(self, years: float = 1.0) -> float:
        q, states = self.generator()
        n = len(states)
        augmented = np.zeros((n + 1, n + 1))
        augmented[:n, :n] = q * years
        augmented[:n, n] = [0.0 if self.enough(u, s) else 1.0 for u, s, _ in states]
        start = states.index((self.slots, 0, self.pool))
        return 1.0 - float(expm(augmented)[start, n])

    def ours(self, years: float = 1.0) -> tuple[float, float]:
        prediction = availability(self.needed, self.extra, self.rates, mechanism=self.mechanism,
                                  scheme=self.scheme, horizon_s=years * YEAR_S)  # fmt: skip
        return prediction.availability, prediction.error_bound


@st.composite
def _cases(draw: st.DrawFn) -> _Case:
    mechanism, scheme = draw(
        st.sampled_from([("ara", "cloud"), ("ara", "on-prem"), ("pf", "cloud"), ("pf", "on-prem")])
    )
    plain = draw(st.booleans())  # PCRAFT's own model
    limps = not plain and draw(st.booleans())
    rates = FailureRates(
        crash_per_year=draw(st.floats(0.05, 60.0)),
        failover_s=draw(st.floats(5.0, 50_000.0)),
        repair_s=draw(st.one_of(st.none(), st.floats(600.0, 4_000_000.0))),
        repair_crew=draw(st.integers(1, 3)),
        standby_fraction=0.0 if plain else draw(st.sampled_from([0.0, 0.3, 1.0])),
        common_cause=0.0 if plain else draw(st.sampled_from([0.0, 0.0, 0.1, 0.6])),
        common_cause_nodes=draw(st.sampled_from([None, 2, 3])),
        limp_per_year=draw(st.floats(0.1, 100.0)) if limps else 0.0,
        limp_recovery_s=draw(st.floats(60.0, 400_000.0)) if limps else None,
        limp_capacity=draw(st.sampled_from([0.0, 0.25, 0.5, 0.9])),
    )
    extra = 0 if (mechanism, scheme) == ("pf", "cloud") else draw(st.integers(0, 5))
    return _Case(draw(st.integers(1, 7 if plain else 5)), extra, rates, mechanism, scheme)


@examples(180)
@given(_cases(), st.sampled_from([0.001, 1.0, 3.0]))
def test_every_model_agrees_with_its_state_space_written_down(case: _Case, years: float) -> None:
    probability, error = case.ours(years)
    # the dense exponential itself is good to about 1e-9 on these stiff generators
    assert probability == pytest.approx(case.dense(years), abs=3e-9)
    assert error < 1e-9


def test_a_cut_chain_agrees_with_the_whole_one() -> None:
    """20 needed nodes are cut at 10 down; the dense chain holds all 21 x 4 states."""
    rates = FailureRates(4.0, 3_000.0, 40_000.0)
    assert passive_failover(20, 3, rates).states < 21 * 4
    case = _Case(20, 3, rates, "pf", "on-prem")
    assert case.ours()[0] == pytest.approx(case.dense(), abs=2e-9)


@examples(40)
@given(_cases())
def test_the_long_run_agrees_with_the_null_vector_of_the_dense_generator(case: _Case) -> None:
    probability = steady_state(
        case.needed, case.extra, case.rates, mechanism=case.mechanism, scheme=case.scheme
    )
    if case.scheme == "on-prem" and case.rates.repair_s is None:
        assert probability is None
        return
    if case.mechanism == "pf" and case.scheme == "on-prem" and case.extra == 0:
        assert probability == 0.0
        return
    q, states = case.generator()
    system = q.T.copy()
    scale = np.abs(system).max()
    system[-1, :] = scale
    right = np.zeros(len(states))
    right[-1] = scale
    law = np.linalg.solve(system, right)
    expected = sum(p for p, (u, s, _) in zip(law, states, strict=True) if case.enough(u, s))
    assert probability == pytest.approx(expected, abs=1e-9)


@examples(30)
@given(_cases(), st.integers(2, 6))
def test_the_time_course_agrees_with_the_dense_exponential(case: _Case, points: int) -> None:
    course = time_course(case.needed, case.extra, case.rates, mechanism=case.mechanism,
                         scheme=case.scheme, points=points)  # fmt: skip
    q, states = case.generator()
    start = states.index((case.slots, 0, case.pool))
    enough = [case.enough(u, s) for u, s, _ in states]
    assert course.error_bound < 1e-9
    for time_s, probability in zip(course.times_s, course.probability, strict=True):
        law = expm(q * time_s / YEAR_S)[start]
        assert probability == pytest.approx(float(law[enough].sum()), abs=3e-9)


OVERLOADED = [
    (200, 20, FailureRates(6.0, 15.0, 86_400.0)),
    (150, 10, FailureRates(12.0, 600.0, 86_400.0, repair_crew=2)),
    (40, 12, FailureRates(20.0, 15.0, 43_200.0)),
]


@pytest.mark.parametrize(("needed", "pool", "rates"), OVERLOADED)
def test_a_chain_that_is_cut_agrees_with_one_that_is_not(
    needed: int, pool: int, rates: FailureRates
) -> None:
    """Crashes outrun repairs: many nodes are down at once, which tests the cut."""
    prediction = passive_failover(needed, pool, rates)
    shape = replace(shape_of(needed, pool, "pf", "on-prem"), limping_max=0)
    full_chain = build(shape, rates, YEAR_S)
    up = full_chain.shortfall(rates.limp_capacity) == 0
    from scipy.sparse import csr_array

    exact = transient.expected_rewards(full_chain.flow(csr_array(up[None, :].astype(float))))
    assert prediction.states < full_chain.states
    assert prediction.availability == pytest.approx(float(exact.values[0]), abs=1e-9)
    assert prediction.error_bound < 1e-9


@pytest.mark.parametrize(
    ("needed", "extra", "rates"),
    [
        (10, 6, FailureRates(200.0, 1_500.0, 3_600.0)),
        (10, 4, FailureRates(3.0, 7_200.0, 90_000.0, standby_fraction=0.5)),
        (30, 5, FailureRates(2.0, 40_000.0)),
    ],
)
def test_contour_and_uniformization_agree(
    needed: int, extra: int, rates: FailureRates, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = next(iter(depths(shape_of(needed, extra, "pf", "on-prem"), rates)))
    chain = build(shape, rates, YEAR_S)
    from scipy.sparse import csr_array

    flow = chain.flow(csr_array((chain.down == 0)[None, :].astype(float)))
    results = []
    for by_steps in (False, True):
        monkeypatch.setattr(transient, "_are_steps_cheaper", lambda *_, chosen=by_steps: chosen)
        results.append(transient.expected_rewards(flow))
    contour, steps = results
    assert abs(contour.values[0] - steps.values[0]) <= contour.error + steps.error
    assert np.abs(contour.absorbed - steps.absorbed).max() <= contour.error + steps.error


def test_a_common_cause_defeats_extra_nodes_that_independent_crashes_do_not() -> None:
    shock_rates = FailureRates(1.0, 600.0, common_cause=0.1)
    without_shocks = least_extra_nodes(10, 0.999999, FailureRates(1.0, 600.0), scheme="cloud")
    assert without_shocks.extra <= 3
    with_shocks = least_extra_nodes(10, 0.999999, shock_rates, scheme="cloud")
    assert with_shocks.extra is None
    assert "infeasible at any size" in with_shocks.reason


@pytest.mark.parametrize("crew", [1, 3])
def test_nodes_that_outlast_shocks_are_found_up_to_the_bound_that_no_size_beats(crew: int) -> None:
    """With many extra nodes the whole crew works until enough are back: 3 / 3 days for 3 nodes."""
    rates = FailureRates(0.1, 15.0, 86_400.0, repair_crew=crew, common_cause=0.999)
    many = active_route_anywhere(3, 12, rates, scheme="on-prem").availability
    sizing = least_extra_nodes(3, many - 1e-7, rates, scheme="on-prem")
    assert sizing.extra <= 12
    beyond = least_extra_nodes(3, many + 1e-4, rates, scheme="on-prem")
    assert "infeasible at any size" in beyond.reason


def test_limping_at_full_capacity_is_not_limping() -> None:
    plain = passive_failover(6, 4, FailureRates(3.0, 60.0, 90_000.0))
    full = FailureRates(
        3.0, 60.0, 90_000.0, limp_per_year=50.0, limp_recovery_s=9_000.0, limp_capacity=1.0
    )
    assert passive_failover(6, 4, full).unavailability == plain.unavailability


def test_shocks_that_hit_places_at_random_are_sized_one_by_one() -> None:
    rates = FailureRates(4.0, 3_600.0, common_cause=0.3, common_cause_nodes=3)
    sizing = least_extra_nodes(6, 0.9999, rates, scheme="cloud")
    values = [
        active_route_anywhere(6, e, rates, scheme="cloud").availability
        for e in range(sizing.extra + 1)
    ]
    assert all(value < 0.9999 for value in values[:-1])
    assert values[-1] >= 0.9999


def test_a_pool_that_dies_while_it_waits_may_never_be_large_enough() -> None:
    rates = FailureRates(40.0, 15.0, 86_400.0, standby_fraction=1.0)
    sizing = least_pool(20, 0.999, rates, pool_max=40)
    assert sizing.extra is None
    assert sizing.one_fewer is not None
    assert "40 nodes in the pool still cost" in sizing.reason


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"crash_per_year": -1.0}, "crash_per_year"),
        ({"crash_per_year": math.nan}, "crash_per_year"),
        ({"failover_s": 0.0}, "failover_s"),
        ({"standby_fraction": 1.5}, "standby_fraction"),
        ({"common_cause": 1.0}, "common_cause"),
        ({"common_cause_nodes": 1}, "common_cause_nodes"),
        ({"repair_crew": 0}, "repair_crew"),
        ({"limp_per_year": -1.0, "limp_recovery_s": 1.0}, "limp_per_year"),
        ({"limp_per_year": 1.0}, "limp_recovery_s"),
        ({"limp_capacity": math.nan}, "limp_capacity"),
    ],
)
def test_what_no_model_takes_is_named(wrong: dict[str, float], field: str) -> None:
    with pytest.raises(InputError, match=field):
        FailureRates(**wrong)  # type: ignore[arg-type]


def test_a_model_with_too_many_states_is_refused_not_tried() -> None:
    rates = FailureRates(1.0, 15.0, 86_400.0, common_cause=0.1)
    with pytest.raises(InputError, match="at most 150000 states"):
        passive_failover(2_000, 200, rates)
    for extra in (10**8, 10**12):  # would not fit into memory
        with pytest.raises(InputError, match="at most 150000 states"):
            passive_failover(10, extra, FailureRates(1.0, 15.0, 86_400.0))


def test_limps_that_end_soon_need_no_short_steps() -> None:
    """A limp of ten minutes each hour: with one step a limp, the error bound would be 3e-10."""
    rates = FailureRates(limp_per_year=8760.0, limp_recovery_s=600.0, limp_capacity=0.5)
    prediction = availability(5, 3, rates, mechanism="pf", scheme="on-prem")
    assert prediction.unavailability == pytest.approx(0.6702804069, abs=1e-9)
    assert prediction.error_bound < 1e-10
