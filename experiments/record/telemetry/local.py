"""Debian's InfluxDB on loopback, with a folder of its own, for runs that are over."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

from core.errors import EnvironmentMissing

START_S = 120.0
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


class LocalInflux:
    """One server; its port is chosen at the first start and stays. Its starter must end it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._address = "127.0.0.1:0"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self._address}"

    def start(self) -> None:
        """Start it, unless it runs, and wait until it listens. Raises EnvironmentMissing."""
        if self._process is not None:
            return
        program = shutil.which("influxd")
        if program is None:
            raise self._missing("no such program")
        config, log = self._directory / "influxdb.conf", self._directory / "influxd.log"
        config.write_text(_CONFIG.format(directory=self._directory, address=self._address))
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [program, "run", "-config", str(config)],
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is the command's, which ends it
            )
        give_up = time.monotonic() + START_S
        while not (match := _LISTENS.search(log.read_text())):
            if self._process.poll() is not None or time.monotonic() > give_up:
                self.kill()
                raise self._missing(log.read_text()[-500:] or "nothing in its log")
            time.sleep(0.02)
        self._address = match.group(1)

    def kill(self) -> None:
        """End it by SIGKILL, as a crash does; its data are on disk."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _missing(self, got: str) -> EnvironmentMissing:
        return EnvironmentMissing(
            "influxd",
            expected="InfluxDB 1.x that starts on this host",
            got=got,
            hint="Install it (Debian: `apt install influxdb`), or name one with --influxdb URL.",
        )
