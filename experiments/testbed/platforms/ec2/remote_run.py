"""A run on EC2 from any machine with credentials: the fleet is made, its first load machine runs
the experiment, and the results are copied here.

The current step is noted beside Terraform's state. If the connection is lost, or this machine goes
down, the same command continues from there; the fleet's time to live limits the cost.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.markup import escape

from core.errors import (
    EnvironmentMissing,
    InputError,
    Interrupted,
    SparecraftError,
    in_words,
)
from experiments.console import Narrator
from experiments.design import Design
from experiments.record.records import point_latest, write_json
from experiments.testbed import runs
from experiments.testbed.platforms.base import Given
from experiments.testbed.platforms.ec2.cost_estimate import offer
from experiments.testbed.platforms.ec2.platform import Ec2Platform
from experiments.testbed.platforms.ec2.remote_runner import DESIGN_MAX, unpack
from experiments.testbed.platforms.ec2.shell import Failed, Shell
from experiments.testbed.signals import ending_signals

UNPACKED_MAX = 20 * 1024**3  # bytes of results
PATIENCE_S = 600.0  # without an answer until this machine gives up; the run does not
LOOK_S = 5.0
_END_S = 900.0  # for faults to be undone, and results and page to be written
_SEND_S = 900.0
_LINK_S = 3600
_FILE = "away.json"


@dataclass(frozen=True)
class RemoteRunState:
    """State of a remote run: the run there, of which design, whether the fleet is made for it, and
    whether the run was begun."""

    id: str
    design: str  # SHA-256 of what is sent
    arguments: list[str]
    own_fleet: bool
    begun: bool = False


class RemoteRun:
    """One experiment's run on the fleet's first load machine. `question` is asked before anything
    is paid for; there is none where the fleet is up."""

    def __init__(self, design: Design, platform: Ec2Platform, given: Given, narrator: Narrator):
        self._design = design
        self._platform = platform
        self._narrator = narrator
        self._note = platform.stack.state_directory / _FILE
        self._noted = noted = self._read()
        is_made = (
            noted.begun or not noted.own_fleet if noted else bool(platform.stack.state_resources())
        )
        self._offer = None if is_made else offer(design, platform, given, narrator)
        self.question = self._offer.question if self._offer else ""

    def carry_out(self, arguments: Sequence[str], *, results: Path, keep: bool) -> Path:
        """The run's folder in `results`, once it is there and the fleet, unless it is to be kept or
        was there before, is gone. `arguments` are those of `sparecraft run` there.

        Raises EnvironmentMissing where AWS does not answer any more: the run goes on, and the same
        call finds it; Interrupted after Ctrl-C, with what was measured kept.
        """
        results.mkdir(parents=True, exist_ok=True)  # fails while it costs nothing yet
        with (
            ending_signals(self._narrator.say) as signals,
            runs.registered(self._active(results)) as told,
            tempfile.TemporaryDirectory() as scratch,
        ):
            packed = _pack(self._design, Path(scratch))
            noted = self._under_way(_digest(packed), list(arguments))
            is_interrupted = False
            try:
                with self._removed_unless_begun(noted):
                    self._begin(noted, packed)
                self._follow(noted)
            except KeyboardInterrupt:
                if not self._has_begun():
                    raise self._interrupted(None) from None
                halt = runs.read_halt(told)
                is_interrupted = halt is None
                self._end(noted, halt.reason if halt else "")
            signals.shield()
            folder = self._brought(noted, results.resolve())
            if noted.own_fleet and not keep:
                self._remove()
            else:
                self._note.unlink()
                self._narrator.say(f"The fleet stays up; `{self._down}` removes it.")
            if is_interrupted:
                raise self._interrupted(folder)
            if folder is None:
                raise self._failed()
            return folder

    # the fleet

    def _under_way(self, design: str, arguments: list[str]) -> RemoteRunState:
        """The run that is under way; a new one where there is none."""
        noted = self._noted
        if noted is None or not noted.begun:
            name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
            return RemoteRunState(name, design, arguments, own_fleet=self._offer is not None)
        if (noted.design, noted.arguments) != (design, arguments):
            raise InputError(
                f"sparecraft run {self._design.name} --platform ec2",
                expected=f"design and options of run {noted.id}, which is under way there",
                got="others",
                hint=f"Call it as before, or end it: `{self._down}`.",
            )
        self._narrator.say(f"Run {noted.id} is under way: going on with it.")
        return noted

    def _begin(self, noted: RemoteRunState, packed: Path) -> None:
        """Make the fleet, if it is to be, and have its load machine run the design, unless it
        does."""
        narrator, platform = self._narrator, self._platform
        if self._offer is not None:
            self._write(noted)
            with narrator.step("Making the fleet (terraform apply)"):
                platform.up(self._design.directory / "fleet.tfvars", narrator.detail)
        with narrator.step("Waiting until the first load machine answers (Systems Manager)"):
            self._shell().await_answer(["look", noted.id], platform.ready_timeout_s)
        with self._passing(f"{noted.id}/design.tar") as (bucket, key):
            platform.aws.transfer("upload_file", str(packed), bucket, key)
            link = platform.aws.link("get_object", bucket, key, _LINK_S)
            self._write(replace(noted, begun=True))
            words = ["begin", noted.id, "--design", link, "--", self._design.name]
            words += noted.arguments
            try:
                self._shell().ask(words)
            except Failed:
                self._write(noted)
                raise
        narrator.say(
            f"[bold]Run {noted.id} goes on there.[/bold] Where the connection is lost, call the "
            "same command again. Ctrl-C ends the run and keeps what was measured."
        )

    @contextmanager
    def _removed_unless_begun(self, noted: RemoteRunState) -> Iterator[None]:
        """A fleet that was made for a run that did not begin costs money for nothing."""
        try:
            yield
        except (SparecraftError, KeyboardInterrupt):
            if noted.own_fleet and not self._has_begun():
                self._remove()
            raise

    def _remove(self) -> None:
        with self._narrator.step("Removing the fleet (terraform destroy)"):
            self._platform.down(self._narrator.detail)
        if left := self._platform.remaining():
            raise EnvironmentMissing(
                f"fleet {self._design.fleet.experiment} on EC2",
                expected="nothing left of it",
                got=", ".join(left),
                hint=f"Call `{self._down}`.",
            )

    # the run

    def _follow(self, noted: RemoteRunState, limit_s: float | None = None) -> None:
        """Print the output of the run until it ends."""
        shell, past, rest, heard = self._shell(), 0, "", time.monotonic()
        until = None if limit_s is None else heard + limit_s
        while True:
            try:
                seen = shell.ask(["look", noted.id, "--past", str(past)])
            except EnvironmentMissing as error:
                if time.monotonic() - heard > PATIENCE_S:
                    raise self._lost(noted, error.got) from error
                time.sleep(LOOK_S)
                continue
            heard, past = time.monotonic(), int(seen["past"])
            *lines, rest = (rest + seen["said"]).split("\n")
            for line in lines:
                self._narrator.say(f"[dim]│[/dim] {escape(line)}")
            if seen["said"]:
                continue
            if seen["state"] != "goes on":
                return
            if until is not None and heard > until:
                raise self._lost(
                    noted, f"it still goes on {limit_s:.0f} s after it was told to end"
                )
            time.sleep(LOOK_S)

    def _end(self, noted: RemoteRunState, reason: str) -> None:
        """End the run as Ctrl-C does there, or `sparecraft halt` with its reason."""
        self._narrator.say("Ending the run there: faults are undone, what was measured is kept.")
        self._shell().ask(["end", noted.id, *(["--reason", reason] if reason else [])])
        self._follow(noted, _END_S)

    def _brought(self, noted: RemoteRunState, results: Path) -> Path | None:
        """The run's folder here; None where nothing was measured. Raises EnvironmentMissing."""
        try:
            return self._fetched(noted, results)
        except OSError as error:
            raise EnvironmentMissing(
                str(results),
                expected="room for the results, and the right to write them",
                got=in_words(error),
                hint="Mend that and call the same command again: they are on the load machine "
                "still.",
            ) from error

    def _fetched(self, noted: RemoteRunState, results: Path) -> Path | None:
        aws = self._platform.aws
        with (
            self._narrator.step("Bringing the results here"),
            tempfile.TemporaryDirectory(dir=results, prefix=".away-") as scratch,
            self._passing(f"{noted.id}/results.tar.gz") as (bucket, key),
        ):
            link = aws.link("put_object", bucket, key, _LINK_S)
            said = self._shell().ask(["send", noted.id, "--to", link], timeout_s=_SEND_S)
            packed, into = Path(scratch) / "results.tar.gz", Path(scratch) / "results"
            aws.transfer("download_file", bucket, key, str(packed))
            if _digest(packed) != said["sha256"]:
                raise self._lost(noted, "results that are not whole")
            unpack(packed, into, UNPACKED_MAX)
            found = sorted(path.parent for path in into.rglob("manifest.json"))
            return _placed(found[-1], into, results) if found else None

    # AWS

    def _shell(self) -> Shell:
        """The load machine's. Raises EnvironmentMissing where it is no more."""
        instance = str(self._platform.stack.output("load")["runner"])
        if instance != self._platform.runner():
            raise EnvironmentMissing(
                f"fleet {self._design.fleet.experiment} on EC2",
                expected=f"its first load machine, {instance}",
                got=self._platform.runner(),
                hint=f"Its time to live may be over. `{self._down}` removes the rest.",
            )
        return Shell(self._platform.aws, instance)

    @contextmanager
    def _passing(self, name: str) -> Iterator[tuple[str, str]]:
        """Bucket and key of an object that only passes through the fleet's part of the bucket."""
        load = self._platform.stack.output("load")
        bucket, key = str(load["bucket"]), f"{load['prefix']}/away/{name}"
        try:
            yield bucket, key
        finally:
            self._platform.aws.call("s3", "delete_object", Bucket=bucket, Key=key)

    # words

    @property
    def _down(self) -> str:
        return f"sparecraft down {self._design.fleet.experiment} --platform ec2"

    def _has_begun(self) -> bool:
        noted = self._read()
        return noted is not None and noted.begun

    def _read(self) -> RemoteRunState | None:
        try:
            return RemoteRunState(**json.loads(self._note.read_text()))
        except FileNotFoundError:
            return None

    def _write(self, noted: RemoteRunState) -> None:
        self._note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(self._note, asdict(noted))
        self._note.chmod(0o600)

    def _active(self, results: Path) -> runs.Active:
        return runs.Active(
            pid=os.getpid(),
            experiment=self._design.fleet.experiment,
            design=self._design.name,
            folder=str(results.resolve() / self._design.fleet.experiment),
            started=datetime.now(UTC).isoformat(),
            elsewhere=True,
        )

    def _lost(self, noted: RemoteRunState, got: str) -> EnvironmentMissing:
        return EnvironmentMissing(
            f"run {noted.id} of {self._design.fleet.experiment} on EC2",
            expected=f"an answer of its load machine within {PATIENCE_S:.0f} s",
            got=got,
            hint="It continues there, and its fleet until its time to live ends: call the same "
            f"command again. `{self._down}` ends both.",
        )

    def _failed(self) -> EnvironmentMissing:
        return EnvironmentMissing(
            f"run of {self._design.fleet.experiment} on EC2",
            expected="results",
            got="none; its output is above",
            hint="Correct the named problem and call again.",
        )

    def _interrupted(self, folder: Path | None) -> Interrupted:
        kept = f"What was measured is in {folder}." if folder else "Nothing was measured."
        return Interrupted(
            f"run of {self._design.fleet.experiment} on EC2",
            expected="to reach its end",
            got="an interrupt",
            hint=f"Faults were reverted. {kept}",
        )


def _pack(design: Design, scratch: Path) -> Path:
    """The design's folder; the same files give the same archive. Raises InputError."""
    packed = scratch / "design.tar"
    folder = design.directory.resolve()
    with tarfile.open(packed, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.add(path, Path(folder.name) / path.relative_to(folder), filter=_plain)
    if packed.stat().st_size > DESIGN_MAX:
        raise InputError(
            str(folder),
            expected=f"a design of at most {DESIGN_MAX // 1024**2} MB",
            got=f"{packed.stat().st_size / 1024**2:.0f} MB",
            hint="Remove unrelated files from its folder.",
        )
    return packed


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _placed(run: Path, into: Path, results: Path) -> Path:
    """Move a run to its place in the results and point `latest` to it; an existing one is kept."""
    to = results / run.relative_to(into)
    to.parent.mkdir(parents=True, exist_ok=True)
    if not to.exists():
        shutil.move(run, to)
    point_latest(to)
    return to


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
