"""The process that undoes the machine faults of a run that has ended.

It holds the other end of a pipe of the run, which the kernel closes at the run's end, also by a
kill. No machine fault is injected before it reports that it is ready. If it ends during the run,
the run ends too, because nothing would undo the faults of a killed run.

`program("experiments.testbed.platforms.watchdog", PLATFORM, EXPERIMENT, JOURNAL, PID_OF_THE_RUN)`
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from core.errors import EnvironmentMissing, as_reason
from experiments.program import program
from experiments.testbed import runs

LOG = "watchdog.log"
_READY = b"ready\n"
_READY_S = 60.0  # it imports the platform, on a host that may be busy
_TRY_FOR_S, _PAUSE_S = 300.0, 2.0  # an engine is busy, a controller of power restarts
_LOG_TAIL_MAX = 500  # characters of its log


class Watchdog:
    """A watchdog process that is ready, and whose end is noticed."""

    def __init__(self, platform: str, experiment: str, folder: Path) -> None:
        """Raises EnvironmentMissing with the end of its log if it does not become ready."""
        self._log = folder / LOG
        self._ended = threading.Event()
        self.pid, ready = self._start(platform, experiment, folder)
        try:
            self._await(ready)
        finally:
            os.close(ready)
        watcher = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        watcher.start()

    @property
    def lives(self) -> bool:
        """True until its end is noticed."""
        return not self._ended.is_set()

    def _start(self, platform: str, experiment: str, folder: Path) -> tuple[int, int]:
        """Start the watchdog, and return its process id and a pipe that tells when it is ready.

        It has its own session, so interrupts of the run do not reach it. The pipe's own end is
        never closed: the kernel closes it at the end of this process.
        """
        command = program(__name__, platform, experiment, str(folder), str(os.getpid()))
        life_end, _ = os.pipe()
        ready, ready_end = os.pipe()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        try:
            pid = os.posix_spawn(
                command[0],
                command,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, life_end, 0),
                    (os.POSIX_SPAWN_DUP2, ready_end, 1),
                    (os.POSIX_SPAWN_OPEN, 2, str(self._log), flags, 0o600),
                ],
                setsid=True,
            )
        finally:
            os.close(life_end)
            os.close(ready_end)
        return pid, ready

    def _await(self, ready: int) -> None:
        poller = select.poll()
        poller.register(ready, select.POLLIN)
        if poller.poll(_READY_S * 1e3) and os.read(ready, len(_READY)) == _READY:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise EnvironmentMissing(
            "watchdog of machine faults",
            expected=f"to be ready within {_READY_S:g} s",
            got=self._log_tail() or "no word",
            hint=f"See {self._log}. Without it a killed run would leave machines crashed or "
            f"frozen.",
        )

    def _watch(self) -> None:
        """Wait for its end; if the run is still active then, the run ends too."""
        _, status = os.waitpid(self.pid, 0)
        self._ended.set()
        code = os.waitstatus_to_exitcode(status)
        reason = f"the watchdog of machine faults ended with code {code}: {self._log_tail()}"
        runs.halt_this(reason.rstrip(": "))

    def _log_tail(self) -> str:
        try:
            return self._log.read_text(errors="replace").strip()[-_LOG_TAIL_MAX:]
        except FileNotFoundError:
            return ""


def main() -> None:
    """Wait for the end of the run that started this, and undo the faults that it left."""
    from experiments.testbed.platforms import entry
    from experiments.testbed.platforms.journal import MachineJournal, Undoes

    name, experiment, folder, run = sys.argv[1:]
    # A signal to a whole session or service ends the run in an orderly way, and this one after it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which commands would inherit
    platform = entry(name).for_run(experiment)
    assert isinstance(platform, Undoes)
    with suppress(BrokenPipeError):  # the run has ended already
        os.write(1, _READY)
    os.dup2(2, 1)
    while os.read(0, 1):
        pass
    journal = MachineJournal(name, experiment, Path(folder))
    deadline = time.monotonic() + _TRY_FOR_S
    while time.monotonic() < deadline:
        try:
            journal.undo_ended(platform.undo)
        except Exception as error:  # whatever it is: it may pass
            print(as_reason(error), file=sys.stderr, flush=True)
        if not any(note.pid == int(run) for note in journal.notes()):
            return
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
