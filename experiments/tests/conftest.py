"""Fixtures that several tests of experiments/ use."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest

from experiments.paths import ROOT
from experiments.testbed import runs
from experiments.tests.aws import led_to, moto_server, reset
from experiments.tests.disks import mounted


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    with mounted(tmp_path / "small") as directory:
        yield directory


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what machines are made of, packed once; a copy, for tests of another job pack
    theirs anew."""
    subprocess.run([ROOT / "ci" / "bundle"], check=True, capture_output=True)
    folder = tmp_path_factory.mktemp("bundle") / "bundle"
    return Path(shutil.copytree(ROOT / "build" / "bundle", folder))


@pytest.fixture(scope="session", autouse=True)
def runs_of_this_session() -> Iterator[None]:
    """Runs of a suite beside this one hinder none of this one's: it has a registry of its own."""
    with (
        TemporaryDirectory(prefix="sc-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        Path(folder).chmod(0o1777)  # programs of other users keep their files there too
        patch.setattr(runs, "FOLDER", Path(folder) / f"sparecraft-{os.getuid()}")
        patch.setenv("TMPDIR", folder)
        yield


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Modules of infra/boot by name, as they are imported on a host."""
    monkeypatch.syspath_prepend(str(ROOT / "infra" / "boot"))
    return importlib.import_module


@pytest.fixture
def own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give `halt`, also in processes of the test, a registry without other runs of this host."""
    folder = tmp_path / f"sparecraft-{os.getuid()}"
    monkeypatch.setattr(runs, "FOLDER", folder)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return folder


@pytest.fixture(scope="session")
def moto_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A moto server for all tests of one session; `aws_account` empties it."""
    with moto_server(tmp_path_factory.mktemp("moto") / "moto.log") as url:
        yield url


@pytest.fixture
def aws_account(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty account at moto, with environment variables that lead boto3 there; its URL."""
    led_to(moto_url, monkeypatch)
    reset(moto_url)
    return moto_url
