"""The real Terraform: a committed lock file stays unchanged, other providers are refused, outputs
are read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.paths import ROOT
from experiments.testbed import attach
from experiments.testbed.attach import read_outputs
from experiments.testbed.platforms.terraform import Stack, outputs
from experiments.tests.applied_fleet import IDENTITY, fleet
from experiments.tests.ec2_stack import PROVIDERS, copy_of_stack

_MODULE = """
terraform {
  required_providers {
    fleet = {
      source  = "sparecraft/fleet"
      version = "0.1.0"
    }
  }
}
provider "fleet" { docker = false }
"""
_LOCK = """
provider "registry.terraform.io/sparecraft/fleet" {
  version     = "0.1.0"
  constraints = "0.1.0"
}
"""


def _applied(folder: Path) -> str:
    """The lock file after an apply."""
    (folder / "main.tf").write_text(_MODULE)
    (folder / "fleet.tfvars").touch()
    Stack(folder, "wiki").apply(folder / "fleet.tfvars", lambda _line: None)
    return (folder / ".terraform.lock.hcl").read_text()


def test_a_committed_lock_file_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / ".terraform.lock.hcl").write_text(_LOCK)
    assert _applied(tmp_path) == _LOCK


def test_a_lock_file_that_is_not_committed_pins_the_provider_built(tmp_path: Path) -> None:
    assert '"h1:' in _applied(tmp_path)


@pytest.mark.long
def test_an_aws_provider_that_is_not_the_registry_s_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PROVIDERS.exists(), f"expected {PROVIDERS}: run ci/aws-provider"
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(PROVIDERS))
    stack = copy_of_stack(tmp_path, tmp_path)
    lock = stack / ".terraform.lock.hcl"
    shutil.copyfile(ROOT / "infra" / "stacks" / "ec2" / lock.name, lock)
    with pytest.raises(EnvironmentMissing) as refused:
        Stack(stack, "wiki").plan(tmp_path / "none.tfvars", {})
    assert refused.value.place.startswith("terraform init")
    lock.unlink()
    init = ["terraform", f"-chdir={stack}", "init", "-input=false", "-backend=false"]
    subprocess.run(init, check=True, capture_output=True)
    command = ["terraform", f"-chdir={stack}", "version", "-json"]
    versions = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert "registry.terraform.io/hashicorp/aws" in versions["provider_selections"]


WORKSPACE = "another"


@pytest.fixture
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose workspace WORKSPACE was applied, and which selects the default one."""
    monkeypatch.delenv("TF_WORKSPACE", raising=False)
    values = {"fleet": fleet(), "identity": IDENTITY}
    output_values = {name: {"value": value, "sensitive": True} for name, value in values.items()}
    (tmp_path / "main.tf.json").write_text(json.dumps({"output": output_values}))
    for arguments in (["init"], ["workspace", "new", WORKSPACE], ["apply", "-auto-approve"]):
        command = ["terraform", f"-chdir={tmp_path}", *arguments]
        subprocess.run(command, check=True, capture_output=True, env=os.environ)
    selected = ["terraform", f"-chdir={tmp_path}", "workspace", "select", "default"]
    subprocess.run(selected, check=True, capture_output=True)
    return tmp_path


def test_a_workspace_is_read_by_name_and_a_folder_in_the_one_that_is_selected(
    applied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "_local_stack", lambda: applied)
    assert read_outputs(WORKSPACE).identity.influxdb_login == IDENTITY["influxdb_login"]
    with pytest.raises(InputError) as caught:  # nothing was applied in the default one
        read_outputs(str(applied))
    assert caught.value.place == f"--attach {applied}: fleet"
    monkeypatch.setenv("TF_WORKSPACE", WORKSPACE)
    assert read_outputs(str(applied)).fleet.experiment == "mediawiki-noisy"


def test_what_terraform_says_against_a_folder_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text("output {")
    with pytest.raises(EnvironmentMissing) as caught:
        outputs(tmp_path, None)
    assert "main.tf" in caught.value.got
