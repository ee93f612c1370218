"""Load workers as processes of this machine, for one block."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_LEAVE_S = 3.0
_TERM_S = 3.0


def without_locust() -> dict[str, str]:
    """The environment without what would change Locust's options."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")}


class LocalWorkers:
    """Started when the master listens, ended with the block; use it from one thread."""

    def __init__(self, count: int, stem: Path, connect_timeout_s: float) -> None:
        self._count = count
        self._connect_timeout_s = connect_timeout_s
        self.log_paths = [stem.with_suffix(f".worker-{number}.log") for number in range(count)]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> list[int]:
        """The workers' process ids, in the order of their logs."""
        return [process.pid for process in self._processes]

    def start(self, port: int) -> None:
        """Let them connect to the master on this port of loopback."""
        for path in self.log_paths:
            with path.open("wb") as log:
                self._processes.append(
                    subprocess.Popen(
                        self._command(port),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        env=without_locust(),
                    )
                )

    def stop(self, *, leaving: bool) -> None:
        """End them: those of a master that has ended leave by themselves, for a moment."""
        if leaving:
            self._wait(_LEAVE_S)
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        self._wait(_TERM_S)
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _wait(self, limit_s: float) -> None:
        end_s = time.monotonic() + limit_s
        for process in self._processes:
            try:
                process.wait(max(0.0, end_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                return

    def _command(self, port: int) -> Sequence[str]:
        return [
            *(sys.executable, "-m", "experiments.load.worker"),
            *("--master", "127.0.0.1", "--port", str(port)),
            *("--connect-timeout", str(self._connect_timeout_s)),
        ]
