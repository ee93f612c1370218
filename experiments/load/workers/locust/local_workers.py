"""Load workers as processes of this machine, for one block of their master's."""

from __future__ import annotations

import subprocess
import time

from experiments.program import program

_LEAVE_S = 3.0


class LocalWorkers:
    """Processes that start when the master listens and end with it, in its process group."""

    def __init__(self, count: int, port: int, connect_timeout_s: float) -> None:
        command = program(
            "experiments.load.workers.locust.worker",
            *("--master", "127.0.0.1", "--port", str(port)),
            *("--connect-timeout", str(connect_timeout_s)),
        )
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(count)
        ]

    def exit_codes(self) -> list[int]:
        """Return the exit codes of the workers that have ended."""
        return [code for process in self._processes if (code := process.poll()) is not None]

    def stop(self) -> None:
        """Wait shortly for the end of the workers, which leave an ended master; then kill them."""
        end_s = time.monotonic() + _LEAVE_S
        for process in self._processes:
            try:
                process.wait(max(0.0, end_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
