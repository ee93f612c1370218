"""The files of a run: whole or not at all, and what a full disk leaves."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hdrh.histogram import HdrHistogram

from core.errors import DiskFull
from core.runfiles.events import json_lines
from experiments.record.records import (
    ARBITERS,
    REQUESTS,
    EventLog,
    arbiter_rows,
    encode_histogram,
    histograms,
    write_bytes,
    write_json,
    write_table,
)
from experiments.tests.arbiter_stats import STATS
from experiments.tests.disks import fill
from experiments.tests.frames import requests


def test_a_table_reads_back_as_it_was_written(tmp_path: Path) -> None:
    table = requests([{"latency_ms": 1.5}, {"latency_ms": None, "outcome": "dropped"}])
    write_table(tmp_path / "requests.parquet", table, REQUESTS)
    assert pl.read_parquet(tmp_path / "requests.parquet").equals(table)
    assert [path.name for path in tmp_path.iterdir()] == ["requests.parquet"]


def test_a_table_with_a_missing_or_misshapen_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        write_table(tmp_path / "requests.parquet", requests([{}]).drop("lag_ms"), REQUESTS)
    bad = requests([{}]).with_columns(status=pl.lit("fine"))
    with pytest.raises(pl.exceptions.InvalidOperationError):
        write_table(tmp_path / "requests.parquet", bad, REQUESTS)
    assert not list(tmp_path.iterdir())


def test_a_poll_of_an_arbiter_makes_a_row_for_each_server(tmp_path: Path) -> None:
    table = pl.DataFrame(arbiter_rows(3.0, STATS), schema=ARBITERS)
    assert table["server"].to_list() == ["web-1", "web-2"]
    assert table["alive"].to_list() == [True, False]
    assert table["last_latency_us"].to_list() == [41234, None]
    assert table["wasted_us"].unique().to_list() == [12345]
    assert table["busy_us"].to_list() == [61725, 61725]
    assert table["server_busy_us"].to_list() == [45_000, 90_000]
    assert table["replies_different"].to_list() == [2, 2]
    assert table["replies_in_minority"].to_list() == [0, 1]
    assert table.null_count().row(0).count(0) == len(ARBITERS) - 1
    write_table(tmp_path / "arbiters.parquet", table, ARBITERS)
    assert pl.read_parquet(tmp_path / "arbiters.parquet").equals(table)


def test_events_are_lines_and_a_cut_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    log.append({"what": "phase", "text": "a\nb"})
    log.append({"what": "fault", "text": "é"})
    log.close()
    with path.open("ab") as file:
        file.write(b'{"what": "fa')
    assert [line for _, line in json_lines(path)] == [
        {"what": "phase", "text": "a\nb"},
        {"what": "fault", "text": "é"},
    ]


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "summary.json", {"p99_ms": float("nan")})
    assert not list(tmp_path.iterdir())


def test_a_full_disk_keeps_the_old_file_and_says_what_is_kept(small_disk: Path) -> None:
    write_json(small_disk / "summary.json", {"old": True})
    fill(small_disk)
    with pytest.raises(DiskFull) as caught:
        write_bytes(small_disk / "summary.json", b"x" * 100_000)
    assert json.loads((small_disk / "summary.json").read_text()) == {"old": True}
    assert "No space left on device" in str(caught.value)
    assert f"Kept in {small_disk}: filler, summary.json" in str(caught.value)
    assert not [path for path in small_disk.iterdir() if path.name.startswith(".")]
    assert caught.value.exit_code == 3


def test_an_event_that_does_not_fit_leaves_the_lines_before_it_whole(small_disk: Path) -> None:
    log = EventLog(small_disk / "events.jsonl")
    log.append({"text": "first"})
    filler = fill(small_disk)
    with pytest.raises(DiskFull, match=r"events\.jsonl: expected room"):
        log.append({"text": "x" * 10_000})
    filler.unlink()
    log.append({"text": "second"})
    log.close()
    assert [event["text"] for _, event in json_lines(log.path)] == ["first", "second"]


def test_histograms_hold_each_block_without_warm_up_and_what_failed_at_the_time_out() -> None:
    table = requests(
        [{"phase": "warm-up", "latency_ms": 9.0}, {"latency_ms": 100.0},
         {"outcome": "dropped", "latency_ms": None},
         {"outcome": "connection_error", "latency_ms": 0.03},
         {"repeat": 3, "phase": "fault", "latency_ms": 6000.0},
         {"arm": "replicated", "repeat": 1, "latency_ms": 0.0}]
    )  # fmt: skip
    arms: Any = histograms(table, 6000.0)["arms"]
    repeats_by_arm = {arm: list(by_repeat) for arm, by_repeat in arms.items()}
    assert repeats_by_arm == {"baseline": ["0", "3"], "replicated": ["1"]}
    histogram = HdrHistogram.decode(arms["baseline"]["0"].encode())
    assert histogram.get_total_count() == 3
    assert histogram.get_min_value() == pytest.approx(100_000, rel=1e-3)
    assert histogram.get_value_at_percentile(50) == pytest.approx(6_000_000, rel=1e-3)
    merged = HdrHistogram(1, 120_000_000, 3)
    for encoded in arms["baseline"].values():
        merged.decode_and_add(encoded.encode())
    assert merged.get_total_count() == 4
    assert merged.get_max_value() == pytest.approx(6_000_000, rel=1e-3)


def test_a_histogram_is_base64_of_hdrhistograms_own_format() -> None:
    encoded = encode_histogram([1.0, 2.0, 3.0])
    assert base64.b64decode(encoded, validate=True)[:4] == bytes.fromhex("1c849314")
