"""On a fleet's first load machine: a run for somebody who is elsewhere, begun, looked at, ended,
and its results sent.

    python -m experiments.testbed.platforms.ec2.remote_runner begin ID --design URL -- SHOP
    --quiet-wait 60 python -m experiments.testbed.platforms.ec2.remote_runner look ID --past BYTES
    python -m experiments.testbed.platforms.ec2.remote_runner end ID python -m
    experiments.testbed.platforms.ec2.remote_runner send ID --to URL

Each says one line of JSON. A run outlives who began it; one that was begun is not begun again.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from core.json_object import JsonObject
from experiments.program import program
from experiments.record.records import write_json
from experiments.testbed import runs

KEPT = Path("/var/lib/sparecraft/away")
SAID_MAX = 6_000  # bytes of output in one answer: Systems Manager cuts one at 24,000
DESIGN_MAX = 64 * 1024**2  # bytes
RESULTS_MAX = 2 * 1024**3  # bytes, packed
_PID_S = 30.0  # from a run's beginning until its process is known; a command has 60
_MODULE = "experiments.testbed.platforms.ec2.remote_runner"


class Run:
    """One run's folder: the design, what the run says, its results, and how it ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.design = folder / "design"
        self.results = folder / "results"
        self.log = folder / "log"
        self._pid = folder / "pid"
        self._code = folder / "code"
        self._lock = folder / "lock"
        self._packed = folder / "results.tar.gz"

    def begin(self, design: str, name: str, arguments: list[str]) -> None:
        """Fetch the design from the URL `design`, and run it; nothing for a run that was begun."""
        if self.log.exists():
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        packed = self.folder / "design.tar"
        urllib.request.urlretrieve(design, packed)
        unpack(packed, self.design, DESIGN_MAX)
        words = [str(self.folder), "--", str(self.design / name), *arguments]
        with self.log.open("x") as log, self._lock.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held until whoever has the file open has ended
            subprocess.Popen(
                program(_MODULE, "keep", *words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock.fileno(),),
            )

    def keep(self, arguments: list[str]) -> None:
        """Carry it out: this process lives as long as the run, and says how it ended."""
        own = ["--platform", "ec2", "--results", str(self.results)]
        command = program("experiments.cli", "run", *arguments, *own)
        wide = os.environ | {"COLUMNS": "120"}  # what it says is read elsewhere, behind a mark
        with subprocess.Popen(command, env=wide) as process:
            write_json(self._pid, process.pid)
            code = process.wait()
        write_json(self._code, code)

    def look(self, past: int) -> JsonObject:
        """Return its state, and its output after the first `past` bytes."""
        state = self._state()  # first: what is said before the end is in the log then
        said = b""
        if self.log.exists():
            with self.log.open("rb") as log:
                log.seek(past)
                said = log.read(SAID_MAX)
        if len(said) == SAID_MAX and b"\n" in said:
            said = said[: said.rindex(b"\n") + 1]
        code = int(self._code.read_text()) if state == "ended" else None
        text = said.decode(errors="replace")
        return {"state": state, "code": code, "said": text, "past": past + len(said)}

    def end(self, reason: str | None) -> None:
        """End the run as Ctrl-C does, or `sparecraft halt` with its reason.

        Faults are undone, and measurements are kept.
        """
        until = time.monotonic() + _PID_S
        while self._state() == "goes on" and not self._pid.exists() and time.monotonic() < until:
            time.sleep(0.05)
        if self._state() != "goes on" or not self._pid.exists():
            return
        pid = int(self._pid.read_text())
        registered = [run for run in runs.active() if run.pid == pid]
        if reason and registered:
            runs.halt(registered[0], reason)
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    def send(self, to: str) -> JsonObject:
        """Put its results at the URL `to`; their size [bytes] and SHA-256."""
        with tarfile.open(self._packed, "w:gz") as archive:
            for run in sorted(path.parent for path in self.results.rglob("manifest.json")):
                if not any(part.is_symlink() for part in (run, *run.parents)):
                    archive.add(run, run.relative_to(self.results))
        size = self._packed.stat().st_size
        if size > RESULTS_MAX:
            sys.exit(
                f"the results are {size} bytes, {RESULTS_MAX} at most are sent: {self.results}"
            )
        with self._packed.open("rb") as packed:
            digest = hashlib.file_digest(packed, "sha256").hexdigest()
            packed.seek(0)
            asked = urllib.request.Request(
                to,
                packed,
                {"Content-Length": str(size), "Content-Type": "application/gzip"},
                method="PUT",
            )
            urllib.request.urlopen(asked, timeout=600).close()
        return {"bytes": size, "sha256": digest}

    def _state(self) -> str:
        if self._code.exists():
            return "ended"
        if not self._lock.exists():
            return "none"
        with self._lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return "goes on"
        return "ended" if self._code.exists() else "died"


def unpack(packed: Path, into: Path, size_max: int) -> None:
    """Files and folders of an archive, below `into`. Raises OSError for anything else in it, or
    more than `size_max` bytes. (Debian 12's Python has no filter for this.)"""
    with tarfile.open(packed) as archive:
        members = archive.getmembers()
        for member in members:
            name = PurePosixPath(member.name)
            if name.is_absolute() or ".." in name.parts or not (member.isfile() or member.isdir()):
                raise OSError(f"{packed}: {member.name} is no file below its folder")
        if (size := sum(member.size for member in members)) > size_max:
            raise OSError(f"{packed}: {size} bytes, {size_max} at most are taken")
        for member in members:
            archive.extract(member, into, set_attrs=False)


def main(arguments: list[str], kept: Path = KEPT) -> None:
    """The command line's request."""
    parser = argparse.ArgumentParser(prog=_MODULE, description=__doc__)
    parser.add_argument("verb", choices=("begin", "keep", "look", "end", "send"))
    parser.add_argument("id")
    parser.add_argument("--design", metavar="URL")
    parser.add_argument("--past", type=int, default=0)
    parser.add_argument("--to", metavar="URL")
    parser.add_argument("--reason")
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    asked, rest = parser.parse_args(arguments[:cut]), arguments[cut + 1 :]
    run = Run(kept / asked.id)
    if asked.verb == "keep":
        run.keep(rest)
        return
    with _answered():
        if asked.verb == "begin":
            run.begin(asked.design, rest[0], rest[1:])
        if asked.verb == "end":
            run.end(asked.reason)
        more = run.send(asked.to) if asked.verb == "send" else {}
        print(json.dumps({**run.look(asked.past), **more}, ensure_ascii=False))


@contextmanager
def _answered() -> Iterator[None]:
    """Trouble in a line, not a traceback: it is shown to who is elsewhere."""
    try:
        yield
    except (OSError, tarfile.TarError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
