"""Once a week a host is restarted (`make test-boot`): what calls it, and that none skips it."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from experiments.paths import ROOT

NIGHTLY = ROOT / "ci" / "nightly"
NOT_THERE = 3


def _unit(name: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((NIGHTLY / name).read_text())
    return unit


def test_the_timer_calls_it_each_sunday_and_never_beside_a_night() -> None:
    timer, service = _unit("sparecraft-weekly.timer"), _unit("sparecraft-weekly.service")
    assert timer["Timer"]["OnCalendar"] == "Sun *-*-* 12:00"
    assert timer["Install"]["WantedBy"] == "timers.target"
    assert service["Service"]["ExecStart"] == "/usr/bin/make test-boot"
    assert "sparecraft-nightly.service" in service["Unit"]["After"].split()


def test_the_workflow_calls_it_on_one_day_a_week() -> None:
    text = (ROOT / ".github" / "workflows" / "weekly.yml").read_text()
    (cron,) = re.findall(r'- cron: "(.*)"', text)
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", cron)
    assert "make test-boot" in text


def test_its_target_runs_the_test_of_a_host_that_boots() -> None:
    make = ["make", "--no-print-directory", "--dry-run", "test-boot"]
    said = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "ci/test boot"
    (ran,) = re.findall(r"pytest -q (\S+test_hosts_vm\.py)", (ROOT / "ci" / "test").read_text())
    assert (ROOT / ran).exists()


@pytest.mark.parametrize("verb", [("build",), ("boot", "vm")])
def test_where_a_program_is_missing_it_fails_and_names_all(
    verb: tuple[str, ...], tmp_path: Path
) -> None:
    """Also where a disk is kept: the test, which would be skipped, is not come to."""
    for name in ("bash", "dirname", "env", "sha256sum", "cut", "realpath", "id"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    own = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        ["bash", str(ROOT / "ci" / "vm"), *verb],
        cwd=tmp_path,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == NOT_THERE
    assert {"qemu-img", "mmdebstrap", "ssh-keygen"} <= set(re.split(r"[\s;]+", done.stderr))
