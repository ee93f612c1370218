"""Set-up (ci/setup, ci/packages): says all that is missing, and leaves no servers running."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from experiments.paths import ROOT

NOT_THERE = 3
# Of this host's, for the scripts themselves.
_TOOLS = (
    "bash",
    "cut",
    "dirname",
    "env",
    "grep",
    "head",
    "sed",
    "sha256sum",
    "sort",
    "rm",
    "chmod",
)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder that is all of PATH: a user who is not root has nothing but the shell's tools."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in _TOOLS:
        (folder / name).symlink_to(str(shutil.which(name)))
    _program(folder, "id", "echo 1000")
    _program(folder, "apt-get", "exit 1")
    return folder


def _program(folder: Path, name: str, does: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{does}\n")
    (folder / name).chmod(0o755)


def _call(programs: Path, *command: str) -> subprocess.CompletedProcess[str]:
    own = {"PATH": str(programs), "XDG_CACHE_HOME": str(programs / "cache")}
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, check=False
    )


def test_packages_and_tools_that_are_missing_are_said_at_once(programs: Path) -> None:
    _program(programs, "go", "echo go version go1.2.3")
    done = _call(programs, "ci/setup")
    assert done.returncode == NOT_THERE, done.stderr
    words = set(done.stderr.replace(":", " ").split())
    assert {"curl", "cargo", "go", "1.2.3", "terraform"} <= words
    assert len(done.stderr.splitlines()) == 5


def test_a_boot_starts_no_server_of_tests_but_the_engine(programs: Path, tmp_path: Path) -> None:
    files = "/usr/lib/systemd/system/$2.service\n/lib/systemd/system/$2@.service\n/etc/$2"
    _program(programs, "dpkg-query", f'printf "{files}\n"')
    _program(programs, "systemctl", f'echo "$*" >>"{tmp_path}/said"')
    call = '. ci/lib.sh; start_no_server_at_boot "$@"'
    done = _call(programs, "bash", "-c", call, "bash", "influxdb", "docker.io", "redis-server")
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "said").read_text().splitlines()
    assert said == [f"disable --quiet {name}.service" for name in ("influxdb", "redis-server")]


def test_a_machine_that_cannot_be_emulated_here_says_what_is_missing(
    programs: Path, tmp_path: Path
) -> None:
    (programs / "realpath").symlink_to(str(shutil.which("realpath")))
    done = _call(programs, "ci/vm", "boot", str(tmp_path / "vm"))
    assert done.returncode == NOT_THERE, done.stderr
    assert {"qemu-system-x86_64", "qemu-img"} <= set(done.stderr.replace(";", " ").split())
    assert not (tmp_path / "vm").exists()
