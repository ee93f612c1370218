"""Figures and SLOs of each operation and session."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from experiments.record.metrics.frames import prepared
from experiments.record.metrics.operations import NAMES_MAX, operation_figures
from experiments.record.metrics.slo import slo_verdict
from experiments.tests.frames import requests

TIME_OUT_MS = 4000.0


def shopped(sessions: int = 300, failed: int = 0) -> pl.DataFrame:
    """Pages of 100 ms; and sessions of a log-in of 20 ms and, a second after, a purchase of 300 ms.
    In `failed` of these the log-in gives no token."""
    rows: list[dict[str, Any]] = []
    for number in range(sessions):
        at_s = 2.0 * number
        lost = failed > 0 and number % (sessions // failed) == 0
        step = {"session": "shopper", "session_number": 3 * number, "session_steps": 2}
        rows += [
            {"name": "log in", "index": 3 * number, "intended_s": at_s, "latency_ms": 20.0,
             "bytes": 10, "outcome": "bad_content" if lost else "ok",
             "reason": "no token" if lost else None, **step},
            {"name": "buy", "index": 3 * number + 1, "intended_s": at_s + 1.02,
             "latency_ms": None if lost else 300.0, "lag_ms": None if lost else 0.1,
             "status": 0 if lost else 201, "outcome": "unreached" if lost else "ok", **step},
            {"name": "page", "index": 3 * number + 2, "intended_s": at_s + 0.5},
        ]  # fmt: skip
    return prepared(requests(rows), TIME_OUT_MS)


def figures(frame: pl.DataFrame, table: str, name: str) -> dict[str, Any]:
    one: dict[str, Any] = operation_figures(frame, ["baseline"], block_s=10.0)[table][name]
    return dict(one["baseline"])


def test_each_operation_has_its_own_figures() -> None:
    frame = shopped(failed=30)
    log_in, buy = figures(frame, "operations", "log in"), figures(frame, "operations", "buy")
    assert (log_in["requests"], log_in["errors"]) == (300, 30)
    assert (log_in["p50_ms"], log_in["p95_ms"]) == (20.0, TIME_OUT_MS)
    assert log_in["reasons"] == {"no token": 30}
    assert (log_in["status"], log_in["bytes"]) == ({"200": 300}, 3000)
    assert buy["outcomes"] == {"ok": 270, "unreached": 30}
    assert (buy["status"], buy["p50_ms"]) == ({"201": 270}, 300.0)
    assert log_in["insufficient"] == ["p99"]


def test_a_percentile_lies_in_its_interval() -> None:
    frame = requests({"latency_ms": 100.0 + (k * 37) % 1000} for k in range(2000))
    found = figures(frame, "operations", "n")
    for name in ("p50", "p95", "p99"):
        low, high = found[f"{name}_ms_interval"]
        assert low < found[f"{name}_ms"] < high


def test_a_session_counts_from_its_begin_to_its_last_answer() -> None:
    frame = shopped(failed=30)
    found = figures(frame, "sessions", "shopper")
    assert (found["requests"], found["errors"]) == (300, 30)
    assert found["p50_ms"] == pytest.approx(1320.0)
    assert found["p99_ms"] == TIME_OUT_MS, "one that failed counts with the time-out"
    assert found["reasons"] == {"log in": 30}


def test_a_session_that_was_cut_counts_for_nothing() -> None:
    whole = shopped(10)
    cut = whole.filter(~((pl.col("name") == "buy") & (pl.col("session_number") == 27)))
    assert figures(cut, "sessions", "shopper")["requests"] == 9


def test_a_load_of_many_names_has_no_table() -> None:
    rows = requests({"name": str(number)} for number in range(NAMES_MAX + 1))
    found = operation_figures(rows, ["baseline"], block_s=10.0)
    assert found == {"operations": {}, "sessions": {}}


@pytest.mark.parametrize(
    ("limits", "met"),
    [
        ({"operations": {"page": {"p95_ms": 200.0}}}, True),
        ({"operations": {"buy": {"p95_ms": 200.0}}}, False),
        ({"operations": {"log in": {"max_error_share": 0.05}}}, False),
        ({"operations": {"log in": {"max_error_share": 0.1}}}, None),
        ({"operations": {"gone": {"p95_ms": 200.0}}}, None),
        ({"sessions": {"shopper": {"p99_ms": 9000.0, "max_error_share": 0.5}}}, False),
        ({"sessions": {"shopper": {"max_error_share": 0.5}}}, True),
    ],
)
def test_an_slo_of_a_part_is_judged_by_its_requests_and_counts_for_the_whole(
    limits: dict[str, Any], met: bool | None
) -> None:
    frame = shopped(failed=30)
    asked = {"max_error_share": 0.5, **limits}
    found = slo_verdict(frame, ["baseline"], asked, block_s=10.0)
    ((table, parts),) = limits.items()
    (part,) = found["arms"]["baseline"][table].values()
    assert (part["met"], found["met"]) == (met, met)
    assert bool(found["reasons"]) == (met is not True)
    if met is not True:
        assert all(reason.startswith(tuple(parts)) for reason in found["reasons"])
