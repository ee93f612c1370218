"""A client for rows: a few lines of Python stand in for the real program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.kinds.limplock.clients.process import Clients
from experiments.tests.limplock_small import PROGRAM


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    row_clients = Clients([sys.executable, "-c", PROGRAM], tmp_path / "log")
    yield row_clients
    row_clients.close()
