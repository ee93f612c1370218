"""One synthetic run for the whole session: it takes seconds to draw."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.tests.synthetic import Truth, write_run


@pytest.fixture(scope="session")
def truth() -> Truth:
    return Truth()


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory, truth: Truth) -> Path:
    return write_run(tmp_path_factory.mktemp("results") / "run", truth)
