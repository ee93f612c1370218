"""The journal of a run's faults of whole machines, so that none outlives the run.

A note is on disk from before the fault until after its undo. During a run a separate process, the
watchdog (`watchdog.py`), waits for the end of the run, also by a kill, and undoes the noted faults.
If it was killed too, the next `sparecraft up`, `run` or `down` does so.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from core.errors import SparecraftError
from experiments.testbed.platforms.watchdog import Watchdog


@dataclass(frozen=True)
class Note:
    """A fault of a machine, active or about to be. `how` is the command by which the platform
    undoes it, if the kind does not define that."""

    machine: str
    kind: str
    pid: int  # of the run
    started: int  # its start, in clock ticks: a number is given to others after it
    how: str = ""


Undo = Callable[[Note], None]


@dataclass
class MachineJournal:
    """One experiment's notes in a folder of their own, and the watchdog of this process."""

    platform: str
    experiment: str
    folder: Path
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _watchdog: Watchdog | None = None

    def watch(self) -> int:
        """Start a watchdog if there is none; returns its process id once it is ready. Raises
        EnvironmentMissing."""
        with self._guard:
            if self._watchdog is None or not self._watchdog.lives:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._watchdog = Watchdog(self.platform, self.experiment, self.folder)
            return self._watchdog.pid

    def write(self, kind: str, machine: str, how: str = "") -> None:
        """Note a fault, on disk before this returns, and start a watchdog if there is none."""
        self.watch()
        pid = os.getpid()
        note = Note(machine, kind, pid, _start_ticks(pid) or 0, how)
        with self._guard:
            file = self._file(machine)
            with file.open("w", encoding="utf-8") as draft:
                file.chmod(0o600)  # a command may have a password
                json.dump(asdict(note), draft)
                draft.flush()
                os.fsync(draft.fileno())
            _sync(file.parent)

    def clear(self, machine: str) -> None:
        """Remove the entry of a machine whose fault is undone."""
        with self._guard:
            self._file(machine).unlink(missing_ok=True)

    def clear_all(self) -> None:
        """Remove all entries, because there are no machines any more."""
        with self._guard:
            shutil.rmtree(self.folder, ignore_errors=True)

    def notes(self) -> list[Note]:
        """Return the notes without incomplete ones, whose faults were not injected yet."""
        notes = []
        for file in sorted(self.folder.glob("*.json")):
            with suppress(FileNotFoundError, ValueError, TypeError):
                notes.append(Note(**json.loads(file.read_text(encoding="utf-8"))))
        return notes

    def undo_ended(self, undo: Undo) -> list[Note]:
        """Undo the faults that ended runs have left. Returns their notes."""
        return self.undo_all(undo, [note for note in self.notes() if not _is_running(note)])

    def undo_all(self, undo: Undo, notes: list[Note]) -> list[Note]:
        """Undo these faults and clear their notes; a failure does not stop the others. Returns the
        notes of the undone faults. Raises the first SparecraftError, at the end."""
        undone_notes, errors = list[Note](), list[SparecraftError]()
        for note in notes:
            try:
                undo(note)
            except SparecraftError as error:
                errors.append(error)
                continue
            self.clear(note.machine)
            undone_notes.append(note)
        if errors:
            raise errors[0]
        return undone_notes

    def _file(self, machine: str) -> Path:
        return self.folder / f"{machine}.json"


@runtime_checkable
class Undoes(Protocol):
    """A platform that notes its faults of machines."""

    @property
    def journal(self) -> MachineJournal: ...

    def undo(self, note: Note) -> None:
        """Undo a fault that may have been another process's; idempotent."""


def _sync(folder: Path) -> None:
    """Write a folder's entries to disk: the names of its files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_running(note: Note) -> bool:
    """Return true while the run that made the fault goes on."""
    return _start_ticks(note.pid) == note.started


def _start_ticks(pid: int) -> int | None:
    """Return the start of a process; None if there is none, or if it has ended and waits to be
    reaped.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
