"""A whole run on redis with sentinels whose primary is killed: users, machines, and the plan."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from experiments.paths import ROOT
from experiments.tests.called import sparecraft
from experiments.tests.engine import docker
from experiments.tests.fleets import nothing_stays

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

EXPERIMENT = "tst-promotion"
DESIGN = ROOT / "experiments" / "tests" / "designs" / "promotion"
QUIET_S = 12.0  # at the end of a block, which ends 37 s after the kill


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(EXPERIMENT):
        yield


def _role(machine: str) -> str:
    return docker("exec", f"sc-{EXPERIMENT}-{machine}", "redis-cli", "role").split()[0]


def test_writes_go_on_after_a_promotion_and_the_plan_counts_a_spare(tmp_path: Path) -> None:
    design = shutil.copytree(DESIGN, tmp_path / "design")
    process = sparecraft("run", str(design), "--keep", "--results", str(tmp_path / "results"))
    assert process.returncode in (0, 1), process.stdout + process.stderr
    run = tmp_path / "results" / EXPERIMENT / "latest"
    result = json.loads((run / "result.json").read_text())
    for verdict in ("injection", "revert"):
        assert result["verdicts"][verdict]["ok"], result["verdicts"]
    requests = pl.read_parquet(run / "requests.parquet")
    failed = requests.filter(pl.col("outcome") != "ok")["intended_s"].to_list()
    print(f"writes failed for {max(failed, default=0) - min(failed, default=0):.1f} s")
    last = requests.filter(pl.col("intended_s") > pl.col("intended_s").max().over("arm") - QUIET_S)
    assert last.height > 100
    assert set(last["outcome"]) == {"ok"}, last["outcome"].value_counts()
    # In the first block store-1 was the primary; it came back as a replica, and was killed as one.
    assert (_role("store-1"), _role("store-2")) == ("slave", "master")
    plan = json.loads((run / "plan.json").read_text())
    assert plan["state"]["store"]["primary"] is True
    assert plan["state"]["store"]["takes_over_s"] == 15.0
    assert not any("promotes" in text for text in plan["warnings"]), plan["warnings"]
    assert plan["tiers"]["store"]["mechanism"] == "pf"
    assert plan["tiers"]["store"]["nodes"] >= 2
