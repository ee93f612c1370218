"""Integrity against 60-digit solutions, published ranges, closed forms and invariants."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.units import FAULT_MONTH_S
from optimizer.integrity import (
    NODE_TYPES,
    FaultOutcomes,
    Integrity,
    Recovery,
    integrity,
)
from optimizer.tests.command_line import json_of, output_of
from random_tests import examples


def _by_60_digits(
    outcomes: FaultOutcomes, faults_per_month: float, recovery: Recovery, *,
    hardware_per_year: float = 0.0, pool: int | None = None, repair_s: float | None = None,
) -> list[float]:  # fmt: skip
    """Fig. 2 written down once more, its Taylor series and doublings in 60 digits."""
    fault, hardware = mpmath.mpf(faults_per_month) / FAULT_MONTH_S, mpmath.mpf(hardware_per_year)
    hardware /= 365 * 86_400
    levels = 1 if pool is None else pool + 1
    q = mpmath.zeros(4 * levels)

    def flow(source: int, target: int, rate: Any) -> None:
        q[source, target] += rate
        q[source, source] -= rate

    for k in range(levels):
        correct, corrupt, crash, retry = (4 * k + s for s in range(4))
        flow(correct, corrupt, fault * outcomes.corrupt_p)
        flow(correct, crash, fault * outcomes.crash_p + hardware)
        flow(correct, retry, fault * outcomes.retry_p)
        flow(corrupt, correct, 1 / mpmath.mpf(recovery.sdc_s))
        flow(corrupt, crash, hardware)
        aborted = mpmath.mpf(recovery.retry_abort_p)
        flow(retry, correct, (1 - aborted) / mpmath.mpf(recovery.retry_s))
        flow(retry, crash, aborted / mpmath.mpf(recovery.retry_s))
        if pool is None or k < pool:
            flow(crash, correct + (0 if pool is None else 4), 1 / mpmath.mpf(recovery.crash_s))
        if repair_s is not None and k > 0:
            for state in range(4):
                flow(4 * k + state, 4 * (k - 1) + state, 1 / mpmath.mpf(repair_s))
    doublings = 50
    power = mean = term = mpmath.eye(4 * levels)
    for m in range(1, 25):
        term = term * q * (mpmath.mpf(FAULT_MONTH_S) / 2**doublings / m)
        power, mean = power + term, mean + term / (m + 1)
    for _ in range(doublings):
        mean, power = (mean + power * mean) / 2, power * power
    return [math.fsum(float(mean[0, 4 * k + s]) for k in range(levels)) for s in range(4)]


def _assert_agrees(result: Integrity, expected: Sequence[float]) -> None:
    shares = (result.correct, result.corrupt, result.crash, result.retry)
    assert math.fsum(shares) == pytest.approx(1.0, abs=1e-14)
    for share, exact in zip(shares, expected, strict=True):
        assert abs(share - exact) <= result.error_bound + 1e-15
        assert share == pytest.approx(exact, rel=1e-12)
    assert result.error_bound < 1e-9


@pytest.mark.parametrize("node", NODE_TYPES)
@pytest.mark.parametrize("faults", [1.0, 660.0, 1e6])
def test_a_node_in_the_cloud_agrees_with_60_digits(node: str, faults: float) -> None:
    with mpmath.workdps(60):
        expected = _by_60_digits(NODE_TYPES[node], faults, Recovery())
    _assert_agrees(integrity(NODE_TYPES[node], faults), expected)


@examples(15)
@given(
    weights=st.tuples(*[st.floats(0.0, 1.0)] * 4),
    faults=st.floats(0.01, 1e4),
    recovery=st.builds(Recovery, st.floats(1.0, 1e6), st.floats(1.0, 1e5), st.floats(1e-7, 1e3),
                       st.floats(0.0, 1.0)),
    hardware=st.none() | st.floats(0.1, 100.0),
    pool=st.none() | st.integers(0, 2),
    repair_s=st.none() | st.floats(60.0, 1e6),
)  # fmt: skip
def test_every_chain_agrees_with_60_digits(
    weights: tuple[float, ...], faults: float, recovery: Recovery, hardware: float | None,
    pool: int | None, repair_s: float | None,
) -> None:  # fmt: skip
    total = max(1.0, math.fsum(weights))
    outcomes = FaultOutcomes(*(w / total for w in weights[:3]))
    repair_s = repair_s if pool else None
    result = integrity(outcomes, faults, recovery, hardware_crash_per_year=hardware, pool=pool,
                       repair_s=repair_s)  # fmt: skip
    with mpmath.workdps(60):
        expected = _by_60_digits(outcomes, faults, recovery, hardware_per_year=hardware or 0.0,
                                 pool=pool, repair_s=repair_s)  # fmt: skip
    for share, exact in zip(
        (result.correct, result.corrupt, result.crash, result.retry), expected, strict=True
    ):
        assert abs(share - exact) <= result.error_bound + 1e-15


def test_the_bound_stays_below_1e_9_for_a_pool_that_runs_dry() -> None:
    result = integrity(NODE_TYPES["ft_ilr"], 660.0, pool=30)
    assert result.error_bound < 1e-9
    # 31 lives of 1 / (f crash_p) of Correct each are over long before the month is
    assert result.correct == pytest.approx(31 / (660 * 0.75), rel=1e-9)


def test_a_pool_that_never_runs_out_is_the_cloud() -> None:
    cloud = integrity(NODE_TYPES["ft_ilr"], 30.0)
    pooled = integrity(NODE_TYPES["ft_ilr"], 30.0, pool=100)
    assert pooled.correct == pytest.approx(cloud.correct, abs=pooled.error_bound)
    assert pooled.steady_state is None
    repaired = integrity(NODE_TYPES["ft_ilr"], 30.0, pool=100, repair_s=3600.0)
    assert repaired.correct == pytest.approx(cloud.correct, abs=repaired.error_bound)
    assert repaired.steady_state is not None


def test_a_cut_pool_lies_between_the_smaller_one_and_the_cloud() -> None:
    """A pool of 30 is cut at 8 nodes, since it is never that empty; a pool of 8 is not cut."""
    cut = integrity(NODE_TYPES["ft_ilr"], 20.0, pool=30, repair_s=1800.0)
    uncut = integrity(NODE_TYPES["ft_ilr"], 20.0, pool=8, repair_s=1800.0)
    cloud = integrity(NODE_TYPES["ft_ilr"], 20.0)
    assert cut.states == uncut.states < 4 * 31
    assert cut.error_bound < 1e-9
    assert cloud.down - cut.error_bound <= cut.down <= uncut.down + cut.error_bound


@examples(20)
@given(st.sampled_from(list(NODE_TYPES)), st.floats(1.0, 300.0), st.integers(0, 6))
def test_a_larger_pool_is_never_longer_down(node: str, faults: float, pool: int) -> None:
    smaller = integrity(NODE_TYPES[node], faults, pool=pool)
    larger = integrity(NODE_TYPES[node], faults, pool=pool + 1)
    cloud = integrity(NODE_TYPES[node], faults)
    assert smaller.down >= larger.down - 1e-9
    assert larger.down >= cloud.down - 1e-9


def test_the_steady_state_is_the_closed_form() -> None:
    outcomes, recovery, fault = NODE_TYPES["ft_tx"], Recovery(), 300.0 / FAULT_MONTH_S
    weights = (
        1.0,
        fault * outcomes.corrupt_p * recovery.sdc_s,
        fault * (outcomes.crash_p * recovery.crash_s + outcomes.retry_p * recovery.retry_s),
    )
    steady = integrity(outcomes, 300.0).steady_state
    shares = (steady.correct, steady.corrupt, steady.down)
    assert shares == pytest.approx([w / sum(weights) for w in weights], rel=1e-13)


def test_a_long_horizon_reaches_the_steady_state_of_a_repaired_pool() -> None:
    result = integrity(
        NODE_TYPES["ft_ilr"], 660.0, pool=3, repair_s=3 * 3600.0, horizon_s=1000 * FAULT_MONTH_S
    )
    assert result.down == pytest.approx(result.steady_state.down, rel=1e-4)
    assert result.corrupt == pytest.approx(result.steady_state.corrupt, rel=1e-4)


def test_the_steady_state_of_a_pool_that_cannot_keep_up_is_set_by_its_repair() -> None:
    """Each repaired node lives 1 / (f crash_p) in Correct, so repairs per life are its share."""
    result = integrity(
        NODE_TYPES["ft_ilr"], 6600.0, pool=400, repair_s=10 * 3600.0, horizon_s=3600.0
    )
    life_s = FAULT_MONTH_S / (6600 * 0.75)
    assert result.steady_state.correct == pytest.approx(life_s / 36_000, rel=1e-9)


def test_a_retry_that_aborts_adds_to_the_crashes() -> None:
    plain = integrity(NODE_TYPES["ft_tx"], 660.0)
    aborting = integrity(NODE_TYPES["ft_tx"], 660.0, Recovery(retry_abort_p=0.5))
    ratio = (0.0772 + 0.5 * 0.6699) / 0.0772
    assert aborting.crash / plain.crash == pytest.approx(ratio, rel=2e-3)


def test_no_fault_that_matters_leaves_the_node_correct() -> None:
    result = integrity(FaultOutcomes(0.0, 0.0), 100.0)
    assert (result.correct, result.corrupt, result.down) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("shares", "field"),
    [((-0.1, 0.0, 0.0), "corrupt_p"), ((0.0, 1.5, 0.0), "crash_p"),
     ((0.0, 0.0, math.nan), "retry_p"),
     ((0.5, 0.4, 0.2), r"corrupt_p \+ crash_p \+ retry_p: expected at most 1")],
)  # fmt: skip
def test_shares_outside_of_0_to_1_are_refused(shares: tuple[float, ...], field: str) -> None:
    with pytest.raises(InputError, match=field):
        FaultOutcomes(*shares)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"faults_per_month": 0.0}, "faults_per_month"),
     ({"faults_per_month": math.inf}, "faults_per_month"), ({"horizon_s": -1.0}, "horizon_s"),
     ({"pool": -1}, "pool"), ({"pool": 1, "repair_s": 0.0}, "repair_s"),
     ({"repair_s": 60.0}, "repair_s: expected a pool"),
     ({"pool": 0, "repair_s": 60.0}, "repair_s: expected a pool"),
     ({"hardware_crash_per_year": 0.0}, "hardware_crash_per_year"),
     ({"horizon_s": 1e300}, "horizon_s")],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=field):
        integrity(NODE_TYPES["ft_tx"], **{"faults_per_month": 10.0, **arguments})


@pytest.mark.parametrize("field", ["sdc_s", "crash_s", "retry_s", "retry_abort_p"])
@pytest.mark.parametrize("value", [-1.0, 1e300])
def test_recovery_times_and_shares_must_be_usable(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        Recovery(**{field: value})


def _run(*words: str) -> Any:
    return json_of("integrity", *words)


def test_the_command_prints_three_shares_and_their_bound() -> None:
    body = _run(
        *("--corrupt-p", "0.2619", "--crash-p", "0.1249", "--retry-p", "0"),
        *("--faults-per-month", "27"),
    )
    assert body["corrupt"] == pytest.approx(0.0552093380748, abs=1e-12)
    assert body["correct"] + body["corrupt"] + body["down"] == pytest.approx(1.0, abs=1e-12)
    assert body["error_bound"] < 1e-9
    assert np.isfinite(list(body["steady_state"].values())).all()
    assert _run("--node", "native", "--faults-per-month", "27")["corrupt"] == body["corrupt"]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--corrupt-p", "0.1"), "--crash-p"),
        (("--node", "native", "--retry-p", "0.1"), "--retry-p"),
        (("--node", "native", "--pool", "3"), "--pool"),
    ],
)
def test_the_command_names_the_option_that_is_wrong(words: tuple[str, ...], field: str) -> None:
    with pytest.raises(InputError, match=field):
        _run(*words, "--faults-per-month", "10")


def _injected(folder: Path, kind: str = "bitflips", *, valid: bool = True) -> Path:
    def share(p: float, low: float, high: float) -> dict[str, Any]:
        return {"p": p, "interval": [low, high]}

    shares = {"corrupt": share(0.01, 0.005, 0.02), "crash": share(0.7, 0.69, 0.71),
              "retry": share(0.0, 0.0, 0.001)}  # fmt: skip
    body = {
        "outcomes_for_planner": {"ilr": shares},
        "pooled": [{"variant": "ilr", "injections": 6000}],
    }
    (folder / "result.json").write_text(
        json.dumps({"kind": kind, "run": "R", "valid": valid, kind: body})
    )
    return folder


def test_shares_of_a_run_that_is_not_valid_are_refused(tmp_path: Path) -> None:
    measured = ("--measured", str(_injected(tmp_path, valid=False)), "--variant", "ilr")
    with pytest.raises(InputError, match="a valid run"):
        output_of("integrity", "--faults-per-month", "3", *measured)


def test_measured_shares_give_what_the_same_shares_give_with_the_reach_of_the_corrupt_time(
    tmp_path: Path,
) -> None:
    words = ("--faults-per-month", "3")
    by_run = _run(*words, "--measured", str(_injected(tmp_path)), "--variant", "ilr")
    by_hand = _run(*words, "--corrupt-p", "0.01", "--crash-p", "0.7")
    assert by_run["corrupt"] == by_hand["corrupt"]
    low, high = by_run["corrupt_interval"]
    assert low < by_run["corrupt"] < high
    assert high / low == pytest.approx(4.0, rel=0.05)


def test_a_variant_of_no_run_is_refused() -> None:
    with pytest.raises(InputError, match="--variant"):
        output_of("integrity", "--faults-per-month", "3", "--node", "native", "--variant", "ilr")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("bitflips", ("--variant", "tx")), ("bitflips", ("--variant", "ilr", "--node", "native")),
     ("compare", ("--variant", "ilr"))],
)  # fmt: skip
def test_another_run_variant_or_node_type_beside_it_is_refused(
    tmp_path: Path, kind: str, words: Sequence[str]
) -> None:
    measured = ("--measured", str(_injected(tmp_path, kind)))
    with pytest.raises(InputError):
        output_of("integrity", "--faults-per-month", "3", *measured, *words)
