"""The current runs and nights of this host, so that another terminal can halt them, and so that no
two disturb each other, whatever their results folders.

A run holds a lock on its own file while it lives. The kernel releases it at any end of the run, so
a file without a lock belongs to a run that has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from core.errors import EnvironmentMissing

FOLDER = Path(tempfile.gettempdir()) / f"sparecraft-{os.getuid()}"  # of this user's runs


@dataclass(frozen=True)
class Active:
    """A run that goes on, or a night of runs, whose `folder` is that of all results. A run whose
    load is sent `elsewhere`, by a machine on EC2, uses nothing of this host."""

    pid: int
    experiment: str
    design: str
    folder: str
    started: str
    is_night: bool = False
    elsewhere: bool = False

    @property
    def words(self) -> str:
        """Name of the run or night, as `sparecraft halt` takes it."""
        return f"night of {self.design}" if self.is_night else f"run of {self.experiment}"


@dataclass(frozen=True)
class Halt:
    """A request to stop a run: by `sparecraft halt` or by the watchdog's end, why and when."""

    reason: str
    at: datetime
    by: str


@contextmanager
def registered(run: Active) -> Iterator[Path]:
    """Register the run: until the end of the `with` others find it, and no run that it would
    disturb can begin. Yields the file for `read_halt`.

    Raises EnvironmentMissing at once, with the holder's process id, while another run goes on. A
    night's runs are its children, and may begin.
    """
    folder = _check_owner(FOLDER)
    file = folder / f"{run.pid}.json"
    with ExitStack() as stack:
        with _gate(folder):  # two runs that begin at once check one after the other
            _refuse_conflict(
                run, [other_run for other_run in _active_runs(folder) if other_run.pid != run.pid]
            )
            handle = stack.enter_context(file.open("w", encoding="utf-8"))
            fcntl.flock(handle, fcntl.LOCK_EX)
            json.dump(asdict(run), handle)
            handle.flush()
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)
            _halt_file(file).unlink(missing_ok=True)


@contextmanager
def _gate(folder: Path) -> Iterator[None]:
    """Hold a lock while runs are listed or registered, so that no run is seen half registered."""
    with (folder / "gate").open("a") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _refuse_conflict(run: Active, other_runs: Sequence[Active]) -> None:
    """Raises EnvironmentMissing if one of the others would disturb the run, or be disturbed."""
    above = {process.pid for process in psutil.Process().parents()}
    for other_run in other_runs:
        is_ours = other_run.is_night and other_run.pid in above
        is_here = not run.elsewhere and not other_run.elsewhere
        is_same = run.elsewhere and other_run.elsewhere and run.experiment == other_run.experiment
        if is_same or (is_here and not is_ours):
            raise EnvironmentMissing(
                "this host",
                expected="no other run, for they would disturb each other",
                got=f"the active {other_run.words} (process {other_run.pid})",
                hint="Wait for it, or end it with Ctrl-C or `sparecraft halt`: its fleet is then "
                "removed.",
            )


def active() -> list[Active]:
    """Return the runs that go on, by their names; removes the files of dead runs."""
    if not FOLDER.is_dir():
        return []
    with _gate(FOLDER):
        return _active_runs(FOLDER)


def _active_runs(folder: Path) -> list[Active]:
    runs = []
    for file in sorted(folder.glob("*.json")):
        with suppress(FileNotFoundError, ValueError, TypeError), file.open("r+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                runs.append(Active(**json.load(handle)))
                continue
            file.unlink()
            _halt_file(file).unlink(missing_ok=True)
    return sorted(runs, key=lambda run: (run.experiment, run.pid))


def halt(runs: Sequence[Active], reason: str) -> None:
    """Have the runs undo their faults, keep their data, and end; have nights begin no other.

    All requests are there before the first signal: a night may see that its run has ended before
    its own signal comes, and a run may be interrupted by its night.
    """
    for run in runs:
        _request_halt(run.pid, reason, "halt")
    for run in sorted(runs, key=lambda run: run.is_night):  # a night would interrupt its run
        _signal_halt(run.pid)


def halt_this(reason: str) -> None:
    """Halt the run of this process, from another thread, because its watchdog has ended; does
    nothing if this process has no run."""
    if (FOLDER / f"{os.getpid()}.json").exists():
        _request_halt(os.getpid(), reason, "watchdog")
        _signal_halt(os.getpid())


def _request_halt(pid: int, reason: str, by: str) -> None:
    file = FOLDER / f"{pid}.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"reason": reason, "at": datetime.now(UTC).isoformat(), "by": by}))
    new.replace(_halt_file(file))


def _signal_halt(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGTERM)


def read_halt(file: Path) -> Halt | None:
    try:
        request = json.loads(_halt_file(file).read_text())
    except FileNotFoundError:
        return None
    return Halt(request["reason"], datetime.fromisoformat(request["at"]), request["by"])


def _halt_file(file: Path) -> Path:
    return file.with_suffix(".halt")


def _check_owner(folder: Path) -> Path:
    """Make the folder if needed, and return it. Raises EnvironmentMissing if it is another user's,
    who could then halt runs."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = folder.stat().st_uid
    if owner != os.getuid():
        raise EnvironmentMissing(
            str(folder),
            expected="a folder of this user's, for the runs that go on",
            got=f"one of user {owner}",
            hint="Remove it, or set TMPDIR to a folder of your own.",
        )
    return folder
