"""Rows Z3 and F6 on real machines: the leader of an ensemble limps, and all updates with it; a data
node limps, and what is written through it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.runfiles.events import read_events
from core.runfiles.result import read_result
from experiments.paths import ROOT
from experiments.record.result import flat
from experiments.testbed.platforms.local import docker
from experiments.tests.fleets import Started, nothing_stays

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

DESIGNS = ROOT / "experiments" / "tests" / "designs"
EXPERIMENT = "tst-limplock"
BLOCKS = "tst-limplock-hdfs"


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(EXPERIMENT, BLOCKS):
        yield


def _far_slower(row: dict[str, Any], limit: float) -> None:
    """Slower beyond doubt, and by the limit where the interval ends: on a busy host three bases may
    differ so much that it begins below the limit, and the rule then says "insufficient"."""
    assert row["slowdown"]["low"] > 1.0
    assert row["slowdown"]["high"] is None or row["slowdown"]["high"] > limit
    assert row.get("verdict", row.get("operation")) != "no"


def _slower_by(row: dict[str, Any], limit: float) -> None:
    """Slower than the limit where the dose leaves no doubt, whatever the noise. A wait that is cut
    short counts with the factor at which it was, which is beyond the limit."""
    _far_slower(row, limit)
    assert row["slowdown"]["factor"] > limit


def test_a_leader_whose_card_limps_locks_up_all_updates_and_leaves_nothing(tmp_path: Path) -> None:
    Started(tmp_path, "run", str(DESIGNS / "limping-leader"), "--json").ended(0)
    folder = tmp_path / EXPERIMENT / "latest"
    result = read_result(folder)
    assert json.loads((tmp_path / "out.txt").read_text()) == result
    summary = flat(result)
    [limped, crashed] = summary["scenarios"]
    assert (limped["scenario"], crashed["scenario"]) == ("1000", "crash")
    assert limped["repeats"] == 3
    updates = [stream for stream in limped["streams"] if stream["operation"] == "set"]
    assert len(updates) == 3
    for row in (limped, *updates):  # a thousand times slower: seconds for milliseconds
        _slower_by(row, summary["rule"]["factor"])
    assert limped["cluster"] == "insufficient" or "set" in limped["scope"]
    assert "leader" in {node["node"] for node in crashed["nodes"] if node["down"]} | {
        stream["node"] for stream in crashed["streams"] if stream["down"]
    }
    events = read_events(folder / "events.jsonl")
    faults = [event for event in events if event["what"] == "fault"]
    assert [event["action"] for event in faults].count("inject") == 6
    assert [event["action"] for event in faults].count("revert") == 6
    whitebox = pl.read_parquet(folder / "whitebox.parquet")
    assert set(whitebox["machine"]) == {f"ensemble-{number}" for number in (1, 2, 3)}
    assert 'id="course-new-z3-leader"' in (folder / "report.html").read_text()
    assert docker.find(EXPERIMENT) == []


def test_a_data_node_whose_card_limps_holds_up_what_is_written_through_it(tmp_path: Path) -> None:
    Started(tmp_path, "run", str(DESIGNS / "limping-datanode"), "--json").ended(0)
    summary = flat(read_result(tmp_path / BLOCKS / "latest"))
    [limped] = summary["scenarios"]
    assert (limped["part"], limped["scenario"], limped["repeats"]) == ("datanode", "100", 3)
    _slower_by(limped, summary["rule"]["factor"])  # minutes of its card, for a second or two
    [reads] = [stream for stream in limped["streams"]
               if (stream["operation"], stream["needs"]) == ("read-block", "limpware")]  # fmt: skip
    assert reads["node"] == limped["limping"]
    _far_slower(reads, summary["rule"]["factor"])
    whitebox = pl.read_parquet(tmp_path / BLOCKS / "latest" / "whitebox.parquet")
    assert {"call_queue", "transfers", "heap_used_mb"} <= set(whitebox["metric"])
    assert docker.find(BLOCKS) == []
