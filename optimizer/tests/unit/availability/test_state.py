"""A primary that is lost and data whose last copy is lost, against chains solved densely."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy.linalg import expm

from core.errors import InputError
from core.units import YEAR_S
from optimizer.availability import active_route_anywhere, data_lost, writes_lost
from optimizer.availability.rates import FailureRates

Move = tuple[tuple[int, ...], tuple[int, ...], float]


def share_of_year(
    moves: list[Move], start: tuple[int, ...], counts: Callable[[tuple[int, ...]], bool]
) -> float:
    """The expected share of a year in states that count, by the exponential of the whole chain."""
    states = sorted({state for a, b, _ in moves for state in (a, b)})
    at = {state: number for number, state in enumerate(states)}
    size = len(states)
    matrix = np.zeros((size + 1, size + 1))
    for a, b, rate in moves:
        matrix[at[a], at[b]] += rate
        matrix[at[a], at[a]] -= rate
    for state in states:
        matrix[at[state], size] = float(counts(state))
    return float(expm(matrix)[at[start], size])


def with_primary(nodes: int, crash: float, joins: float, promotes: float) -> Iterator[Move]:
    """(machines down, 1 while one is primary): any machine crashes, one joins at a time."""
    for down in range(nodes + 1):
        up = nodes - down
        for primary in (0, 1):
            if primary and not up:
                continue
            if primary:
                yield (down, 1), (down + 1, 0), crash
            if up - primary:
                yield (down, primary), (down + 1, primary), crash * (up - primary)
            if down:
                yield (down, primary), (down - 1, primary), joins
            if not primary and up:
                yield (down, 0), (down, 1), promotes


@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("promotes_h", [0.1, 2.0, 20.0])
def test_too_few_nodes_and_no_primary_together_bound_the_chain_of_both(
    extra: int, promotes_h: float
) -> None:
    needed, crash, joins_h = 2, 6.0, 3.0
    per_year = YEAR_S / 3600.0
    moves = list(with_primary(needed + extra, crash, per_year / joins_h, per_year / promotes_h))
    exact = share_of_year(moves, (0, 1), lambda s: s[0] > extra or not s[1])
    rates = FailureRates(crash_per_year=crash, failover_s=joins_h * 3600.0)
    nodes = active_route_anywhere(needed, extra, rates, scheme="cloud").unavailability
    bound = nodes + writes_lost(crash, promotes_h * 3600.0)
    assert exact <= bound
    assert bound <= exact * (1.6 if extra == 0 else 1.03)


def test_no_node_count_makes_up_for_a_primary_that_is_replaced_slowly() -> None:
    crash, promotes_s, per_year = 4.0, 600.0, YEAR_S / 60.0
    found = [
        share_of_year(
            list(with_primary(nodes, crash, per_year, YEAR_S / promotes_s)),
            (0, 1),
            lambda s: s[0] > 0 and s[1] == 0,
        )
        for nodes in (2, 4, 8)
    ]
    lone = share_of_year(
        list(with_primary(8, crash, per_year, YEAR_S / promotes_s)), (0, 1), lambda s: not s[1]
    )
    assert lone == pytest.approx(writes_lost(crash, promotes_s), rel=2e-3)
    assert found == sorted(found)


def copies(nodes: int, crash: float, joins: float) -> Iterator[Move]:
    """Machines down; from none up there is no way back."""
    for down in range(nodes):
        yield (down,), (down + 1,), crash * (nodes - down)
        if down:
            yield (down,), (down - 1,), joins


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
@pytest.mark.parametrize("joins_h", [1.0, 24.0, 300.0])
def test_data_lost_bounds_the_chain_that_never_comes_back(nodes: int, joins_h: float) -> None:
    crash = 2.0
    moves = list(copies(nodes, crash, YEAR_S / 3600.0 / joins_h))
    exact = share_of_year(moves, (0,), lambda s: s[0] == nodes)
    bound = data_lost(nodes, crash, joins_h * 3600.0)
    assert exact <= bound * (1.0 + 1e-9) + 1e-13
    if nodes > 1 and joins_h == 1.0:
        assert bound == pytest.approx(exact, rel=0.05, abs=1e-12)


def test_each_copy_takes_three_orders_off() -> None:
    lost = [data_lost(nodes, 1.0, 3600.0) for nodes in range(1, 6)]
    assert lost[0] == pytest.approx(0.5)
    assert all(b < 1e-3 * a for a, b in itertools.pairwise(lost))


@pytest.mark.parametrize(("lost", "takes_s"), [(0.0, 1.0), (1.0, -1.0)])
def test_a_primary_without_sense_is_refused(lost: float, takes_s: float) -> None:
    with pytest.raises(InputError):
        writes_lost(lost, takes_s)


@pytest.mark.parametrize(("machines", "joins_s"), [(0, 1.0), (2, 0.0)])
def test_copies_without_sense_are_refused(machines: int, joins_s: float) -> None:
    with pytest.raises(InputError):
        data_lost(machines, 1.0, joins_s)
