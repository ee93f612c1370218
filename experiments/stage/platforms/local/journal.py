"""The faults of whole machines that a run holds, so that none outlives it.

A note is on disk from before the fault until after its undo. While there are any, a process of its
own, the keeper, holds the other end of a pipe of the run's: however the run ends, the pipe ends
with it, and the keeper then undoes what is noted. Where it was killed too, the next `sparecraft
up` or `run` does, and `down` removes machines and notes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from experiments.errors import SparecraftError
from experiments.stage import runs

_TRIES = 10
_PAUSE_S = 2.0

Undo = Callable[[str, str], None]  # kind, machine


@dataclass(frozen=True)
class Note:
    """A fault of a machine that was made, or is about to be."""

    experiment: str
    machine: str
    kind: str
    pid: int  # of the run
    started: int  # its start, in clock ticks: a number is given to others after it


@dataclass
class MachineJournal:
    """One experiment's notes, and the keeper of this process."""

    experiment: str
    where: Path = runs.FOLDER / "machines"
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _keeper: int = 0  # its process id

    def write(self, kind: str, machine: str) -> None:
        """Note it, on disk before this returns, and see that there is a keeper."""
        own = os.getpid()
        note = Note(self.experiment, machine, kind, own, _start_of(own) or 0)
        with self._guard:
            file = self._file(machine)
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with file.open("w", encoding="utf-8") as draft:
                json.dump(asdict(note), draft)
                draft.flush()
                os.fsync(draft.fileno())
            if not self._keeper or _start_of(self._keeper) is None:
                self._keeper = _start_keeper(self.experiment, self.where)

    def clear(self, machine: str) -> None:
        """Its fault is undone."""
        with self._guard:
            self._file(machine).unlink(missing_ok=True)

    def clear_all(self) -> None:
        """There are no machines any more."""
        for note in self.notes():
            self.clear(note.machine)

    def notes(self) -> list[Note]:
        """What is noted; a note that was cut off was of a fault that was not made yet."""
        return list(_notes(self.where / self.experiment))

    def undo_left(self, undo: Undo) -> list[Note]:
        """Undo what runs that are no more have left. Returns what it undid."""
        left = [note for note in self.notes() if _start_of(note.pid) != note.started]
        for note in left:
            undo(note.kind, note.machine)
            self.clear(note.machine)
        return left

    def _file(self, machine: str) -> Path:
        return self.where / self.experiment / f"{machine}.json"


def keep(experiment: str, where: Path, undo: Undo) -> None:
    """The keeper: waits for the end of the run, then undoes what it left; tries again where the
    engine is busy."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    journal = MachineJournal(experiment, where)
    for _ in range(_TRIES):
        try:
            journal.undo_left(undo)
            return
        except SparecraftError:
            time.sleep(_PAUSE_S)


def _start_keeper(experiment: str, where: Path) -> int:
    """In a session of its own: what interrupts the run does not reach it. The pipe's own end is
    never closed: the kernel does it, at the end of this process."""
    program = [sys.executable, "-m", "experiments.stage.platforms.local.keeper"]
    read, _ = os.pipe()
    silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    try:
        return os.posix_spawn(
            sys.executable,
            [*program, experiment, str(where)],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, read, 0), *silent],
            setsid=True,
        )
    finally:
        os.close(read)


def _notes(folder: Path) -> Iterator[Note]:
    for file in sorted(folder.glob("*.json")):
        try:
            yield Note(**json.loads(file.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            continue


def _start_of(pid: int) -> int | None:
    """When a process began; None where there is none, or one that is only waited for yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
