"""The other services on real machines, as a user calls them: searches, and one node's capacity."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.paths import ROOT
from experiments.tests.called import sparecraft
from experiments.tests.fleets import assert_served, nothing_stays

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

DESIGNS = ROOT / "experiments" / "tests" / "designs"


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays("tst-search", "tst-node"):
        yield


def run(design: str, results: Path) -> tuple[int, str]:
    """Exit code and output of `sparecraft run`."""
    process = sparecraft("run", str(DESIGNS / design), "--results", str(results))
    output = process.stdout + process.stderr
    assert process.returncode in (0, 1), output
    return process.returncode, output


def read(folder: Path, name: str) -> dict[str, Any]:
    body = json.loads((folder / name).read_text())
    assert isinstance(body, dict)
    return body


def test_searches_are_answered_by_both_arms_while_solr_has_neighbours(tmp_path: Path) -> None:
    _, output = run("search", tmp_path)
    folder = tmp_path / "tst-search" / "latest"
    summary = read(folder, "result.json")["compare"]
    for arm in ("baseline", "replicated"):
        assert_served(summary["arms"][arm], requests=30)
    assert "settling, 5 s" in output
    assert set(pl.read_parquet(folder / "requests.parquet")["repeat"]) == {0, 1}
    assert [block["repeat"] for block in read(folder, "manifest.json")["host"]["blocks"]] == [0, 1]
    assert summary["faults"]["injected"] == summary["faults"]["reverted"] > 0
    arbiters = pl.read_parquet(folder / "arbiters.parquet")
    search_rows = arbiters.filter(pl.col("tier") == "search")
    assert set(search_rows["replicas"]) >= {1, 2}
    assert search_rows["replicas_sent"].max() > 0  # type: ignore[operator]
    assert "feasible" in summary["plan"]


def test_the_load_of_one_node_is_raised_until_it_is_full(tmp_path: Path) -> None:
    code, output = run("node", tmp_path)
    folder = tmp_path / "tst-node" / "latest"
    result = read(folder, "result.json")
    capacity = result["capacity"]
    ycsb = capacity["workloads"]["ycsb-a"]
    rates = [step["rate_per_s"] for step in ycsb["steps"]]
    assert rates[:2] == [50.0, 200.0]
    assert ycsb["steps"][0]["error_share"] < 0.25
    by_rate = sorted(ycsb["steps"], key=lambda step: float(step["rate_per_s"]))
    assert by_rate[-1]["p95_ms"] > by_rate[0]["p95_ms"]
    assert {"store-1", "arbiter-store"} <= set(ycsb["steps"][0]["cores"])
    # On a busy host the generator may be late: the result then has a reason instead of a NodT.
    assert (ycsb["nodt_per_s"] is not None) or ycsb["reason"], output
    assert (code == 0) == (capacity["complete"] and result["disturbed"] is None)
    assert (folder / "report.html").stat().st_size > 20_000
    assert result["verdicts"]["cleanup"]["ok"]
