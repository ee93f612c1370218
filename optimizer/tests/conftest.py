"""One synthetic run for the whole session: it takes seconds to draw."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from optimizer.plan import planner
from optimizer.tests.synthetic import Truth, write_run


@pytest.fixture(scope="session")
def truth() -> Truth:
    return Truth()


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory, truth: Truth) -> Path:
    return write_run(tmp_path_factory.mktemp("results") / "run", truth)


@pytest.fixture
def run(run_dir: Path, tmp_path: Path) -> Path:
    """Copy the synthetic run, for a test that changes it."""
    return Path(shutil.copytree(run_dir, tmp_path / "run"))


@pytest.fixture
def unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans do not say what binds them, which takes most of their time: test_explain.py claims
    that."""
    monkeypatch.setattr(planner, "binding_of", lambda *_: ())
