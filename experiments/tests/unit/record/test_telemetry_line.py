"""Line protocol and the points of Sparecraft, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.design.schedule import Block
from experiments.record.records import RequestRecord
from experiments.record.telemetry import Account, Annotations, Point, arbiter_points, request_point
from experiments.record.telemetry.spool import Spool
from experiments.tests.arbiter_stats import STATS


def line(**fields: float | int | bool | str | None) -> str:
    return Point("m", {"b": "2", "a": "1"}, fields, 7).line().decode()


def test_types_keep_their_marks() -> None:
    assert line(f=2.0, i=2, b=True, s="x") == 'm,a=1,b=2 f=2.0,i=2i,b=true,s="x" 7'


def test_none_and_nan_are_left_out_and_a_point_of_nothing_is_refused() -> None:
    assert line(f=float("nan"), g=None, h=1.5) == "m,a=1,b=2 h=1.5 7"
    with pytest.raises(ValueError, match="expected at least one field"):
        line(f=float("inf"))
    assert Point("m", {"a": None, "b": ""}, {"f": 1}, 7).line() == b"m f=1i 7"


def test_a_request_becomes_a_point_at_its_intended_start() -> None:
    record = RequestRecord(
        phase="measure", index=0, name="good", intended_s=1.5, sent_s=1.6, done_s=None,
        latency_ms=None, lag_ms=100.0, outcome="dropped", status=0, bytes=0,
    )  # fmt: skip
    names = {"experiment": "e", "run": "r"}
    block = Block(3, 1, "baseline", 0)
    point = request_point(record, block, Account(), t0_ns=10**18, **names)
    assert point.line().decode() == (
        "request,arm=baseline,experiment=e,outcome=dropped,phase=measure,run=r"
        " latency_ms=6000.0,lag_ms=100.0,status=0i,repeat=3i 1000000001500000000"
    )


def test_requests_of_one_microsecond_are_points_of_their_own_and_the_same_when_repeated() -> None:
    def time_ns(index: int) -> int:
        record = RequestRecord(
            phase="measure", index=index, name="good", intended_s=1234.567891, sent_s=1235.0,
            done_s=1236.0, latency_ms=1.0, lag_ms=0.1, outcome="ok", status=200, bytes=1,
        )  # fmt: skip
        block = Block(3, 1, "baseline", 0)
        return request_point(record, block, Account(), t0_ns=0, experiment="e", run="r").time_ns

    assert len({time_ns(index) for index in range(998, 1003)}) == 5
    assert time_ns(1001) == time_ns(1001) == 1_234_567_891_001
    assert {time_ns(index) // 1000 for index in range(2000)} == {1_234_567_891}


@pytest.mark.parametrize(
    ("outcome", "latency_ms", "burn"),
    [
        ("ok", 150.0, {"burn_p95": 0.0, "burn_p99": 0.0, "burn_errors": 0.0}),
        ("ok", 151.0, {"burn_p95": 20.0, "burn_p99": 0.0, "burn_errors": 0.0}),
        ("dropped", None, {"burn_p95": 20.0, "burn_p99": 100.0, "burn_errors": 50.0}),
        ("bad_status", 3.0, {"burn_p95": 20.0, "burn_p99": 100.0, "burn_errors": 50.0}),
    ],
)
def test_a_request_spends_what_the_slo_allows(
    outcome: str, latency_ms: float | None, burn: dict[str, float]
) -> None:
    account = Account(
        {"p95_ms": 150.0, "p99_ms": 300.0, "max_error_share": 0.02, "preregistered": True}
    )
    assert account.burn(outcome, latency_ms) == pytest.approx(burn)


def test_without_slo_or_price_there_is_nothing_to_tell() -> None:
    assert Account().burn("time_out", None) == {}
    assert Account().points({"run": "r"}, "a", 7, 5.0, 3) == []
    assert Account({"max_error_share": 0.0}).burn("time_out", None) == {}, "no budget to burn"


def test_a_stretch_costs_its_share_of_an_hour() -> None:
    names = {"experiment": "e", "run": "r"}
    slo, cost = Account({"p95_ms": 150.0}, 0.72).points(names, "a", 7, 5.0, 40)
    assert slo.line() == b"slo,experiment=e,run=r p95_ms=150.0 7"
    assert cost.fields == {"usd_per_hour": 0.72, "usd": pytest.approx(0.001), "good": 40}


def test_an_event_is_written_when_it_opens_and_over_it_when_it_closes() -> None:
    event = {"what": "fault", "kind": "net.loss", "machine": "web-1", "arm": "a", "repeat": 0,
             "id": "f1", "time_s": 2.0, "action": "inject", "text": ""}  # fmt: skip
    annotations = Annotations({"run": "r"}, lambda since_s: int(since_s * 1e9))
    opened = annotations.point(event)
    closed = annotations.point({**event, "time_s": 5.0, "action": "revert"})
    assert (opened.tags, opened.time_ns) == (closed.tags, closed.time_ns)
    assert "end_ms" not in opened.fields
    assert (closed.fields["end_ms"], closed.fields["duration_ms"]) == (5000, 3000.0)


def test_the_mean_latency_of_a_server_is_that_of_the_last_interval() -> None:
    before = {
        **STATS,
        "servers": [{**server, "latency_us_sum": 50_000, "latency_count": 1} for server in STATS["servers"]],  # type: ignore[attr-defined] # noqa: E501
    }  # fmt: skip
    tier, first, second = arbiter_points(STATS, before, experiment="e", run="r", time_ns=7)
    assert tier.fields["requests"] == 10
    assert first.fields["mean_latency_ms"] == 40.0
    assert first.fields["last_latency_ms"] == 41.234
    assert "mean_latency_ms=40.0" in first.line().decode()
    assert "last_latency_ms" not in second.line().decode()
    assert "alive=0i" in second.line().decode()
    [_, first_point, _] = arbiter_points(STATS, None, experiment="e", run="r", time_ns=7)
    assert "mean_latency_ms" not in first_point.line().decode()


def test_holds_and_waste_are_those_of_the_last_interval_and_latencies_of_the_last_minute() -> None:
    before = {**STATS, "token_holds": 8, "token_hold_us_total": 40_000, "busy_us": 0,
              "wasted_us": 0}  # fmt: skip
    tier, first, _ = arbiter_points(STATS, before, experiment="e", run="r", time_ns=7)
    assert tier.fields["token_hold_ms"] == 5.0
    assert tier.fields["wasted_percent"] == pytest.approx(20.0)
    assert (tier.fields["mean_ms"], tier.fields["p95_ms"]) == (5.1, None)
    assert first.fields["processing_ms"] is None, "no request ended between the two polls"
    first_tier, _, _ = arbiter_points(STATS, None, experiment="e", run="r", time_ns=7)
    assert (first_tier.fields["token_hold_ms"], first_tier.fields["wasted_percent"]) == (None, None)


def test_an_event_is_one_line_even_if_its_text_is_not() -> None:
    tags = {"experiment": "e", "run": "r", "what": "fault", "kind": "net.loss", "machine": "web-1"}
    point = Point("event", tags, {"title": 'a "b"', "text": "c\nd", "duration_ms": 3.0}, 7)
    assert point.line().decode() == (
        "event,experiment=e,kind=net.loss,machine=web-1,run=r,what=fault"
        ' title="a \\"b\\"",text="c d",duration_ms=3.0 7'
    )


def test_a_spool_gives_lines_in_order_and_an_empty_one_has_no_file(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "telemetry.lp", 1000)
    spool.append([b"a", b"b", b"c"])
    assert spool.head(2) == [b"a", b"b"]
    spool.advance([b"a", b"b"])
    spool.append([b"d"])
    assert spool.head(10) == [b"c", b"d"]
    assert spool.lines == 2
    with spool.path.open("ab") as file:
        file.write(b"cut sh")
    again = Spool(tmp_path / "telemetry.lp", 1000)  # after a crash: all, as it may be repeated
    assert again.head(10) == [b"a", b"b", b"c", b"d"]
    spool.advance([b"c", b"d"])
    assert not spool.path.exists()


def test_a_full_spool_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "telemetry.lp", 10)
    spool.append([b"12345"])
    with pytest.raises(OSError, match="limit of 10 bytes"):
        spool.append([b"67890"])
    assert spool.head(10) == [b"12345"]
