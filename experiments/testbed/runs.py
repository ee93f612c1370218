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
    """A run that goes on, or a night of runs: its `folder` is then that of all results. One whose
    load is sent `elsewhere`, by a machine on EC2, takes nothing of this host."""

    pid: int
    experiment: str
    design: str
    folder: str
    started: str
    is_night: bool = False
    elsewhere: bool = False

    @property
    def words(self) -> str:
        """A name for the run or night, for whoever has to wait for it."""
        return f"{'night' if self.is_night else 'run'} of {self.design or self.experiment}"


@dataclass(frozen=True)
class Halt:
    """A request to stop a run: by `sparecraft halt` or by the watchdog's end, why and when."""

    reason: str
    at: datetime
    by: str


@contextmanager
def registered(run: Active, where: Path | None = None) -> Iterator[Path]:
    """While it lasts others find the run, and none that it would disturb can begin; yields the
    file that `asked` is called with.

    Raises EnvironmentMissing at once, with the holder's process id, while another goes on. A
    night's runs are its children, and begin.
    """
    folder = _own(where or FOLDER)
    file = folder / f"{run.pid}.json"
    with ExitStack() as held:
        with _gate(folder):  # two that begin at once look one after the other
            _refuse_conflict(run, [one for one in _active_runs(folder) if one.pid != run.pid])
            told = held.enter_context(file.open("w", encoding="utf-8"))
            fcntl.flock(told, fcntl.LOCK_EX)
            json.dump(asdict(run), told)
            told.flush()
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)
            _halt_file(file).unlink(missing_ok=True)


@contextmanager
def _gate(folder: Path) -> Iterator[None]:
    """Held while runs are looked for or told: none is seen before it can be known."""
    with (folder / "gate").open("a") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _refuse_conflict(run: Active, others: Sequence[Active]) -> None:
    """Raises EnvironmentMissing if one of the others would disturb the run, or be disturbed."""
    above = {process.pid for process in psutil.Process().parents()}
    for other in others:
        is_ours = other.is_night and other.pid in above
        is_here = not run.elsewhere and not other.elsewhere
        is_same = run.elsewhere and other.elsewhere and run.experiment == other.experiment
        if is_same or (is_here and not is_ours):
            raise EnvironmentMissing(
                "this host",
                expected="no other run, for they would disturb each other",
                got=f"the active {other.words} (process {other.pid})",
                hint="Wait for it, or end it with Ctrl-C or `sparecraft halt`: its fleet is then "
                "removed.",
            )


def active(where: Path | None = None) -> list[Active]:
    """Return the runs that go on, by their names; what dead ones left is removed."""
    folder = where or FOLDER
    if not folder.is_dir():
        return []
    with _gate(folder):
        return _active_runs(folder)


def _active_runs(folder: Path) -> list[Active]:
    found = []
    for file in sorted(folder.glob("*.json")):
        with suppress(FileNotFoundError, ValueError, TypeError), file.open("r+") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(Active(**json.load(held)))
                continue
            file.unlink()
            _halt_file(file).unlink(missing_ok=True)
    return sorted(found, key=lambda run: (run.experiment, run.pid))


def halt(run: Active, reason: str, where: Path | None = None) -> None:
    """Have the run undo its faults, keep its data, and end; have the night begin no other."""
    _tell(run.pid, reason, "halt", where or FOLDER)


def halt_this(reason: str, by: str) -> None:
    """The same of the run that this process carries out, from another thread; nothing where it
    carries out none."""
    if (FOLDER / f"{os.getpid()}.json").exists():
        _tell(os.getpid(), reason, by, FOLDER)


def _tell(pid: int, reason: str, by: str, where: Path) -> None:
    file = where / f"{pid}.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"reason": reason, "at": datetime.now(UTC).isoformat(), "by": by}))
    new.replace(_halt_file(file))
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGTERM)


def read_halt(file: Path) -> Halt | None:
    """Return the order that the run was given, if any."""
    try:
        told = json.loads(_halt_file(file).read_text())
    except FileNotFoundError:
        return None
    return Halt(told["reason"], datetime.fromisoformat(told["at"]), told["by"])


def _halt_file(file: Path) -> Path:
    return file.with_suffix(".halt")


def _own(folder: Path) -> Path:
    """Return the folder, which is this user's: in another's anybody might halt, or be halted."""
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
