"""All caches of a fleet crash at once and restart: requests fail meanwhile, and are recorded so.

What a cache missed while it was down makes it stale, so the arbiter empties it when it is back:
from then on its keys are misses until they are set again, and a miss is `bad_content`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.runfiles.events import Event, read_events
from core.runfiles.result import read_result
from experiments.paths import ROOT
from experiments.record.result import flat
from experiments.testbed.platforms.local import docker
from experiments.tests.called import sparecraft
from experiments.tests.fleets import nothing_stays

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

SOURCE = ROOT / "experiments" / "designs" / "memcached-noisy"
EXPERIMENT = "tst-caches"
CACHES = 4
CRASH_S = 1.5  # a crash and a start are recorded when they are done
LIMIT_MS = 3000.0  # to connect and to answer
OUR_RANGES = """
data_cidr     = "198.18.128.0/20"
control_cidr  = "198.19.128.0/20"
entry_port    = 18280
influxdb_port = 18286
"""
ALL_CRASH = """
[[faults]]
kind = "machine.crash"
select = { tier = "cache" }
at_s = 3.0
for_s = 5.0
"""
CHANGES = (
    ("warm_up = 5", "warm_up = 1"),
    ("measure = 40", "measure = 20"),
    ('pattern = "front"', 'pattern = "none"'),
    ("error_share_max = 0.5\n", ""),  # all requests fail for a quarter of each block
    ("max_in_flight = 500", "max_in_flight = 500\nworkers = 2"),
    ('order = "ABBA"\nrepeats = 2', 'order = "AB"\nrepeats = 1'),
    ("[arms.baseline.settings]", f"{ALL_CRASH}\n[arms.baseline.settings]"),
)


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(EXPERIMENT):
        yield


def _design(folder: Path) -> Path:
    """A short form of design memcached-noisy, with its own networks, that crashes all caches."""
    shutil.copytree(SOURCE, folder)
    fleet = (folder / "fleet.tfvars").read_text()
    assert '"memcached-noisy"' in fleet
    (folder / "fleet.tfvars").write_text(
        fleet.replace('"memcached-noisy"', f'"{EXPERIMENT}"') + OUR_RANGES
    )
    text = (folder / "experiment.toml").read_text()
    for old, new in CHANGES:
        assert old in text
        text = text.replace(old, new)
    (folder / "experiment.toml").write_text(text)
    return folder


def test_errors_while_all_caches_are_down_are_counted_at_their_time_and_the_run_ends(
    tmp_path: Path,
) -> None:
    design = _design(tmp_path / EXPERIMENT)
    process = sparecraft("run", str(design), "--results", str(tmp_path))
    assert process.returncode == 1, process.stdout + process.stderr
    folder = tmp_path / EXPERIMENT / "latest"
    summary = flat(read_result(folder))
    requests = pl.read_parquet(folder / "requests.parquet")
    recorded = read_events(folder / "events.jsonl")
    events = [event for event in recorded if event["what"] == "fault" or event["kind"] == "fault"]
    for arm in ("baseline", "replicated"):
        _check_arm(
            requests.filter(arm=arm).sort("index"),
            [event for event in events if event["arm"] == arm],
            summary["arms"][arm],
        )
    verdicts = summary["verdicts"]
    assert summary["valid"] is False
    assert summary["slo"]["met"] is (None if summary["disturbed"] else False)
    assert any("requests failed" in reason for reason in verdicts["measurement"]["reasons"])
    assert all(verdicts[name]["ok"] for name in ("injection", "revert", "cleanup")), verdicts
    for block in summary["load"]["blocks"]:
        assert [worker["worker"] for worker in block["workers"]] == [0, 1]
        assert "lost" not in block["limits"]
    assert "The load generator" in (folder / "report.html").read_text()
    assert summary["faults"]["injected"] == summary["faults"]["reverted"] == 2 * CACHES
    assert docker.find(EXPERIMENT) == []


def _check_arm(requests: pl.DataFrame, events: list[Event], arm: dict[str, Any]) -> None:
    """Check that requests fail, by their time-out at the latest, only while all caches are down."""
    asked_s = next(event["time_s"] for event in events if event["action"] == "start")
    down_s = [event["time_s"] for event in events if event["action"] == "inject"]
    up_s = [event["time_s"] for event in events if event["action"] == "revert"]
    assert len(down_s) == len(up_s) == CACHES
    assert requests["index"].to_list() == list(range(requests.height)), "every arrival is there"
    assert requests["outcome"].is_in(["dropped", "lost"]).sum() == 0
    while_down = requests.filter(pl.col("intended_s").is_between(max(down_s), min(up_s) - CRASH_S))
    assert while_down.height > 30
    assert while_down["outcome"].is_in(["ok", "bad_content"]).sum() == 0
    waited_ms = (while_down["latency_ms"] - while_down["lag_ms"]).to_list()
    assert max(waited_ms) <= LIMIT_MS, "an error counts when it is one, or at its limit"
    before = requests.filter(pl.col("done_s") < asked_s)
    after = requests.filter(pl.col("intended_s") > requests["intended_s"].to_list()[-1] - 3.0)
    for undisturbed in (before, after):
        assert undisturbed.height > 30
        assert undisturbed["outcome"].is_in(["ok", "bad_content"]).all(), undisturbed["outcome"]
    assert arm["errors"] >= while_down.height
    measured = requests.filter(pl.col("phase") != "warm-up")
    assert arm["errors"] == measured.filter(pl.col("outcome") != "ok").height
