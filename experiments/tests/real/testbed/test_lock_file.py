"""Terraform's lock file: a committed one stays unchanged, and other providers are refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing
from experiments.paths import ROOT
from experiments.testbed.platforms.terraform import Stack
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
