"""A fleet that another Terraform configuration made: it is measured and left as it was."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.design import load_design
from experiments.paths import ROOT
from experiments.testbed.attach import attach
from experiments.testbed.fleet import connect, disconnect
from experiments.testbed.platforms.local import docker
from experiments.tests.called import sparecraft
from experiments.tests.fleets import experiment_toml, nothing_stays

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

NAME = "tst-attach"
SPEC = f"""
experiment = "{NAME}"
scheme     = "on-prem"
tiers = {{
  web = {{
    role = "apache", nodes = 2, cpus = 0.2, memory_mb = 128, nic_mbps = 100, disk_mbps = 50
  }}
}}
arbiters = {{
  web = {{ tokens = 16 }}
}}
"""
PLACE = """
data_cidr     = "198.18.160.0/20"
control_cidr  = "198.19.160.0/20"
entry_port    = 18290
influxdb_port = 18296
"""
ROOT_MODULE = f"""
terraform {{
  required_providers {{
    fleet = {{ source = "sparecraft/fleet" }}
  }}
}}
module "fleet" {{
  source = "{ROOT}/infra/modules/fleet"
  count  = 1

  checkout = "{ROOT}"  # agents and roles: the module itself is copied
  {SPEC}
  {PLACE}
}}
output "fleet" {{
  value = module.fleet[0].fleet
}}
output "identity" {{
  value     = module.fleet[0].identity
  sensitive = true
}}
"""


def terraform(folder: Path, *arguments: str) -> int:
    command = ["terraform", f"-chdir={folder}", *arguments, "-input=false"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode


@pytest.fixture
def applied(tmp_path: Path) -> Iterator[Path]:
    """The folder of a configuration that was applied, with nothing of ours beside the module."""
    with nothing_stays(NAME):
        (tmp_path / "main.tf").write_text(ROOT_MODULE)
        assert terraform(tmp_path, "init") == 0
        assert terraform(tmp_path, "apply", "-auto-approve") == 0
        yield tmp_path
        assert terraform(tmp_path, "destroy", "-auto-approve") == 0
        assert docker.find(NAME) == []


def test_an_applied_fleet_is_measured_left_as_it_was_and_missed_when_it_is_gone(
    applied: Path,
) -> None:
    shop = applied / "shop"
    shop.mkdir()
    (shop / "fleet.tfvars").write_text(SPEC)
    (shop / "experiment.toml").write_text(
        experiment_toml(8, '[arms.replicated.settings]\nweb = { policy = "tad", replicas = 2 }')
    )
    run = ("run", str(shop), "--attach", str(applied), "--results", str(applied / "results"))

    process = sparecraft(*run, "--json")
    result = json.loads(process.stdout)
    assert result["experiment"] == NAME, result
    assert result["compare"]["arms"]["replicated"]["ok"] > 0
    assert result["compare"]["faults"]["injected"] > 0
    assert all(result["verdicts"][name]["ok"] for name in ("injection", "revert", "cleanup"))

    fleet = connect(platform := attach(str(applied), load_design(str(shop))), platform.inventory())
    try:
        config = fleet.arbiters["web"].config()
    finally:
        disconnect(fleet)
    assert (config["policy"], config["replicas"]) == ("round-robin", 1)  # as the module makes it
    assert terraform(applied, "plan", "-detailed-exitcode") == 0  # no drift

    docker.run("kill", f"sc-{NAME}-web-2")
    second_process = sparecraft(*run, "--json")
    error = json.loads(second_process.stdout)["error"]
    assert (error["exit_code"], error["got"]) == (3, "web-2 exited")
