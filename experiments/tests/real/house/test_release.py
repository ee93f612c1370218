"""The wheel, installed in an environment of its own and used in an empty folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from experiments.paths import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
RELEASE = ROOT / "build" / "release"


@pytest.fixture(scope="module")
def wheel() -> Path:
    subprocess.run([ROOT / "ci" / "release", "wheel"], check=True, cwd=ROOT)
    return next(RELEASE.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("wheel") / "venv"
    uv = shutil.which("uv", path=f"{os.environ['PATH']}:{Path.home()}/.cache/sparecraft/tools/bin")
    assert uv is not None
    subprocess.run([uv, "venv", "-q", "--python", "3.11", venv], check=True)
    python = venv / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, wheel], check=True)
    return venv / "bin" / "sparecraft"


def called(command: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder outside the checkout, without the checkout's programs."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(
        [command, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_wheel_adds_one_name_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"sparecraft"}
    assert not [name for name in names if "/tests/" in name]


@pytest.mark.parametrize(
    "words",
    [
        "availability --help",
        "integrity --help",
        "limplock --help",
        "prices",
        "glossary arm",
        "check mediawiki-noisy",
        "list",
        "run mediawiki-noisy --dry-run",
    ],
)
def test_commands_that_need_no_programs_work(installed: Path, tmp_path: Path, words: str) -> None:
    process = called(installed, tmp_path, *words.split())
    assert process.returncode == 0, process.stdout + process.stderr


def test_a_new_design_is_checked_and_a_plan_is_made(installed: Path, tmp_path: Path) -> None:
    assert called(installed, tmp_path, "init", "my-shop").returncode == 0
    assert called(installed, tmp_path, "check", "my-shop").returncode == 0
    example = next(installed.parents[1].glob("lib/*/site-packages/sparecraft/rooms"))
    plan = example / "optimizer" / "plan" / "example.toml"
    process = called(installed, tmp_path, "plan", "--input", str(plan), "--json")
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)


def test_the_papers_tables_are_reproduced(installed: Path, tmp_path: Path) -> None:
    process = called(installed, tmp_path, "reproduce", "pcraft")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "51 of 51" in process.stdout


@pytest.mark.parametrize("words", ["run mediawiki-noisy", "up mediawiki-noisy"])
def test_making_a_fleet_needs_a_checkout_and_says_so(
    installed: Path, tmp_path: Path, words: str
) -> None:
    process = called(installed, tmp_path, *words.split())
    assert process.returncode == 3
    assert "an installed wheel" in " ".join((process.stdout + process.stderr).split())
