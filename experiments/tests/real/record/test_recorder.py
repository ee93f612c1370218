"""Marks of SLO and cost that the recorder sends to InfluxDB while a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from experiments.design.schedule import Block
from experiments.record.recorder import Clock, Recorder
from experiments.record.records import RequestRecord
from experiments.record.telemetry import Account, InfluxQuery, InfluxWriter
from experiments.record.telemetry.account import EVERY_S
from experiments.tests.influxdb import Influx, influxd

BLOCK = Block(0, 0, "a", 1)
ACCOUNT = Account({"p95_ms": 100.0, "max_error_share": 0.01}, usd_per_hour=3.6)


@pytest.fixture
def influx(tmp_path: Path) -> Iterator[Influx]:
    with influxd(tmp_path) as server:
        server.create_database()
        yield server


def _request(index: int, outcome: str) -> RequestRecord:
    return RequestRecord(
        phase="measure", index=index, name="read", intended_s=index / 10, sent_s=index / 10,
        done_s=index / 10, latency_ms=5.0, lag_ms=0.1, outcome=outcome, status=200, bytes=1,
    )  # fmt: skip


def test_limits_cost_and_verdict_are_told_while_a_block_runs(
    influx: Influx, tmp_path: Path
) -> None:
    clock = Clock(0.0, datetime(2026, 11, 1, tzinfo=UTC))
    writer = InfluxWriter(influx.url, tmp_path / "telemetry.lp")
    recorder = Recorder(tmp_path, clock, "e", "r", writer, ACCOUNT)
    recorder.accounts(10.0, BLOCK, begins=True)
    recorder.requests(BLOCK, [_request(0, "ok"), _request(1, "time_out"), _request(2, "ok")])
    recorder.accounts(10.0 + EVERY_S / 2, BLOCK)
    recorder.accounts(10.0 + EVERY_S, BLOCK)
    recorder.verdict(20.0, "a", False, ["p95: 3 of 20"])
    recorder.verdict(21.0, "run", True, [])
    recorder.close()
    assert writer.close(30.0).spooled == 0
    query = InfluxQuery(influx.url)
    costs = query.rows("SELECT usd, good, usd_per_hour, arm FROM cost")
    assert [(row["usd"], row["good"]) for row in costs] == [(0, 0), (EVERY_S / 1000, 2)]
    assert len(query.rows("SELECT p95_ms, max_error_share FROM slo")) == 2
    burns = query.rows("SELECT burn_p95, burn_errors FROM request")
    assert [(row["burn_p95"], row["burn_errors"]) for row in burns] == [(0, 0), (20, 100), (0, 0)]
    verdicts = query.rows("SELECT title, text, met FROM event WHERE what = 'verdict'")
    query.close()
    assert [(row["title"], row["met"]) for row in verdicts] == [
        ("a: SLO missed", 0), ("run: nothing against it", 1),
    ]  # fmt: skip
    assert verdicts[0]["text"] == "p95: 3 of 20"
