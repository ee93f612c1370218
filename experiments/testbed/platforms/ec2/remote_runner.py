"""A run on a fleet's first load machine for a remote user: begin it, look at it, end it, and send
its results.

    remote_runner begin ID --design URL -- SHOP --quiet-wait 60
    remote_runner look ID --past BYTES
    remote_runner end ID
    remote_runner send ID --to URL

`remote_runner` stands for `python -m experiments.testbed.platforms.ec2.remote_runner`.
Each prints one line of JSON. A run goes on after the command that began it, and is begun once.
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

FOLDER = Path("/var/lib/sparecraft/away")
OUTPUT_MAX = 6_000  # bytes of output in one answer: Systems Manager cuts one at 24,000
DESIGN_MAX = 64 * 1024**2  # bytes
RESULTS_MAX = 2 * 1024**3  # bytes, packed
_PID_S = 30.0  # from a run's beginning until its process is known; a command has 60
_MODULE = "experiments.testbed.platforms.ec2.remote_runner"


class Run:
    """One run's folder: the design, the run's output, its results, and how it ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.design = folder / "design"
        self.results = folder / "results"
        self.log = folder / "log"
        self._pid = folder / "pid"
        self._code = folder / "code"
        self._lock = folder / "lock"
        self._archive = folder / "results.tar.gz"

    def begin(self, design: str, name: str, arguments: list[str]) -> None:
        """Fetch the design from the URL `design`, and run it, unless the run was begun already."""
        if self.log.exists():
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        archive = self.folder / "design.tar"
        urllib.request.urlretrieve(design, archive)
        unpack(archive, self.design, DESIGN_MAX)
        command = [str(self.folder), "--", str(self.design / name), *arguments]
        with self.log.open("x") as log, self._lock.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held until whoever has the file open has ended
            subprocess.Popen(
                program(_MODULE, "keep", *command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock.fileno(),),
            )

    def keep(self, arguments: list[str]) -> None:
        """Carry out the run: this process lives as long as the run, and writes its exit code."""
        options = ["--platform", "ec2", "--results", str(self.results)]
        command = program("experiments.cli", "run", *arguments, *options)
        environment = os.environ | {
            "COLUMNS": "120"
        }  # what it says is read elsewhere, behind a mark
        with subprocess.Popen(command, env=environment) as process:
            write_json(self._pid, process.pid)
            code = process.wait()
        write_json(self._code, code)

    def look(self, past: int) -> JsonObject:
        """Return its state, and its output after the first `past` bytes."""
        state = self._state()  # first: the log then has all output from before the end
        output = b""
        if self.log.exists():
            with self.log.open("rb") as log:
                log.seek(past)
                output = log.read(OUTPUT_MAX)
        if len(output) == OUTPUT_MAX and b"\n" in output:
            output = output[: output.rindex(b"\n") + 1]
        code = int(self._code.read_text()) if state == "ended" else None
        text = output.decode(errors="replace")
        return {"state": state, "code": code, "said": text, "past": past + len(output)}

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
            runs.halt(registered, reason)
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    def send(self, url: str) -> JsonObject:
        """Put the results at the URL `url`; returns their size [bytes] and SHA-256."""
        with tarfile.open(self._archive, "w:gz") as archive:
            for run in sorted(path.parent for path in self.results.rglob("manifest.json")):
                if not any(part.is_symlink() for part in (run, *run.parents)):
                    archive.add(run, run.relative_to(self.results))
        size = self._archive.stat().st_size
        if size > RESULTS_MAX:
            sys.exit(
                f"the results are {size} bytes, {RESULTS_MAX} at most are sent: {self.results}"
            )
        with self._archive.open("rb") as archive_file:
            digest = hashlib.file_digest(archive_file, "sha256").hexdigest()
            archive_file.seek(0)
            request = urllib.request.Request(
                url,
                archive_file,
                {"Content-Length": str(size), "Content-Type": "application/gzip"},
                method="PUT",
            )
            urllib.request.urlopen(request, timeout=600).close()
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
    """Unpack files and folders of an archive below `into`. Raises OSError if the archive has
    anything else, or more than `size_max` bytes. (Debian 12's Python has no filter for this.)"""
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


def main(arguments: list[str], folder: Path = FOLDER) -> None:
    """Carry out the command line's request."""
    parser = argparse.ArgumentParser(prog=_MODULE, description=__doc__)
    parser.add_argument("verb", choices=("begin", "keep", "look", "end", "send"))
    parser.add_argument("id")
    parser.add_argument("--design", metavar="URL")
    parser.add_argument("--past", type=int, default=0)
    parser.add_argument("--to", metavar="URL")
    parser.add_argument("--reason")
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options, run_arguments = parser.parse_args(arguments[:cut]), arguments[cut + 1 :]
    run = Run(folder / options.id)
    if options.verb == "keep":
        run.keep(run_arguments)
        return
    with _report_errors():
        if options.verb == "begin":
            run.begin(options.design, run_arguments[0], run_arguments[1:])
        if options.verb == "end":
            run.end(options.reason)
        receipt = run.send(options.to) if options.verb == "send" else {}
        print(json.dumps({**run.look(options.past), **receipt}, ensure_ascii=False))


@contextmanager
def _report_errors() -> Iterator[None]:
    """Exit with an error in one line, not a traceback: the remote user sees it."""
    try:
        yield
    except (OSError, tarfile.TarError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
