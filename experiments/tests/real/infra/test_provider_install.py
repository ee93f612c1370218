"""The provider's installation, from two checkouts of one user."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from experiments.paths import ROOT

LOCK = "infra/stacks/local/.terraform.lock.hcl"
STALE = """provider "registry.terraform.io/sparecraft/fleet" {
  version     = "0.1.0"
  constraints = "0.1.0"
  hashes = [
    "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
  ]
}
"""


def _checkout(folder: Path) -> Path:
    ignore = shutil.ignore_patterns(".terraform*", "terraform.tfstate*", "*.tfvars")
    for name in ("provider", "stacks/local", "stacks/shared", "modules/fleet"):
        target = folder / "infra" / name
        shutil.copytree(ROOT / "infra" / name, target, ignore=ignore, symlinks=True)
    return folder


def _go(name: str) -> str:
    return subprocess.check_output(["go", "env", name], text=True).strip()


def test_a_checkout_can_be_initialised_after_another_one_installed_a_new_provider(
    tmp_path: Path,
) -> None:
    if shutil.which("go") is None:
        pytest.skip("no Go")
    caches = {name: _go(name) for name in ("GOCACHE", "GOMODCACHE", "GOPATH")}
    environment = {**os.environ, **caches, "HOME": str(tmp_path / "home")}
    environment.pop("TF_CLI_CONFIG_FILE", None)

    def call(*command: str, cwd: Path) -> None:
        subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True)

    first, second = _checkout(tmp_path / "first"), _checkout(tmp_path / "second")
    (second / LOCK).write_text(STALE)  # hashes of an older provider
    call("infra/provider/install", cwd=first)
    call("infra/provider/install", cwd=second)
    assert "AAAA" not in (second / LOCK).read_text()
    call("terraform", "-chdir=infra/stacks/local", "init", "-input=false", cwd=second)
