"""Sources of a tier's latency: what each one knows, refuses, and says of its evidence."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import InputError, UnstableError
from optimizer.latency import (
    Approximation,
    Layered,
    MeasuredTable,
    NotCovered,
    PageLatency,
    Simulated,
    SimulatorAnswer,
    SimulatorQuestion,
    Station,
    TierLatency,
    TierSource,
    TierTail,
)

WEB = TierLatency(processing_s=0.05, cv2=1.0, visits=1.0)
ROWS = {
    "tier": ["web", "web", "web", "db"],
    "servers": [4, 4, 4, 3],
    "cores": [1.0, 1.0, 1.0, 0.25],
    "replicas": [1, 1, 1, 2],
    "policy": ["tad", "tad", "tad", "round-robin"],
    "request_per_s": [10.0, 20.0, 40.0, 100.0],
    "mean_ms": [60.0, 70.0, 100.0, 2.0],
    "variance_ms2": [3600.0, 5000.0, 12000.0, 4.0],
    "p95_ms": [180.0, 210.0, 320.0, 6.0],
    "p99_ms": [280.0, 330.0, 500.0, 9.0],
    "samples": [5000, 2000, 900, 40000],
}


def _web(rate: float = 20.0, **changes: object) -> Station:
    station = Station(WEB, 4, 1.0, 1, "tad", rate, name="web")
    return replace(station, **changes)  # type: ignore[arg-type]


def _table(**columns: object) -> MeasuredTable:
    return MeasuredTable.from_frame(pl.DataFrame({**ROWS, **columns}))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_measured_point_is_given_back_from_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"tiers{suffix}"
    frame = pl.DataFrame(ROWS)
    frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
    found = MeasuredTable.read(path).tail(_web())
    assert found == TierTail(0.07, 0.005, 0.21, 0.33, "measured", 2000)
    assert found.sufficient(99)
    assert not replace(found, samples=900).sufficient(99)


def test_between_two_rates_the_line_is_taken_with_the_fewer_samples() -> None:
    found = _table().tail(_web(30.0))
    assert found.mean_s == pytest.approx(0.085)
    assert found.p95_s == pytest.approx(0.265)
    assert found.p99_s == pytest.approx(0.415)
    assert (found.evidence, found.samples) == ("measured", 900)
    assert found.note == "between 20 and 40 per s"


def test_a_standard_deviation_is_a_variance_too() -> None:
    frame = pl.DataFrame(ROWS).drop("variance_ms2").with_columns(std_ms=pl.lit(50.0))
    found = MeasuredTable.from_frame(frame).tail(_web())
    assert found.variance_s2 == pytest.approx(0.0025)


@pytest.mark.parametrize(
    ("station", "why"),
    [
        (_web(9.9), "10 to 40 per s; came 9.9"),
        (_web(41.0), "10 to 40 per s; came 41"),
        (_web(servers=5), "5 servers of 1 cores"),
        (_web(cores=2.0), "4 servers of 2 cores"),
        (_web(replicas=2), "r = 2"),
        (_web(policy="round-robin"), "round-robin"),
        (_web(name="cache"), "tier cache"),
        (_web(limping=1, limp_speed=0.5), "1 limping"),
    ],
)
def test_a_table_never_goes_beyond_what_was_measured(station: Station, why: str) -> None:
    with pytest.raises(NotCovered, match=why):
        _table().tail(station)


def test_a_tier_with_a_node_down_is_the_smaller_tier() -> None:
    assert _table().tail(_web(servers=5, down=1)) == _table().tail(_web())


@settings(max_examples=60, deadline=None)
@given(st.floats(10.0, 40.0))
def test_what_is_read_between_points_lies_between_them(rate: float) -> None:
    found, low, high = (_table().tail(_web(x)) for x in (rate, 10.0, 40.0))
    for name in ("mean_s", "variance_s2", "p95_s", "p99_s"):
        assert getattr(low, name) <= getattr(found, name) <= getattr(high, name)
    assert found.samples in (900, 2000, 5000)


@pytest.mark.parametrize(
    ("column", "values", "place"),
    [
        ("mean_ms", [60.0, None, 1.0, 1.0], "row 2: mean_ms: expected .* a hole"),
        ("p95_ms", [180.0, 210.0, math.nan, 6.0], "row 3: p95_ms"),
        ("variance_ms2", [1.0, -1.0, 1.0, 1.0], "row 2: variance_ms2"),
        ("p99_ms", [280.0, 200.0, 500.0, 9.0], "row 2: p99_ms: expected at least p95_ms, 210"),
        ("request_per_s", [10.0, 0.0, 40.0, 1.0], "row 2: request_per_s"),
        ("request_per_s", [10.0, 10.0, 40.0, 1.0], "row 2: request_per_s: .* 10 again"),
        ("servers", [4, 4, 0, 3], "row 3: servers"),
        ("servers", [4.5, 4.0, 4.0, 3.0], "row 1: servers"),
        ("replicas", [1, 1, 1, 4], "row 4: replicas: expected at most 3 servers"),
        ("samples", [1, 0, 1, 1], "row 2: samples"),
        ("cores", ["1", "two", "1", "1"], "row 2: cores"),
        ("policy", ["tad", "random", "tad", "tad"], "row 2: policy"),
        ("tier", ["web", None, "web", "db"], "row 2: tier"),
        ("mean_ms", [math.inf, 1.0, 1.0, 1.0], "row 1: mean_ms"),
    ],
)
def test_a_row_that_cannot_be_is_refused_by_row_and_column(
    column: str, values: list[object], place: str
) -> None:
    with pytest.raises(InputError, match=f"table {place}"):
        _table(**{column: values})


def test_a_table_that_lacks_a_column_or_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="table: samples"):
        MeasuredTable.from_frame(pl.DataFrame(ROWS).drop("samples"))
    with pytest.raises(InputError, match="table: variance_ms2 or std_ms"):
        MeasuredTable.from_frame(pl.DataFrame(ROWS).drop("variance_ms2"))
    with pytest.raises(InputError, match="no such file"):
        MeasuredTable.read(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        MeasuredTable.read(tmp_path / "table.xlsx")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="readable table"):
        MeasuredTable.read(tmp_path / "bad.parquet")


def shared_processor(text: str) -> str:
    """M/M/1 processor sharing, exactly: the mean, the variance (Coffman, Muntz and Trotter 1970),
    and percentiles of the absorption of a tagged job among at most 200 others."""
    from scipy.linalg import expm

    asked = json.loads(text)
    t, rate = asked["processing_s"], asked["request_per_s"] / asked["servers"]
    rho = rate * t
    if rho >= 1:
        zero = dict.fromkeys(("mean_s", "variance_s2", "p95_s", "p99_s"), 0.0)
        return json.dumps({**zero, "samples": 0, "unstable": True, "schema": 1})
    others = np.arange(200)
    moves = np.diag(np.full(199, rate), 1) + np.diag(others[1:] / (others[1:] + 1.0) / t, -1)
    moves -= np.diag(moves.sum(axis=1) + 1.0 / (others + 1.0) / t)
    step_s = t / 20
    once, present, survival = expm(moves * step_s), (1 - rho) * rho**others, [1.0]
    while survival[-1] > 1e-4:
        present = present @ once
        survival.append(float(present.sum()))
    times_s = step_s * np.arange(len(survival))
    p95, p99 = (float(np.interp(-(1 - q), -np.array(survival), times_s)) for q in (0.95, 0.99))
    variance = (2 + rho) / (2 - rho) * (t / (1 - rho)) ** 2
    answer = SimulatorAnswer(t / (1 - rho), variance, p95, p99, asked["requests"])
    return json.dumps(answer.__dict__)


def test_a_simulator_is_asked_in_json_and_only_once() -> None:
    asked: list[str] = []

    def run(text: str) -> str:
        asked.append(text)
        return shared_processor(text)

    source: TierSource = Simulated(run, requests=1000, seed=7)
    first, again = source.tail(_web(40.0)), source.tail(_web(40.0))
    assert first is again
    assert json.loads(asked[0]) == SimulatorQuestion.of(_web(40.0), 1000, 7).__dict__
    assert len(asked) == 1
    assert first.mean_s == pytest.approx(0.1)  # rho = 0.5
    assert first.variance_s2 == pytest.approx(0.01 * 2.5 / 1.5)
    assert (first.evidence, first.samples, first.note) == ("simulated", 1000, "seed 7")


@pytest.mark.parametrize("load", [0.1, 0.5, 0.8])
def test_the_approximation_is_near_the_exact_law_of_a_shared_processor(load: float) -> None:
    """With the cv2 that a run at this load would measure: p95 +1 to +8 %, p99 -3 to -1 %."""
    tier = replace(WEB, cv2=(2 + load) / (2 - load))
    station = _web(80.0 * load, tier=tier, policy="round-robin")
    exact, found = Simulated(shared_processor).tail(station), Approximation().tail(station)
    assert found.mean_s == pytest.approx(exact.mean_s, rel=1e-6)
    assert found.variance_s2 == pytest.approx(exact.variance_s2, rel=1e-6)
    assert found.p95_s == pytest.approx(exact.p95_s, rel=0.09)
    assert found.p99_s == pytest.approx(exact.p99_s, rel=0.04)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"mean_s": None}, "mean_s"),
        ({"mean_s": -1.0}, "mean_s"),
        ({"p99_s": 0.01}, "p99_s"),
        ({"samples": 1.5}, "samples"),
        ({"schema": 2}, "schema"),
        ({"median_s": 1.0}, "median_s: .* unknown key"),
    ],
)
def test_an_answer_that_is_none_is_refused_by_key(change: dict[str, object], place: str) -> None:
    def run(text: str) -> str:
        return json.dumps({**json.loads(shared_processor(text)), **change})

    with pytest.raises(InputError, match=place):
        Simulated(run).tail(_web())


def test_an_answer_without_a_key_or_that_is_no_json_is_refused() -> None:
    with pytest.raises(InputError, match="JSON"):
        Simulated(lambda _: "Segmentation fault").tail(_web())
    with pytest.raises(InputError, match="an object"):
        Simulated(lambda _: "[]").tail(_web())
    with pytest.raises(InputError, match="it missing"):
        Simulated(lambda _: '{"schema": 1}').tail(_web())


def test_what_the_simulator_finds_unstable_is_refused() -> None:
    def run(text: str) -> str:
        return shared_processor(json.dumps({**json.loads(text), "request_per_s": 1000.0}))

    with pytest.raises(UnstableError, match="tier web"):
        Simulated(run).tail(_web())


def test_the_first_source_that_covers_a_station_answers_and_the_others_are_named() -> None:
    layered = Layered((_table(), Simulated(shared_processor), Approximation()))
    assert layered.tail(_web()).source == "measured table"
    beyond = layered.tail(_web(41.0))
    assert (beyond.source, beyond.evidence) == ("simulator", "simulated")
    assert "10 to 40 per s" in beyond.passed[0]
    assert Layered((_table(), Approximation())).tail(_web(41.0)).evidence == "model"


def test_a_station_that_no_source_covers_is_refused_with_all_reasons() -> None:
    with pytest.raises(InputError, match=r"tier web.*measured table: .*10 to 40 per s"):
        Layered((_table(),)).tail(_web(41.0))
    with pytest.raises(InputError, match="no source"):
        Layered(()).tail(_web())


def test_an_unstable_or_impossible_station_is_not_passed_on() -> None:
    layered = Layered((_table(), Approximation()))
    with pytest.raises(UnstableError, match="tier load"):
        layered.tail(_web(81.0))
    with pytest.raises(InputError, match="replicas"):
        layered.tail(_web(replicas=5))


def test_the_approximation_agrees_with_the_page_of_one_tier() -> None:
    noisy = replace(WEB, interference_share=0.2, gamma=0.3, run_s=10.0, cv2=1.5)
    for replicas, policy in [(1, "tad"), (2, "round-robin"), (3, "tad")]:
        station = Station(noisy, 6, 0.5, replicas, policy, 4.0, limping=1, limp_speed=0.4)
        found, page = Approximation().tail(station), PageLatency(12.0, points=8192)
        assert found.mean_s == pytest.approx(page.mean_s([station]), rel=1e-3)
        assert found.variance_s2 == pytest.approx(page.variance_s2([station]), rel=2e-3)
        assert found.p95_s == pytest.approx(page.percentile_s([station], 95), rel=2e-3)
        assert found.p99_s == pytest.approx(page.percentile_s([station], 99), rel=2e-3)


def test_the_first_of_many_nearly_equal_copies_takes_nearly_as_long_as_each() -> None:
    """Expected least of four normal draws: 1.0294 standard deviations below the mean."""
    for cv2 in (1e-4, 1e-2):
        station = Station(replace(WEB, cv2=cv2), 8, 1.0, 4, "tad", 1e-6)
        expected_s = 0.05 * (1 - 1.0294 * math.sqrt(cv2))
        assert Approximation().tail(station).mean_s == pytest.approx(expected_s, rel=0.003)


@pytest.mark.parametrize(
    "change", [{"mean_s": 0.0}, {"p99_s": 0.1}, {"variance_s2": math.nan}, {"samples": -1}]
)
def test_a_tail_that_cannot_be_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(InputError):
        replace(TierTail(0.07, 0.005, 0.21, 0.33, "measured", 2000), **change)  # type: ignore[arg-type]
