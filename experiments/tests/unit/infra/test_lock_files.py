"""Lock files of Terraform that are committed: of what is downloaded from a registry."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from experiments.paths import ROOT

STACK, ACCOUNT = ROOT / "infra" / "stacks" / "ec2", ROOT / "infra" / "account"
AWS, FLEET = "hashicorp/aws", "sparecraft/fleet"
PLATFORMS_MIN = 14  # that a release of hashicorp/aws has packages for


def _locked(folder: Path) -> dict[str, str]:
    """Provider to its block."""
    text = (folder / ".terraform.lock.hcl").read_text()
    block = re.compile(r'^provider "registry\.terraform\.io/(\S+)" \{$(.*?)^\}$', re.M | re.S)
    return dict(block.findall(text))


def _pinned(file: Path) -> dict[str, str]:
    pin = re.compile(r'source\s*= "(\S+)"\s*version\s*= "(\S+)"')
    return dict(pin.findall(file.read_text()))


@pytest.mark.parametrize("folder", [STACK, ACCOUNT])
def test_a_lock_file_is_under_version_control(folder: Path) -> None:
    listed = ["git", "-C", str(folder), "ls-files", "--error-unmatch", ".terraform.lock.hcl"]
    assert subprocess.run(listed, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("file", [STACK / "versions.tf", ACCOUNT / "main.tf"])
def test_each_provider_is_locked_in_the_version_that_is_pinned(file: Path) -> None:
    locked = _locked(file.parent)
    assert {
        name: re.findall(r'^  (?:version|constraints)\s*= "(\S+)"$', block, re.M)
        for name, block in locked.items()
    } == {name: [version, version] for name, version in _pinned(file).items()}


def test_packages_of_aws_are_locked_by_their_checksums_and_alike_in_both() -> None:
    locked = _locked(STACK)[AWS]
    assert locked == _locked(ACCOUNT)[AWS]
    for scheme, text in (("zh", r"[0-9a-f]{64}"), ("h1", r"[A-Za-z0-9+/]{43}=")):
        assert len(set(re.findall(rf'^    "{scheme}:{text}",$', locked, re.M))) >= PLATFORMS_MIN


def test_our_own_provider_which_is_built_here_has_no_checksum() -> None:
    assert "hashes" not in _locked(STACK)[FLEET]
