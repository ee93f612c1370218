"""Sharding of a plan, comparison of clocks, and the limit of a generator."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from experiments.load.generator import remote_workers
from experiments.load.lateness import LAG_MS_MAX, less_late
from experiments.load.plan import PLAN as PLANS
from experiments.load.plan import ClientClass, LoadPlan, LocustFile, RemoteWorkers
from experiments.load.workers.locust.clock import Exchange, Offset, offset_of
from experiments.load.workers.locust.sharding import pool_shares, share
from experiments.record.metrics.saturation import saturation
from experiments.tests.load_fixture import PLAN, make_plan

PATHS = ["good", "fails", "chunked", "good", "leave", "good", "cut"]


@given(st.integers(1, 60), st.integers(1, 16), st.integers(16, 400))
def test_shares_hold_every_arrival_once_with_its_page_and_its_phase(
    arrivals: int, workers: int, in_flight: int
) -> None:
    plan = make_plan("http://127.0.0.1/", (PATHS * 9)[:arrivals], max_in_flight=in_flight)
    shares = [share(plan, worker, workers) for worker in range(workers)]
    by_index: dict[int, tuple[Any, ...]] = {}
    for part in shares:
        for index in range(len(part.offsets_s)):
            assert part.index_of(index) not in by_index
            by_index[part.index_of(index)] = _arrival(part, index)
    assert by_index == {index: _arrival(plan, index) for index in range(arrivals)}
    assert sum(part.load.max_in_flight for part in shares) == in_flight
    assert math.isclose(sum(part.load.rate_per_s for part in shares), plan.load.rate_per_s)
    for part in shares:
        assert PLANS.validate_json(PLANS.dump_json(part)) == part, "it survives the message"


def _arrival(plan: LoadPlan, index: int) -> tuple[Any, ...]:
    offset_s = plan.offsets_s[index]
    return offset_s, plan.operations[plan.operation_of[index]], plan.phase_at(offset_s)


def test_workers_are_elsewhere_where_enough_wait_and_here_where_none_does() -> None:
    assert remote_workers(1, 3) is None
    assert remote_workers(4, 0) is None
    remote = remote_workers(3, 3)
    assert remote is not None
    assert (remote.bind, remote.port) == ("*", 5557)
    with pytest.raises(InputError, match=r"at most 2: .* \(got 4\)\. .* load_machines = 5"):
        remote_workers(4, 2)


def test_the_quickest_exchange_gives_the_offset_and_its_uncertainty() -> None:
    slow, quick = Exchange(10.0, 1010.9, 11.0), Exchange(20.0, 1020.004, 20.010)
    offset = offset_of([slow, quick], same_clock=False)
    assert offset.offset_s == pytest.approx(999.999)
    assert offset.uncertainty_s == pytest.approx(0.005)


def test_one_kernel_means_one_clock_unless_the_exchanges_deny_it() -> None:
    exchange = Exchange(10.0, 10.0003, 10.001)
    assert offset_of([exchange], same_clock=True) == Offset(0.0, 0.0)
    assert offset_of([exchange], same_clock=False).uncertainty_s == pytest.approx(0.0005)
    other_exchange = replace(exchange, worker_s=7.0)
    assert offset_of([other_exchange], same_clock=True).offset_s == pytest.approx(-3.0005)


def records(count: int = 1000, **columns: Any) -> pl.DataFrame:
    """Requests 10 ms apart that left at once and were answered after 20 ms."""
    frame = pl.DataFrame({"index": range(count)}).with_columns(intended_s=pl.col("index") * 0.01,
                                                               lag_ms=pl.lit(0.1),
                                                               latency_ms=pl.lit(20.0),
                                                               outcome=pl.lit("ok"))  # fmt: skip
    return frame.with_columns(**columns)


def worker(cpu_share: float | None = 0.2, **changes: Any) -> dict[str, Any]:
    return {"worker": 0, "planned": 1000, "recorded": 1000, "cpu_share": cpu_share, **changes}


def test_a_load_that_left_in_time_from_workers_with_room_is_as_asked() -> None:
    result = saturation(records(), [worker(0.9), worker(0.4, worker=1)])
    assert result.ok
    assert result.sent_share == pytest.approx(1.0, abs=1e-4)
    assert (result.lag_ms_p99, result.cpu_share) == (0.1, 0.9)
    assert saturation(records(), []).cpu_share is None


NONE = pl.lit(None, dtype=pl.Float64)


@pytest.mark.parametrize(
    ("frame", "workers", "limits", "said"),
    [
        (records(), [worker(0.91)], ("cpu",), "load worker 0 took 91% of a core"),
        (records(lag_ms=pl.lit(1.2)), [worker()], ("lag",), "lag p99 1.20 ms, 1.00 ms"),
        (records(lag_ms=pl.col("index") * 0.2), [worker()], ("lag", "pace"),
         "98.0% of the offered"),
        (
            records(
                outcome=pl.when(pl.col("index") < 20).then(pl.lit("dropped")).otherwise("outcome")
            ),
            [worker()],
            ("in-flight",),
            "20 of 1,000 requests were dropped",
        ),
        (records(outcome=pl.when(pl.col("index") < 3).then(pl.lit("lost")).otherwise("outcome")),
         [worker(recorded=997)], ("lost",), "3 of 1,000 requests were lost with load worker 0"),
    ],
)  # fmt: skip
def test_each_limit_is_named_with_its_figures(
    frame: pl.DataFrame, workers: list[dict[str, Any]], limits: tuple[str, ...], said: str
) -> None:
    result = saturation(frame, workers)
    assert result.limits == limits
    assert said in " ".join(result.reasons)


def test_a_lag_is_held_against_the_latency_where_that_is_long() -> None:
    assert saturation(records(lag_ms=pl.lit(4.0), latency_ms=pl.lit(100.0)), [worker()]).ok


def test_lag_and_latency_are_percentiles_by_rank_as_everywhere() -> None:
    few = records().head(100).with_columns(lag_ms=pl.col("index") * 0.01)
    assert saturation(few, []).lag_ms_p99 == pytest.approx(0.98)
    # the median by rank is 20 ms, which allows 1 ms; the mean of the middle two would allow 2
    late = few.with_columns(lag_ms=pl.lit(1.5), latency_ms=20.0 + 40.0 * (pl.col("index") >= 50))
    assert saturation(late, []).limits == ("lag",)


def test_nothing_sent_is_all_lost_or_dropped() -> None:
    result = saturation(records(outcome=pl.lit("lost"), lag_ms=NONE), [worker(None, recorded=0)])
    assert result.limits == ("lost",)
    assert (result.sent_share, result.lag_ms_p99) == (0.0, None)


@given(
    st.lists(st.floats(0.01, 1000.0), min_size=1, max_size=8),
    st.integers(min_value=1, max_value=500),
)
def test_each_class_of_users_has_its_share_of_the_pool_and_at_least_one(
    weights: list[float], size: int
) -> None:
    shares = pool_shares(weights, size)
    assert sum(shares) == max(size, len(weights))
    assert min(shares) >= 1
    for count, weight in zip(shares, weights, strict=True):
        fair = size * weight / sum(weights)
        assert count <= fair + len(weights) + 1


def file_worker(**tasks: Any) -> dict[str, Any]:
    """The worker of a Locust file, as a block keeps it."""
    counts = dict.fromkeys(("not_started", "no_request", "raised", "timed_out", "replaced"), 0)
    return {**worker(), "planned": 100, "tasks": {"users": 5, "errors": [], **counts, **tasks}}


def test_arrivals_without_a_free_user_say_that_the_pool_was_too_small() -> None:
    frame = records(
        outcome=pl.when(pl.col("index") < 50).then(pl.lit("dropped")).otherwise("outcome")
    )
    result = saturation(frame, [file_worker()])
    assert result.limits == ("pool",)
    assert "5 users" in result.reasons[0]


def test_tasks_that_raise_more_than_now_and_then_are_a_limit() -> None:
    assert saturation(records(), [file_worker(raised=1)]).ok
    result = saturation(
        records(), [file_worker(raised=2, errors=["file.py:3: KeyError: 'id' (2x)"])]
    )
    assert result.limits == ("tasks",)
    assert "file.py:3" in result.reasons[0]


LATE_MS = 2 * LAG_MS_MAX


@pytest.mark.parametrize(
    ("plan", "worker", "words"),
    [
        (PLAN, "locust", ["native"]),
        (replace(PLAN, locustfile=LocustFile("f.py", {}, 1.0)), "native", ["FastHttpUser"]),
        (replace(PLAN, client=ClientClass("workload.py", "C")), "native", ["load.operations"]),
    ],
    ids=["chosen", "locustfile", "client"],
)
def test_what_would_do_is_said(plan: LoadPlan, worker: str, words: list[str]) -> None:
    message = less_late(LATE_MS, plan, worker) or ""
    assert all(word in message for word in ["0.40 ms", *words])
    assert less_late(LAG_MS_MAX, plan, worker) is None
    assert less_late(None, plan, worker) is None


def test_nothing_is_said_where_no_other_worker_would_do() -> None:
    assert less_late(LATE_MS, PLAN, "native") is None
    assert less_late(LATE_MS, PLAN, "./my-worker") is None
    remote = replace(PLAN, remote=RemoteWorkers("*", 1, 1.0))
    assert less_late(LATE_MS, remote, "native") is None
