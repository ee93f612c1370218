"""Hours in limplock and the time to data loss against nodes simulated one by one, closed forms
at 60 digits, and what must not get better."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, PlannerError
from core.units import CRASHES_PER_YEAR_MOST, LIMPS_PER_YEAR_MOST
from optimizer.availability import FailureRates
from optimizer.limplock import Cluster, LimpRates, any_block_together, limplock, year
from optimizer.limplock.repair import loss_share
from random_tests import examples

HOURS = 8760.0


def _lock(cluster: Cluster, limping: int) -> float:
    if limping == 0:
        return 0.0
    return any_block_together(replace(cluster, limping=min(limping, cluster.nodes - 2)))


class _Store:
    """A store of nodes, each with a state of its own, until it loses data."""

    def __init__(self, cluster: Cluster, rates: LimpRates, rng: np.random.Generator) -> None:
        self.cluster, self.rates, self.rng = cluster, rates, rng
        self.states = ["healthy"] * cluster.nodes
        self.locked = False
        self.hours = {"all": 0.0, "limping": 0.0, "regeneration": 0.0, "locked": 0.0}
        self.locks = [_lock(cluster, i) for i in range(cluster.nodes + 1)]

    def count(self, state: str) -> int:
        return self.states.count(state)

    def until_loss(self) -> dict[str, float]:
        while not self._next():
            pass
        return self.hours

    def _next(self) -> bool:
        rates = self.rates
        per_state = {"healthy": rates.limp_per_year / HOURS, "limping": 1 / rates.limp_hours}
        moves: list[tuple[float, int, str]] = []
        for node, state in enumerate(self.states):
            if state != "crashed":
                moves.append((rates.crash_per_year / HOURS, node, "crashed"))
                to = "limping" if state == "healthy" else "healthy"
                moves.append((per_state[state], node, to))
        if crashed := [i for i, state in enumerate(self.states) if state == "crashed"]:
            slow = rates.slowdown if self.locked else 1.0
            moves.append((1 / rates.repair_hours / slow, crashed[0], "healthy"))
        chances = np.array([move[0] for move in moves])
        self._pass(self.rng.exponential(1 / chances.sum()))
        return self._move(*moves[self.rng.choice(len(moves), p=chances / chances.sum())][1:])

    def _pass(self, hours: float) -> None:
        self.hours["all"] += hours
        self.hours["limping"] += hours * (self.count("limping") > 0)
        self.hours["regeneration"] += hours * (self.count("crashed") > 0)
        self.hours["locked"] += hours * self.locked

    def _move(self, node: int, to: str) -> bool:
        before = self.count("limping")
        was, self.states[node] = self.states[node], to
        lock, now = self.locks[before], self.locks[self.count("limping")]
        if self.locked and now < lock and self.rng.random() > now / lock:
            self.locked = False
        crashed = self.count("crashed")
        if to == "limping" and crashed and not self.locked:
            self.locked = self.rng.random() < (now - lock) / (1 - lock)
        if to == "crashed":
            self.locked = self.locked or self.rng.random() < now
            return self._loses(crashed)
        if was == "crashed" and crashed == 0:
            self.locked = False
        return False

    def _loses(self, crashed: int) -> bool:
        """Draw if a block has all copies on crashed nodes, one of them on the node just crashed."""
        copies = self.cluster.replicas
        blocks = self.cluster.nodes * self.cluster.blocks / copies
        sets = math.comb(crashed - 1, copies - 1)
        survival = (1 - 1 / math.comb(self.cluster.nodes, copies)) ** (sets * blocks)
        return bool(self.rng.random() > survival)


@pytest.mark.parametrize(
    ("cluster", "rates"),
    [
        (Cluster(6, 40, 3, replicas=2), LimpRates(20.0, 100.0, 40.0, 12.0, slowdown=20.0)),
        (Cluster(8, 4, 3), LimpRates(40.0, 60.0, 100.0, 20.0, slowdown=5.0)),
        (Cluster(5, 300, 3), LimpRates(60.0, 30.0, 200.0, 25.0, slowdown=3.0)),
    ],
)
def test_the_chain_agrees_with_nodes_simulated_one_by_one(
    cluster: Cluster, rates: LimpRates
) -> None:
    rng = np.random.default_rng(5)
    lives = [_Store(cluster, rates, rng).until_loss() for _ in range(700)]
    prediction = year(cluster, rates)
    totals = {key: np.array([life[key] for life in lives]) for key in lives[0]}
    expected = {
        "all": prediction.mttdl_years * HOURS,
        "limping": prediction.limping_h * prediction.mttdl_years,
        "regeneration": prediction.regeneration_h * prediction.mttdl_years,
        "locked": prediction.regeneration_limplock_h * prediction.mttdl_years,
    }
    for key, hours in totals.items():
        half_width = 3.5 * hours.std(ddof=1) / math.sqrt(len(hours))
        assert abs(hours.mean() - expected[key]) < half_width, key


def _birth_and_death(cluster: Cluster, rates: LimpRates) -> Any:
    """Years until data are lost if no node limps: the ladder of j, upwards, in 60 digits."""
    n, copies = cluster.nodes, cluster.replicas
    crash, repair = mpmath.mpf(rates.crash_per_year), HOURS / mpmath.mpf(rates.repair_hours)
    blocks = mpmath.mpf(n) * cluster.blocks / copies

    def lost(j: int) -> Any:
        return 1 - (1 - 1 / mpmath.binomial(n, copies)) ** (blocks * math.comb(j, copies - 1))

    size = n  # j = 0 to n - 1; the last crash of all loses everything
    rows, hours = mpmath.zeros(size), mpmath.ones(size, 1)
    for j in range(size):
        rows[j, j] = (n - j) * crash + (repair if j else 0)
        if j:
            rows[j, j - 1] -= repair
        if j + 1 < size:
            rows[j, j + 1] -= (n - j) * crash * (1 - lost(j))
    return mpmath.lu_solve(rows, hours)[0]


@examples(25)
@given(
    cluster=st.integers(2, 5).flatmap(
        lambda copies: st.builds(Cluster, nodes=st.integers(copies + 1, 14),
                                 blocks=st.integers(1, 5000), replicas=st.just(copies))
    ),
    repair_hours=st.floats(1e-4, 100.0),
    crash_per_year=st.floats(0.01, 5.0),
)  # fmt: skip
def test_without_limping_the_time_to_loss_agrees_with_60_digits(
    cluster: Cluster, repair_hours: float, crash_per_year: float
) -> None:
    rates = LimpRates(1e-12, 1.0, repair_hours, crash_per_year)
    with mpmath.workdps(60):
        exact = float(_birth_and_death(cluster, rates))
    assert year(cluster, rates).mttdl_years_without_limping == pytest.approx(exact, rel=1.1e-3)


def test_the_rarest_loss_keeps_its_digits() -> None:
    """Five copies, half an hour: 1e20 years and more, where subtraction would leave noise."""
    cluster, rates = Cluster(6, 10_000, replicas=5), LimpRates(1e-12, 1.0, 1e-4, 0.01)
    with mpmath.workdps(80):
        exact = float(_birth_and_death(cluster, rates))
    mttdl_years = year(cluster, rates).mttdl_years_without_limping
    assert exact > 1e30
    assert mttdl_years == pytest.approx(exact, rel=1e-10)


def test_limping_nodes_are_independent_of_each_other() -> None:
    cluster, rates = Cluster(40, 500, 20), LimpRates(2.0, 50.0, 0.2, 0.01)
    share = rates.limping_share
    law = [math.comb(40, i) * share**i * (1 - share) ** (40 - i) for i in range(30)]
    prediction = year(cluster, rates)
    reads = sum(p * limplock(replace(cluster, limping=i)).read for i, p in enumerate(law))
    # a crashed node does not limp, and does not for a while once it is back
    assert prediction.limping_h == pytest.approx(HOURS * (1 - law[0]), rel=1e-3)
    assert prediction.read_h == pytest.approx(HOURS * reads, rel=1e-3)


def test_a_regeneration_that_limplock_does_not_slow_loses_data_as_if_none_limped() -> None:
    prediction = year(Cluster(30, 3200), LimpRates(5.0, 100.0, 1.0, slowdown=1.0))
    assert prediction.regeneration_limplock_h > 0
    assert prediction.mttdl_years == pytest.approx(prediction.mttdl_years_without_limping, rel=2e-3)


def test_the_papers_slowdown_costs_a_store_of_100_nodes_most_of_its_years() -> None:
    """A node in ten limps once a year, for a day; regeneration takes 7 minutes."""
    prediction = year(Cluster(100, 3200, 100), LimpRates(0.1, 24.0, 0.12))
    assert prediction.mttdl_years_without_limping > 200 * prediction.mttdl_years
    assert prediction.regeneration_limplock_h > 0.5 * prediction.regeneration_h


@examples(25)
@given(nodes=st.integers(5, 40), blocks=st.integers(1, 5000), limp_per_year=st.floats(0.01, 10.0),
       limp_hours=st.floats(0.1, 200.0), repair_hours=st.floats(0.01, 5.0),
       slowdown=st.floats(1.0, 400.0))  # fmt: skip
def test_nothing_gets_better_by_limping_more(nodes: int, blocks: int, **given: float) -> None:
    cluster, rates = Cluster(nodes, blocks, 10), LimpRates(**given)
    prediction = year(cluster, rates)
    assert all(math.isfinite(value) and value >= 0 for value in asdict(prediction).values())
    assert prediction.regeneration_limplock_h <= prediction.regeneration_h
    assert prediction.mttdl_years <= prediction.mttdl_years_without_limping * 1.002
    worse = year(cluster, replace(rates, slowdown=2 * rates.slowdown))
    assert worse.mttdl_years <= prediction.mttdl_years * 1.002
    longer = year(cluster, replace(rates, limp_hours=2 * rates.limp_hours))
    if longer.mttdl_years > 100:  # else the hours after a healthy start weigh in its mean
        assert longer.limping_h >= prediction.limping_h * 0.999
    assert longer.mttdl_years <= prediction.mttdl_years * 1.002


def test_the_chance_of_a_loss_is_that_of_sets_of_nodes_and_never_overflows() -> None:
    assert loss_share(Cluster(5, 6), 1) == 0.0
    assert loss_share(Cluster(5, 6), 2) == pytest.approx(1 - 0.9**10)  # 10 blocks, 10 triples
    assert loss_share(Cluster(5, 6), 3) == pytest.approx(1 - 0.9**30)
    many = Cluster(3000, 3200, replicas=1000)
    assert loss_share(many, 1000) < 1e-200
    assert loss_share(many, 2999) == pytest.approx(1.0)


def test_more_nodes_than_the_chain_holds_are_refused() -> None:
    with pytest.raises(InputError, match="nodes"):
        year(Cluster(1_000_000, 3200), LimpRates(0.1, 24.0, 0.12))


@pytest.mark.parametrize("rates", [LimpRates, FailureRates])
@pytest.mark.parametrize(
    ("key", "most"),
    [("limp_per_year", LIMPS_PER_YEAR_MOST), ("crash_per_year", CRASHES_PER_YEAR_MOST)],
)
def test_more_limps_or_crashes_than_fit_in_a_year_are_refused_before_anything_is_computed(
    rates: Any, key: str, most: float
) -> None:
    values = {LimpRates: {"limp_per_year": 1.0, "limp_hours": 24.0, "repair_hours": 0.12},
              FailureRates: {"limp_recovery_s": 60.0}}[rates]  # fmt: skip
    rates(**{**values, key: most})
    with pytest.raises(InputError) as error:
        rates(**{**values, key: 1e9})
    assert error.value.place == key


def test_a_store_that_cannot_keep_up_with_its_crashes_is_refused() -> None:
    with pytest.raises(PlannerError, match="crash_per_year"):
        year(Cluster(10_000, 1), LimpRates(1e-3, 1.0, 10.0, crash_per_year=10.0))


@pytest.mark.parametrize(
    "field", ["limp_per_year", "limp_hours", "repair_hours", "crash_per_year", "slowdown"]
)
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_rates_that_cannot_be_are_refused(field: str, value: float) -> None:
    good = {"limp_per_year": 1.0, "limp_hours": 1.0, "repair_hours": 1.0}
    with pytest.raises(InputError, match=field):
        LimpRates(**{**good, field: value})
