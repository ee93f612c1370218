"""A real InfluxDB on loopback that a test may kill and start again with its data."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import httpx

_CONFIG = """
reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
  dir = "{directory}/meta"
[data]
  dir = "{directory}/data"
  wal-dir = "{directory}/wal"
[http]
  bind-address = "{address}"
  log-enabled = false
[monitor]
  store-enabled = false
"""
_LISTENS = re.compile(r"Listening on HTTP.*addr=(127\.0\.0\.1:\d+)")
_START_LIMIT_S = 60.0


class Influx:
    """One server; its port is chosen at the first start and kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._address = "127.0.0.1:0"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self._address}"

    def start(self) -> None:
        """Start it and wait until it listens."""
        config, log = self._directory / "influxdb.conf", self._directory / "influxd.log"
        config.write_text(_CONFIG.format(directory=self._directory, address=self._address))
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                ["influxd", "run", "-config", str(config)], stdout=output, stderr=output
            )
        give_up = time.monotonic() + _START_LIMIT_S
        while not (found := _LISTENS.search(log.read_text())):
            if time.monotonic() > give_up or self._process.poll() is not None:
                raise RuntimeError(f"expected influxd to listen, came:\n{log.read_text()}")
            time.sleep(0.02)
        self._address = found.group(1)

    def create_database(self, name: str = "sparecraft") -> None:
        """As the role's start script does."""
        answer = httpx.post(f"{self.url}/query", params={"q": f'CREATE DATABASE "{name}"'})
        answer.raise_for_status()

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """SIGSTOP: it takes connections and answers none."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)
