"""The closed loop on real machines: a fleet is measured, changed in place and measured again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from core.runfiles.manifest import read_manifest
from core.runfiles.result import read_result
from experiments import kinds
from experiments.design import load_design
from experiments.design.inventory import Inventory
from experiments.design.prediction import PLANNED_ARM, PLANNED_FOLDER
from experiments.kinds.compare.close import Loop, close
from experiments.paths import ROOT
from experiments.record.records import write_json
from experiments.run.lifecycle import Outcome
from experiments.testbed.platforms.local import docker
from experiments.testbed.platforms.local.platform import LocalPlatform
from experiments.testbed.platforms.terraform import Progress
from experiments.tests.fleets import nothing_stays
from experiments.tests.planned_fixture import small_prediction
from experiments.tests.quiet import NOBODY

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

DESIGN = ROOT / "experiments" / "tests" / "designs" / "small"
EXPERIMENT = "tst-small"


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(EXPERIMENT):
        yield


class Watched(LocalPlatform):
    """A platform that records each machine's Docker id after each apply."""

    ups: list[dict[str, str]]
    downs: int

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        inventory = super().up(tfvars, progress)
        names = [machine.name for machine in inventory.machines]
        ids = {name: docker.run("inspect", "-f", "{{.Id}}", self.container(name)) for name in names}
        self.ups.append(ids)
        return inventory

    def down(self, progress: Progress) -> list[str]:
        self.downs += 1
        return super().down(progress)


def planned(outcome: Outcome) -> None:
    """Whatever this host and the planner say of the first half, its plan is a fleet of web-1,
    web-2 and db-1."""
    result = outcome.result
    plan = {**small_prediction(), "inputs": {"run": result["run"]}}
    plan["present"] = {"usd_per_month": 40.0}
    result |= {"valid": True, "disturbed": None}
    for verdict in result["verdicts"].values():
        verdict |= {"ok": True, "reasons": []}
    result["compare"]["plan"] = plan
    write_json(outcome.folder / "result.json", result)
    write_json(outcome.folder / "plan.json", plan)


def requests_of(folder: Path, arm: str) -> pl.DataFrame:
    """The first block's requests of an arm, on the block's own clock."""
    table = pl.read_parquet(folder / "requests.parquet").filter(pl.col("arm") == arm)
    first_block = table.filter(pl.col("repeat") == table["repeat"].min()).sort("index")
    return first_block.select(
        "name", at_s=(pl.col("intended_s") - pl.col("intended_s").min()).round(3)
    )


def test_the_loop_closes_on_the_machines_that_stay_and_leaves_nothing(tmp_path: Path) -> None:
    design, platform = load_design(DESIGN), Watched(EXPERIMENT)
    platform.ups, platform.downs = [], 0
    loop = Loop(tmp_path, lambda: platform, False, ["sparecraft", "run"], NOBODY)
    closing = close(kinds.kind_of(design), design, loop, planned)
    assert closing.planned is not None, closing.why_not

    ids_before, ids_after = platform.ups
    kept_machines = {"web-1", "web-2", "db-1", "influxdb-1"}
    assert {name for name in ids_before if ids_before[name] == ids_after.get(name)} >= kept_machines
    assert "db-2" not in ids_after
    assert platform.downs == 1, "none between the halves"
    assert docker.find(EXPERIMENT) == []

    assert closing.planned.folder.parent == (tmp_path / EXPERIMENT / PLANNED_FOLDER).resolve()
    result = read_result(closing.planned.folder)
    promise = result["promise"]
    assert promise["source_run"] == closing.measured.result["run"]
    assert promise["usd_per_month"] == {"before": 40.0, "after": 30.0}
    assert result["compare"]["predicted"]["cost_usd_per_month"]["errors"] == []
    if result["valid"]:
        promise_verdicts = {"met": "kept", "missed": "broken", "undecided": "undecided"}
        assert promise["verdict"] == promise_verdicts[result["slo"]["verdict"]]
    else:
        assert promise["verdict"] == "undecided"
    assert (closing.planned.folder / "report.html").is_file()
    seeds = {
        read_manifest(outcome.folder)["seed"] for outcome in (closing.measured, closing.planned)
    }
    assert seeds == {7}
    measured_requests = requests_of(closing.measured.folder, "baseline")
    assert measured_requests.equals(requests_of(closing.planned.folder, PLANNED_ARM))
