"""A whole run on MariaDB with Galera whose primary is killed: users, rows, and the plan."""

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

EXPERIMENT = "tst-self-promotion"
DESIGN = ROOT / "experiments" / "tests" / "designs" / "self-promotion"
QUIET_S = 12.0  # at the end of a block, which ends 37 s after the kill
STORES = ("store-1", "store-2", "store-3")


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(EXPERIMENT):
        yield


def _select(machine: str, expression: str) -> int:
    query = ("mariadb", "--batch", "--skip-column-names", "-e", f"SELECT {expression}")
    return int(docker("exec", f"sc-{EXPERIMENT}-{machine}", *query))


def test_writes_go_on_after_a_loss_none_is_lost_and_the_plan_keeps_three(
    tmp_path: Path,
) -> None:
    design = shutil.copytree(DESIGN, tmp_path / "design")
    process = sparecraft("run", str(design), "--keep", "--results", str(tmp_path / "results"))
    assert process.returncode in (0, 1), process.stdout + process.stderr
    run = tmp_path / "results" / EXPERIMENT / "latest"
    result = json.loads((run / "result.json").read_text())
    for verdict in ("injection", "revert"):
        assert result["verdicts"][verdict]["ok"], result["verdicts"]
    requests = pl.read_parquet(run / "requests.parquet")
    failed = requests.filter(pl.col("outcome") != "ok")["intended_s"].to_list()
    print(f"requests failed for {max(failed, default=0) - min(failed, default=0):.1f} s")
    last = requests.filter(pl.col("intended_s") > pl.col("intended_s").max().over("arm") - QUIET_S)
    assert last.height > 100
    assert set(last["outcome"]) == {"ok"}, last["outcome"].value_counts()
    # In the first block store-1 took writes; in the second it was one of the others.
    read_only = [_select(store, "@@global.read_only") for store in STORES]
    assert (read_only[0], sum(read_only)) == (1, 2)
    sums = {_select(store, "SUM(updates) FROM records.usertable") for store in STORES}
    writes = requests.filter(pl.col("name").str.starts_with("update"))
    acknowledged = writes.filter(pl.col("outcome") == "ok").height
    assert len(sums) == 1, "the machines have different rows"
    assert acknowledged <= sums.pop() <= writes.height
    plan = json.loads((run / "plan.json").read_text())
    assert plan["state"]["store"]["primary"] is True
    assert plan["state"]["store"]["takes_over_s"] == 6.0
    assert not any("promotes" in text for text in plan["warnings"]), plan["warnings"]
    assert plan["state"]["store"]["kept"] == "copied"
    assert plan["tiers"]["store"]["nodes"] >= 3
