"""A real InfluxDB on loopback for the tests: its own directories and port, ended by its pid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from experiments.tests.influxdb import Influx

_BATCH_LINES = 5000


@contextmanager
def influxd(directory: Path) -> Iterator[str]:
    """The URL of a fresh InfluxDB; it ends with the block."""
    server = Influx(directory)
    try:
        server.start()
        yield server.url
    finally:
        server.kill()


def write(url: str, lines: list[str], database: str) -> None:
    """Writes line protocol with ns times into a database, which is made; raises on the first line
    that InfluxDB refuses."""
    made = httpx.post(f"{url}/query", params={"q": f"CREATE DATABASE {database}"})
    made.raise_for_status()
    for start in range(0, len(lines), _BATCH_LINES):
        batch = "\n".join(lines[start : start + _BATCH_LINES])
        answer = httpx.post(
            f"{url}/write", params={"db": database}, content=batch.encode(), timeout=30.0
        )
        if answer.status_code != 204:
            raise RuntimeError(f"expected 204 from /write, got {answer.status_code}: {answer.text}")
