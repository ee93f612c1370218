"""A real InfluxDB on loopback for the tests: its own directories and port, ended by its pid."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

DATABASE = "sparecraft"
_CONFIG = """
reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
  dir = "{directory}/meta"
[data]
  dir = "{directory}/data"
  wal-dir = "{directory}/wal"
[http]
  bind-address = "127.0.0.1:0"
  log-enabled = false
[monitor]
  store-enabled = false
"""
_ADDRESS = re.compile(r"Listening on HTTP.*addr=(127\.0\.0\.1:\d+)")
_START_LIMIT_S = 60.0
_BATCH_LINES = 5000


@contextmanager
def influxd(directory: Path) -> Iterator[str]:
    """The URL of a fresh InfluxDB with the database made; it ends with the block."""
    config, log = directory / "influxdb.conf", directory / "influxd.log"
    config.write_text(_CONFIG.format(directory=directory))
    with log.open("w") as output:
        process = subprocess.Popen(
            ["/usr/bin/influxd", "run", "-config", str(config)], stdout=output, stderr=output
        )
    try:
        url = f"http://{_address(process, log)}"
        made = httpx.post(f"{url}/query", params={"q": f"CREATE DATABASE {DATABASE}"})
        made.raise_for_status()
        yield url
    finally:
        process.terminate()
        process.wait(timeout=_START_LIMIT_S)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address it chose, once it listens there; polls the log, as nothing tells otherwise."""
    give_up = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < give_up and process.poll() is None:
        if found := _ADDRESS.search(log.read_text()):
            return found.group(1)
        time.sleep(0.05)
    raise RuntimeError(f"expected influxd to listen, got exit {process.poll()}:\n{log.read_text()}")


def write(url: str, lines: list[str], database: str = DATABASE) -> None:
    """Writes line protocol with ns times; raises on the first line that InfluxDB refuses."""
    for start in range(0, len(lines), _BATCH_LINES):
        batch = "\n".join(lines[start : start + _BATCH_LINES])
        answer = httpx.post(
            f"{url}/write", params={"db": database}, content=batch.encode(), timeout=30.0
        )
        if answer.status_code != 204:
            raise RuntimeError(f"expected 204 from /write, got {answer.status_code}: {answer.text}")
