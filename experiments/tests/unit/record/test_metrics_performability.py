"""Goodput, punctuality and demerits against values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InputError
from core.runfiles.events import Window
from experiments.record.metrics.frames import prepared
from experiments.record.metrics.performability import Ideal, demerits, ideal_latency, user_metrics
from experiments.record.metrics.weights import performability_weights
from experiments.tests.frames import requests

IDEAL = Ideal(100.0, "by hand")


def test_the_weights_are_those_of_the_report() -> None:
    weights = performability_weights()
    assert weights.demerits["aborted_connection"] == 2
    assert weights.demerits["connection_error"] == 1
    assert weights.demerits["time_out"] == 8
    assert weights.second_above_ideal == 1
    assert weights.thresholds_s == (0.1, 1.0, 2.0)
    assert "UCB//CSD-04-1324" in weights.source


def test_demerits_add_failures_and_seconds_above_the_ideal() -> None:
    # Section 5.6 by hand: 3 aborted x 2 + 4 errors x 1 + 2 time-outs x 8 = 26, and
    # 100 requests x (0.6 s - 0.1 s) x 1 = 50.
    counts = {"ok": 91, "aborted_connection": 3, "connection_error": 4, "time_out": 2}
    assert demerits(counts, 600.0, 100.0) == pytest.approx(76.0)


def test_being_faster_than_ideal_earns_nothing() -> None:
    assert demerits({"ok": 10}, 50.0, 100.0) == 0.0


def test_rates_count_what_users_got() -> None:
    rows: list[dict[str, Any]] = [{}] * 6 + [{"outcome": "bad_status"}, {"outcome": "time_out"}]
    frame = prepared(requests(rows), 6000.0)
    metrics = user_metrics(frame, 4.0, IDEAL)
    assert metrics["offered_per_s"] == 2.0
    assert metrics["throughput_per_s"] == 7 / 4
    assert metrics["goodput_per_s"] == 1.5
    assert metrics["goodput"] == 0.75
    assert metrics["errors"] == 2


def test_punctuality_is_the_ideal_divided_by_the_mean() -> None:
    frame = prepared(requests([{"latency_ms": 100.0}, {"latency_ms": 300.0}]), 6000.0)
    assert user_metrics(frame, 1.0, IDEAL)["punctuality"] == pytest.approx(0.5)


def test_a_failed_request_is_never_ok_within_a_threshold() -> None:
    rows: list[dict[str, Any]] = [
        {"latency_ms": 50.0},
        {"latency_ms": 5.0, "outcome": "connection_error"},
    ]
    frame = prepared(requests(rows), 6000.0)
    assert user_metrics(frame, 1.0, IDEAL)["ok_within_s"] == {"0.1": 0.5, "1": 0.5, "2": 0.5}


def test_a_refusal_is_weighed_once_and_is_not_punctual() -> None:
    # By hand: 9 x 0.1 s beyond the ideal of 0, 1 refused; the mean has it at 6 s.
    rows: list[dict[str, Any]] = [{}] * 9 + [{"outcome": "connection_error", "latency_ms": 0.0}]
    metrics = user_metrics(prepared(requests(rows), 6000.0), 1.0, Ideal(0.0, "by hand"))
    assert metrics["demerits"] == pytest.approx(1.0 + 0.9)
    assert metrics["waited_ms_mean"] == pytest.approx(90.0)
    assert metrics["mean_ms"] == pytest.approx(690.0)


@pytest.mark.parametrize("latency_ms", [None, float("nan")])
def test_a_dropped_request_enters_at_the_limit_and_is_counted(latency_ms: float | None) -> None:
    frame = prepared(
        requests([{}, {"outcome": "dropped", "latency_ms": latency_ms, "lag_ms": 9e9}]), 6000.0
    )
    metrics = user_metrics(frame, 1.0, IDEAL)
    assert metrics["max_ms"] == 6000.0
    assert metrics["outcomes"]["dropped"] == 1
    assert metrics["lag_ms_p99"] == 0.1, "what was never sent was not sent late"


def test_nothing_measured_gives_no_figures_and_no_error() -> None:
    metrics = user_metrics(prepared(requests([]), 6000.0), 0.0, Ideal(None, "none"))
    assert metrics["requests"] == 0
    for key in ("offered_per_s", "goodput", "mean_ms", "punctuality", "demerits", "lag_ms_p99"):
        assert metrics[key] is None


def test_the_ideal_comes_from_requests_that_met_no_disturbance() -> None:
    frame = requests(
        [{"intended_s": float(i), "latency_ms": 900.0 if i < 40 else 80.0} for i in range(80)]
    )
    burst = Window("interference", "cpu", "web-1", "", 0, 0.0, 39.99, closed=True, text="")
    ideal = ideal_latency(frame, "baseline", [burst])
    assert ideal.latency_ms == pytest.approx(80.0)
    assert "40 undisturbed" in ideal.source


def test_without_quiet_time_the_ideal_says_what_stands_in() -> None:
    frame = requests([{"latency_ms": value} for value in (10.0, 20.0, 1000.0, 2000.0)])
    burst = Window("fault", "net.limp", "web-1", "", 0, 0.0, 99.0, closed=True, text="")
    ideal = ideal_latency(frame, "baseline", [burst])
    assert ideal.latency_ms == pytest.approx(15.0)
    assert "faster half" in ideal.source


def test_a_frame_of_another_version_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="lag_ms"):
        prepared(requests([{}]).drop("lag_ms"), 6000.0)
    with pytest.raises(InputError, match="exploded"):
        prepared(requests([{"outcome": "exploded"}]), 6000.0)
