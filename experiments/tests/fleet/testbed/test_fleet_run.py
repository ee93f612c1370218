"""`terraform apply` of an experiment with the real command: no fleet stays, the results do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.paths import ROOT
from experiments.testbed.platforms.local import docker
from experiments.tests.called import command_in
from experiments.tests.fleets import experiment_toml, nothing_stays
from experiments.tests.started import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

NAME = "tst-apply"
FLEET = f"""
experiment = "{NAME}"
scheme     = "on-prem"
tiers = {{
  web = {{
    role = "apache", nodes = 1, cpus = 0.2, memory_mb = 128, nic_mbps = 100, disk_mbps = 50
  }}
}}
"""


class Applied:
    """A Terraform configuration with one experiment, in a folder of its own."""

    def __init__(self, folder: Path, measure_s: int) -> None:
        self.folder = folder
        design = folder / "shop"
        design.mkdir(exist_ok=True)
        (design / "fleet.tfvars").write_text(FLEET)
        (design / "experiment.toml").write_text(experiment_toml(measure_s, "[arms.baseline]"))
        command = command_in(folder)
        module = os.path.relpath(ROOT / "infra" / "modules" / "experiment", folder.resolve())
        (folder / "main.tf").write_text(
            f'module "experiment" {{\n  source   = "{module}"\n'
            f'  design   = "shop"\n  command  = "{command}"\n}}\n'
            f'output "found" {{\n  value = module.experiment\n}}\n'
        )
        assert self.terraform("init").wait() == 0

    def terraform(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start it in a process group of its own, as a terminal does."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            ["terraform", *arguments, "-input=false"], cwd=self.folder, env=environment,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def apply(self) -> subprocess.Popen[bytes]:
        return self.terraform("apply", "-auto-approve")

    def show(self) -> dict[str, Any]:
        """The state's only resource."""
        command = ["terraform", "show", "-json"]
        output = subprocess.run(command, cwd=self.folder, capture_output=True, check=True).stdout
        (module,) = json.loads(output)["values"]["root_module"]["child_modules"]
        (resource,) = module["resources"]
        return dict(resource)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with nothing_stays(NAME):
        yield tmp_path


def test_an_apply_measures_leaves_no_fleet_and_its_results_outlive_it(folder: Path) -> None:
    applied = Applied(folder, measure_s=8)
    assert applied.apply().wait() == 0
    assert docker.find(NAME) == []
    resource = applied.show()
    assert not resource.get("tainted")
    assert resource["values"]["verdict"] in ("met", "missed", "undecided", "disturbed", "not valid")
    assert resource["values"]["p95_ms"] > 0
    report = Path(resource["values"]["report"])
    assert applied.terraform("plan", "-detailed-exitcode").wait() == 0
    assert applied.terraform("destroy", "-auto-approve").wait() == 0
    assert report.is_file()


def test_an_interrupted_apply_leaves_nothing_running_and_says_so(folder: Path) -> None:
    applied = Applied(folder, measure_s=600)
    apply = applied.apply()
    until("an injected fault", lambda: _injected(folder / "results"))
    os.killpg(apply.pid, signal.SIGINT)
    assert apply.wait() != 0
    assert docker.find(NAME) == []
    resource = applied.show()
    assert (resource["tainted"], resource["values"]["verdict"]) == (True, "interrupted")
    events = (Path(resource["values"]["folder"]) / "events.jsonl").read_text()
    assert events.count('"inject"') == events.count('"revert"') > 0


def _injected(results: Path) -> bool:
    return any('"inject"' in file.read_text() for file in results.glob("*/2*/events.jsonl"))
