"""The latency that a request counts with, one by one and as a table."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.statistics.percentiles import (
    OK,
    counted,
    counted_ms,
    percentile,
    time_out_ms,
    time_out_of,
)

FAILED = (
    "connection_error",
    "aborted_connection",
    "time_out",
    "bad_status",
    "bad_content",
    "dropped",
    "lost",
)


@pytest.mark.parametrize("outcome", FAILED)
@pytest.mark.parametrize("latency_ms", [None, math.nan, 0.03, 5999.0])
def test_what_a_user_did_not_get_counts_with_the_time_out(
    outcome: str, latency_ms: float | None
) -> None:
    assert counted_ms(outcome, latency_ms, 6000.0) == 6000.0


@pytest.mark.parametrize("outcome", FAILED)
def test_a_failure_that_took_longer_than_the_time_out_is_not_shortened(outcome: str) -> None:
    assert counted_ms(outcome, 7500.0, 6000.0) == 7500.0


@pytest.mark.parametrize("latency_ms", [0.03, 5999.0, 7500.0])
def test_a_good_answer_counts_with_its_latency(latency_ms: float) -> None:
    assert counted_ms(OK, latency_ms, 6000.0) == latency_ms


@given(
    st.sampled_from([OK, *FAILED]),
    st.none() | st.floats(min_value=0.0, max_value=1e6) | st.just(math.nan),
    st.floats(min_value=1.0, max_value=1e5),
)
def test_a_table_has_what_its_rows_have(
    outcome: str, latency_ms: float | None, limit_ms: float
) -> None:
    schema = {"outcome": pl.String, "latency_ms": pl.Float64}
    row = pl.DataFrame({"outcome": [outcome], "latency_ms": [latency_ms]}, schema=schema)
    assert row.select(counted(limit_ms)).item() == counted_ms(outcome, latency_ms, limit_ms)


@given(
    st.lists(st.floats(min_value=0.01, max_value=5e3), min_size=20, max_size=200),
    st.integers(min_value=1, max_value=200),
    st.sampled_from(FAILED),
)
def test_refusing_some_requests_makes_no_percentile_better(
    answered_ms: list[float], refused: int, outcome: str
) -> None:
    before = np.sort(answered_ms)
    after_ms = [
        counted_ms(outcome, 0.03, 6000.0) if index < refused else ms
        for index, ms in enumerate(answered_ms)
    ]
    after = np.sort(after_ms)
    assert after.mean() >= before.mean()
    for quantile in (0.5, 0.95, 0.99):
        assert (percentile(after, quantile) or 0.0) >= (percentile(before, quantile) or 0.0)


@pytest.mark.parametrize(
    ("load", "expected_ms"),
    [
        ({"connect_timeout_s": 2.0, "response_timeout_s": 6.5}, 6500.0),
        ({"connect_timeout_s": 8.0, "response_timeout_s": 6.5}, 8000.0),
        ({"connect_timeout_s": None}, 6000.0),
        (None, 6000.0),
    ],
)
def test_the_time_out_is_the_longest_limit_of_the_load(
    load: dict[str, float | None] | None, expected_ms: float
) -> None:
    assert time_out_of({"spec": {"load": load}}) == expected_ms
    limits = load or {}
    assert (
        time_out_ms(limits.get("connect_timeout_s"), limits.get("response_timeout_s"))
        == expected_ms
    )
