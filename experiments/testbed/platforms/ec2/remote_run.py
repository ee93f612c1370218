"""A run on EC2 from any machine with credentials: the fleet is made, its first load machine runs
the experiment, and the results are copied here.

The current step is noted beside Terraform's state. If the connection is lost, or this machine goes
down, the same command continues from that step; the fleet's time to live limits the cost.
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
from experiments.testbed.platforms.base import OptionValues
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
    """State of a remote run: its id, design and arguments, whether the fleet is made for it, and
    whether it was begun."""

    id: str
    design: str  # SHA-256 of what is sent
    arguments: list[str]
    own_fleet: bool
    begun: bool = False


class RemoteRun:
    """One experiment's run on the fleet's first load machine. The user answers `question` before
    anything is paid for; it is empty if the fleet is up."""

    def __init__(
        self, design: Design, platform: Ec2Platform, options: OptionValues, narrator: Narrator
    ):
        self._design = design
        self._platform = platform
        self._narrator = narrator
        self._state_file = platform.stack.state_directory / _FILE
        self._last_state = state = self._read_state()
        is_made = (
            state.begun or not state.own_fleet if state else bool(platform.stack.state_resources())
        )
        self._estimate = None if is_made else offer(design, platform, options, narrator)
        self.question = self._estimate.question if self._estimate else ""

    def carry_out(self, arguments: Sequence[str], *, results: Path, keep: bool) -> Path:
        """Return the run's folder, once it is in `results` and the fleet is gone; a fleet with
        `keep`, or from before the run, stays. `arguments` are those of `sparecraft run` there.

        Raises EnvironmentMissing if AWS does not answer any more: the run goes on, and the same
        call finds it; Interrupted after Ctrl-C, with the measurements kept.
        """
        results.mkdir(parents=True, exist_ok=True)  # fails while it costs nothing yet
        with (
            ending_signals(self._narrator.say) as signals,
            runs.registered(self._active_run(results)) as run_file,
            tempfile.TemporaryDirectory() as scratch,
        ):
            archive = _pack(self._design, Path(scratch))
            state = self._resume_or_plan(_digest(archive), list(arguments))
            is_interrupted = False
            try:
                with self._removed_unless_begun(state):
                    self._begin(state, archive)
                self._follow(state)
            except KeyboardInterrupt:
                if not self._has_begun():
                    raise self._interrupt_error(None) from None
                halt = runs.read_halt(run_file)
                is_interrupted = halt is None
                self._end(state, halt.reason if halt else "")
            signals.shield()
            folder = self._bring_results(state, results.resolve())
            if state.own_fleet and not keep:
                self._remove()
            else:
                self._state_file.unlink()
                self._narrator.say(f"The fleet stays up; `{self._down_command}` removes it.")
            if is_interrupted:
                raise self._interrupt_error(folder)
            if folder is None:
                raise self._no_results_error()
            return folder

    # the fleet

    def _resume_or_plan(self, design: str, arguments: list[str]) -> RemoteRunState:
        """Return the run that is under way, or a new one if there is none."""
        state = self._last_state
        if state is None or not state.begun:
            name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
            return RemoteRunState(name, design, arguments, own_fleet=self._estimate is not None)
        if (state.design, state.arguments) != (design, arguments):
            raise InputError(
                f"sparecraft run {self._design.name} --platform ec2",
                expected=f"design and options of run {state.id}, which is under way there",
                got="others",
                hint=f"Call it as before, or end it: `{self._down_command}`.",
            )
        self._narrator.say(f"Run {state.id} is under way: going on with it.")
        return state

    def _begin(self, state: RemoteRunState, archive: Path) -> None:
        """Make the fleet if needed, and make its load machine run the design, unless it does
        already."""
        narrator, platform = self._narrator, self._platform
        if self._estimate is not None:
            self._write_state(state)
            with narrator.step("Making the fleet (terraform apply)"):
                platform.up(self._design.directory / "fleet.tfvars", narrator.detail)
        with narrator.step("Waiting until the first load machine answers (Systems Manager)"):
            self._shell().await_answer(["look", state.id], platform.ready_timeout_s)
        with self._passing_object(f"{state.id}/design.tar") as (bucket, key):
            platform.aws.transfer("upload_file", str(archive), bucket, key)
            link = platform.aws.link("get_object", bucket, key, _LINK_S)
            self._write_state(replace(state, begun=True))
            command = ["begin", state.id, "--design", link, "--", self._design.name]
            command += state.arguments
            try:
                self._shell().ask(command)
            except Failed:
                self._write_state(state)
                raise
        narrator.say(
            f"Run {state.id} goes on there. Where the connection is lost, call the "
            "same command again. Ctrl-C ends the run and keeps what was measured."
        )

    @contextmanager
    def _removed_unless_begun(self, state: RemoteRunState) -> Iterator[None]:
        """Remove the fleet if its run did not begin: otherwise it costs money for nothing."""
        try:
            yield
        except (SparecraftError, KeyboardInterrupt):
            if state.own_fleet and not self._has_begun():
                self._remove()
            raise

    def _remove(self) -> None:
        with self._narrator.step("Removing the fleet (terraform destroy)"):
            self._platform.down(self._narrator.detail)
        if remaining := self._platform.remaining():
            raise EnvironmentMissing(
                f"fleet {self._design.fleet.experiment} on EC2",
                expected="nothing left of it",
                got=", ".join(remaining),
                hint=f"Call `{self._down_command}`.",
            )

    # the run

    def _follow(self, state: RemoteRunState, limit_s: float | None = None) -> None:
        """Print the output of the run until it ends."""
        shell, past, partial_line, answered_s = self._shell(), 0, "", time.monotonic()
        deadline = None if limit_s is None else answered_s + limit_s
        while True:
            try:
                answer = shell.ask(["look", state.id, "--past", str(past)])
            except EnvironmentMissing as error:
                if time.monotonic() - answered_s > PATIENCE_S:
                    raise self._lost_error(state, error.got) from error
                time.sleep(LOOK_S)
                continue
            answered_s, past = time.monotonic(), int(answer["past"])
            *lines, partial_line = (partial_line + answer["said"]).split("\n")
            for line in lines:
                self._narrator.say(f"│ {line}")
            if answer["said"]:
                continue
            if answer["state"] != "goes on":
                return
            if deadline is not None and answered_s > deadline:
                raise self._lost_error(
                    state, f"it still goes on {limit_s:.0f} s after it was told to end"
                )
            time.sleep(LOOK_S)

    def _end(self, state: RemoteRunState, reason: str) -> None:
        """End the run as Ctrl-C does there, or `sparecraft halt` with its reason."""
        self._narrator.say("Ending the run there: faults are undone, what was measured is kept.")
        self._shell().ask(["end", state.id, *(["--reason", reason] if reason else [])])
        self._follow(state, _END_S)

    def _bring_results(self, state: RemoteRunState, results: Path) -> Path | None:
        """Bring the results here, and return the run's folder; None if nothing was measured. Raises
        EnvironmentMissing."""
        try:
            return self._fetch_results(state, results)
        except OSError as error:
            raise EnvironmentMissing(
                str(results),
                expected="room for the results, and the right to write them",
                got=in_words(error),
                hint="Mend that and call the same command again: they are on the load machine "
                "still.",
            ) from error

    def _fetch_results(self, state: RemoteRunState, results: Path) -> Path | None:
        aws = self._platform.aws
        with (
            self._narrator.step("Bringing the results here"),
            tempfile.TemporaryDirectory(dir=results, prefix=".away-") as scratch,
            self._passing_object(f"{state.id}/results.tar.gz") as (bucket, key),
        ):
            link = aws.link("put_object", bucket, key, _LINK_S)
            answer = self._shell().ask(["send", state.id, "--to", link], timeout_s=_SEND_S)
            archive, unpacked = Path(scratch) / "results.tar.gz", Path(scratch) / "results"
            aws.transfer("download_file", bucket, key, str(archive))
            if _digest(archive) != answer["sha256"]:
                raise self._lost_error(state, "results that are not whole")
            unpack(archive, unpacked, UNPACKED_MAX)
            folders = sorted(path.parent for path in unpacked.rglob("manifest.json"))
            return _move_to_results(folders[-1], unpacked, results) if folders else None

    # AWS

    def _shell(self) -> Shell:
        """Return the load machine's shell. Raises EnvironmentMissing if the machine is gone."""
        instance = str(self._platform.stack.output("load")["runner"])
        if instance != self._platform.runner():
            raise EnvironmentMissing(
                f"fleet {self._design.fleet.experiment} on EC2",
                expected=f"its first load machine, {instance}",
                got=self._platform.runner(),
                hint=f"Its time to live may be over. `{self._down_command}` removes the rest.",
            )
        return Shell(self._platform.aws, instance)

    @contextmanager
    def _passing_object(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield bucket and key of an object in the fleet's part of the bucket; then delete it."""
        load = self._platform.stack.output("load")
        bucket, key = str(load["bucket"]), f"{load['prefix']}/away/{name}"
        try:
            yield bucket, key
        finally:
            self._platform.aws.call("s3", "delete_object", Bucket=bucket, Key=key)

    # state and texts

    @property
    def _down_command(self) -> str:
        return f"sparecraft down {self._design.fleet.experiment} --platform ec2"

    def _has_begun(self) -> bool:
        state = self._read_state()
        return state is not None and state.begun

    def _read_state(self) -> RemoteRunState | None:
        try:
            return RemoteRunState(**json.loads(self._state_file.read_text()))
        except FileNotFoundError:
            return None

    def _write_state(self, state: RemoteRunState) -> None:
        self._state_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(self._state_file, asdict(state))
        self._state_file.chmod(0o600)

    def _active_run(self, results: Path) -> runs.Active:
        return runs.Active(
            pid=os.getpid(),
            experiment=self._design.fleet.experiment,
            design=self._design.name,
            folder=str(results.resolve() / self._design.fleet.experiment),
            started=datetime.now(UTC).isoformat(),
            elsewhere=True,
        )

    def _lost_error(self, state: RemoteRunState, got: str) -> EnvironmentMissing:
        return EnvironmentMissing(
            f"run {state.id} of {self._design.fleet.experiment} on EC2",
            expected=f"an answer of its load machine within {PATIENCE_S:.0f} s",
            got=got,
            hint="It continues there, and its fleet until its time to live ends: call the same "
            f"command again. `{self._down_command}` ends both.",
        )

    def _no_results_error(self) -> EnvironmentMissing:
        return EnvironmentMissing(
            f"run of {self._design.fleet.experiment} on EC2",
            expected="results",
            got="none; its output is above",
            hint="Correct the named problem and call again.",
        )

    def _interrupt_error(self, folder: Path | None) -> Interrupted:
        data_text = f"What was measured is in {folder}." if folder else "Nothing was measured."
        return Interrupted(
            f"run of {self._design.fleet.experiment} on EC2",
            expected="to reach its end",
            got="an interrupt",
            hint=f"Faults were reverted. {data_text}",
        )


def _pack(design: Design, scratch: Path) -> Path:
    """Pack the design's folder; the same files give the same archive. Raises InputError."""
    archive_file = scratch / "design.tar"
    folder = design.directory.resolve()
    with tarfile.open(archive_file, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.add(path, Path(folder.name) / path.relative_to(folder), filter=_normalise)
    if archive_file.stat().st_size > DESIGN_MAX:
        raise InputError(
            str(folder),
            expected=f"a design of at most {DESIGN_MAX // 1024**2} MB",
            got=f"{archive_file.stat().st_size / 1024**2:.0f} MB",
            hint="Remove unrelated files from its folder.",
        )
    return archive_file


def _normalise(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _move_to_results(run: Path, unpacked: Path, results: Path) -> Path:
    """Move a run to its folder in the results, and point `latest` to it; keeps an existing run."""
    target = results / run.relative_to(unpacked)
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.move(run, target)
    point_latest(target)
    return target


def _digest(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
