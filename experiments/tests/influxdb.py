"""A real InfluxDB on loopback that a test may kill and start again with its data."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import httpx

from experiments.tests.started import told

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
_LISTENS = r"Listening on HTTP.*addr=(127\.0\.0\.1:\d+)"


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
        """Start it, unless it runs, and wait until it listens."""
        if self._process is not None:
            return
        config, log = self._directory / "influxdb.conf", self._directory / "influxd.log"
        config.write_text(_CONFIG.format(directory=self._directory, address=self._address))
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                ["influxd", "run", "-config", str(config)], stdout=output, stderr=output
            )
        self._address = told(self._process, log, _LISTENS)

    def create_database(self) -> None:
        """As the role's start script does, and an empty one."""
        anew = "DROP DATABASE sparecraft; CREATE DATABASE sparecraft"
        answer = httpx.post(f"{self.url}/query", params={"q": anew}, timeout=60.0)
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
