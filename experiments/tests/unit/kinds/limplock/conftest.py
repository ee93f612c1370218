"""A client of rows that is a few lines of Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.kinds.limplock.clients.process import Clients
from experiments.tests.limplock_small import PROGRAM


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    found = Clients([sys.executable, "-c", PROGRAM], tmp_path / "log")
    yield found
    found.close()
