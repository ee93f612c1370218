"""A real InfluxDB on loopback that a test may kill and start again with its data."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from experiments.record.telemetry.local import LocalInflux
from experiments.tests.started import free_port


class Influx(LocalInflux):
    """One server, and what may happen to it; its port is nobody else's while it is down."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._address = f"127.0.0.1:{free_port()}"

    def create_database(self) -> None:
        """Make an empty database, as the role's start script does."""
        anew = "DROP DATABASE sparecraft; CREATE DATABASE sparecraft"
        answer = httpx.post(f"{self.url}/query", params={"q": anew}, timeout=60.0)
        answer.raise_for_status()

    def freeze(self) -> None:
        """SIGSTOP: it takes connections and answers none."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


@contextmanager
def influxd(directory: Path) -> Iterator[Influx]:
    """A fresh server, which ends with the block."""
    server = Influx(directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def influx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influx]:
    with influxd(tmp_path_factory.mktemp("influx")) as server:
        yield server
