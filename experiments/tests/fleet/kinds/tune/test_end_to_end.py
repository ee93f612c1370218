"""`sparecraft tune` on real machines, to its end and cut short."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.runfiles.result import read_result
from experiments.paths import ROOT
from experiments.record.result import flat
from experiments.testbed.platforms.local import docker
from experiments.tests.fleets import Started, nothing_stays

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

DESIGN = ROOT / "experiments" / "tests" / "designs" / "small"
EXPERIMENT = "tst-small"
# Windows of 5 s at 4 requests/s, two pairs a comparison; only (1, 1) and (1, 2) never collide.
_SHORT = ("--target", "mean", "--window", "5", "--requests", "80", "--collision-max", "0")


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(EXPERIMENT):
        yield


def _start(results: Path) -> Started:
    return Started(results, "tune", str(DESIGN), *_SHORT, "--json")


def _tuning(results: Path) -> dict[str, Any]:
    return flat(read_result(results / EXPERIMENT / "tune" / "latest"))


def test_a_tune_walks_reports_and_leaves_nothing(tmp_path: Path) -> None:
    _start(tmp_path).ended(0, 1)  # 1 where the host was busy otherwise
    tuning = _tuning(tmp_path)
    assert flat(json.loads((tmp_path / "out.txt").read_text())) == tuning
    assert tuning["complete"]
    assert [candidate["replicas"] for candidate in tuning["feasible"]] == [[1, 1], [1, 2]]
    assert tuning["start"]["replicas"] == [1, 1]
    [step] = tuning["steps"]
    assert (step["candidate"]["replicas"], step["pairs"]) == ([1, 2], 2)
    assert tuning["iterations"] == 2
    web, db = tuning["tiers"]
    assert db["request_per_s"] > 5 * web["request_per_s"] > 0
    for tier in (web, db):
        assert 0 < tier["server_utilisation"] < 1
        assert tier["token_hold_ms"] > 0
        assert tier["connection_per_s"] > 0
    assert all(variability > 1 for variability in step["candidate"]["variability"])
    folder = tmp_path / EXPERIMENT / "tune" / "latest"
    requests = pl.read_parquet(folder / "requests.parquet")
    assert requests.height == tuning["requests"]["walk"]
    assert set(requests["arm"]) == {"1,1", "1,2"}
    arbiters = pl.read_parquet(folder / "arbiters.parquet")
    assert arbiters["processing_us_sum"].null_count() == 0
    assert "(1, 2)" in (folder / "report.html").read_text()
    assert docker.find(EXPERIMENT) == []


def test_an_interrupted_tune_keeps_its_data_and_leaves_no_fleet(tmp_path: Path) -> None:
    session = _start(tmp_path)
    session.until("a second window", lambda: "block 2" in session.output)
    session.process.send_signal(signal.SIGINT)
    session.ended(130)
    tuning = _tuning(tmp_path)
    assert not tuning["complete"]
    assert tuning["windows"] >= 1
    assert tuning["stopped"] == "interrupted"
    folder = tmp_path / EXPERIMENT / "tune" / "latest"
    assert pl.read_parquet(folder / "requests.parquet").height > 10
    assert "cut short" in (folder / "report.html").read_text() or tuning["chosen"] is None
    assert docker.find(EXPERIMENT) == []
