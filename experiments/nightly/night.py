"""A night: the suite's runs one after the other, each a child process, each recorded at once.

No run is lost: each is a line in the history before it begins, and the next night looks for the
result of a run without one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from core.errors import Interrupted
from experiments.console import Narrator
from experiments.nightly.changes import Change, new_changes
from experiments.nightly.folders import newest_runs, prune, run_folders
from experiments.nightly.history import (
    End,
    History,
    Night,
    Run,
    Start,
    Writer,
    broken,
    incomplete,
    missed,
    read_history,
)
from experiments.nightly.predictions import predictions_of
from experiments.nightly.reference import reference_per_s
from experiments.nightly.rows import NightRun, lines_of
from experiments.nightly.scheduling import Job, jobs
from experiments.nightly.site import build_site
from experiments.nightly.subprocess_run import Ended, carry_out
from experiments.nightly.suite import Suite, variant
from experiments.program import program
from experiments.testbed import runs
from experiments.testbed.lock import exclusive_lock
from experiments.testbed.signals import Signals, ending_signals

SPARECRAFT = tuple(program("experiments.cli"))
_DOWN_S = 600.0


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Tools:
    """Tools of a night: the command that it calls, its clocks, the host's speed."""

    sparecraft: Sequence[str] = SPARECRAFT
    now: Callable[[], datetime] = _now
    monotonic: Callable[[], float] = time.monotonic
    reference_per_s: Callable[[], float] = reference_per_s


@dataclass(frozen=True)
class Outcome:
    night: int
    runs: tuple[Run, ...]  # tonight's lines
    left_out: tuple[str, ...]
    incomplete: Mapping[str, str]  # designs that said less than they were asked, and why
    changes: tuple[Change, ...]
    broken: tuple[str, ...]  # designs whose plan did not keep its promise
    site: Path

    @property
    def exit_code(self) -> int:
        """3 without a valid run, 4 where a design is incomplete, 1 for a missed SLO, a broken
        promise or a change, else 0."""
        if not any(run.valid for run in self.runs):
            return 3
        if self.incomplete:
            return 4
        return 1 if missed(self.runs) or self.broken or self.changes else 0


def nightly(suite: Suite, narrator: Narrator, tools: Tools | None = None) -> Outcome:
    """Run a suite for one night, and build the site.

    Raises: EnvironmentMissing, with the holder's process id, while another night or run goes on on
    this host;
    Interrupted, after what was under way was ended and recorded.
    """
    suite.folder.mkdir(parents=True, exist_ok=True)
    expected = "no other night of this suite"
    hint = "Wait for it, or end it with Ctrl-C."
    with (
        exclusive_lock(suite.folder / ".lock", f"night of {suite.path}", expected, hint),
        ending_signals(narrator.say) as signals,
        runs.registered(_active(suite)) as active_path,
    ):
        return _Night(suite, narrator, tools or Tools(), active_path, signals).run_all()


def _active(suite: Suite) -> runs.Active:
    return runs.Active(
        pid=os.getpid(),
        experiment=suite.path.stem,
        design=suite.path.name,
        folder=str(suite.results),
        started=_now().isoformat(),
        is_night=True,
    )


@dataclass
class _Night:
    suite: Suite
    narrator: Narrator
    tools: Tools
    active_path: Path  # where `sparecraft halt` says why
    signals: Signals
    history: History = field(init=False)
    number: int = field(init=False)

    def __post_init__(self) -> None:
        self.writer = Writer(self.suite.folder)
        self.history = read_history(self.suite.folder)
        self.number = self.history.last_night + 1
        self.began_s = self.tools.monotonic()
        self.runs: list[Run] = []
        self.started = 0

    def run_all(self) -> Outcome:
        """Run the night, from the remains of an earlier one to the site."""
        left_out: list[str] = []
        todo = jobs(self.suite.members, self.history)
        try:
            self._begin()
            while todo:
                if self._fits(todo[0]):
                    self._run(todo[0])
                else:
                    left_out.append(todo[0].member.name)
                todo.pop(0)
            return self._end(tuple(dict.fromkeys(left_out)))
        except KeyboardInterrupt:
            self._raise_interrupted([*left_out, *(job.member.name for job in todo)])

    def _begin(self) -> None:
        now, last = self.tools.now(), self.history.last_at
        back_s = max(0.0, (last - now).total_seconds()) if last else 0.0
        for note in (*self.writer.notes, *self.history.notes):
            self.narrator.say(note)
        if back_s:
            self.narrator.say(
                f"the clock is {back_s:.0f} s behind the history's last line; nights are counted, "
                "so their order stays"
            )
        for name, reason in self.suite.gone.items():
            self.narrator.say(f"{name} cannot be run: {reason}")
        self.writer.append(
            Night(
                night=self.number,
                at=now,
                suite=self.suite.path.name,
                budget_minutes=self.suite.file.budget_minutes,
                entries=tuple(entry.label for entry in self.suite.file.designs),
                gone=dict(self.suite.gone),
                clock_back_s=back_s,
            )
        )
        for start in self.history.unfinished:
            self._recover(start)

    def _recover(self, start: Start) -> None:
        """Record a run whose night was cut short."""
        self.narrator.say(f"night {start.night} was cut short while {start.entry} ran")
        self._down(start.experiment)
        recorded = self.history.folders
        folders = [
            folder
            for folder in run_folders(self.suite.results / start.experiment)
            if str(folder.relative_to(self.suite.results)) not in recorded
            and folder.stat().st_mtime >= start.at.timestamp()
        ]
        trouble = "" if folders else "the night was cut short while it ran, and it left nothing"
        self._record(NightRun(start, None, None, trouble), folders)
        self.history = read_history(self.suite.folder)

    def _fits(self, job: Job) -> bool:
        budget = self.suite.file.budget_minutes
        if (self.tools.monotonic() - self.began_s) / 60 + job.minutes <= budget:
            return True
        never_words = "" if job.minutes <= budget else f", and never will: a night has {budget:g}"
        self.narrator.say(
            f"{job.member.name} is left out: its {job.minutes:.0f} minutes do not fit "
            f"into the night any more{never_words}"
        )
        return False

    def _run(self, job: Job) -> None:
        name, member = job.member.name, job.member
        folder = variant(member.entry, member.directory, self.suite.folder / "designs")
        experiment = member.design.fleet.experiment
        before = set(run_folders(self.suite.results / experiment))
        self.started += 1
        start = Start(
            night=self.number, number=self.started, at=self.tools.now(), entry=name,
            design=member.directory.name, digest=member.digest, note=member.entry.note,
            experiment=experiment, seed=job.seed, reference_per_s=self.tools.reference_per_s(),
            close=member.entry.close,
        )  # fmt: skip
        self.writer.append(start)
        began_s = self.tools.monotonic()
        command: list[str | Path] = [
            *self.tools.sparecraft,
            "run",
            folder,
            "--results",
            self.suite.results,
            "--seed",
            str(job.seed),
        ]
        if member.entry.close:
            command.append("--close")
        if self.suite.file.quiet_wait_s:
            command += ["--quiet-wait", f"{self.suite.file.quiet_wait_s:g}"]
        ended: Ended | None = None
        with self.narrator.step(f"{name}, seed {job.seed}, about {job.minutes:.0f} minutes"):
            try:
                ended = carry_out(command, self._log(name), job.minutes_max * 60, self.signals)
            finally:
                if self._halted:  # the request is there before the signal
                    self.signals.shield()
                    ended = None
                minutes = round((self.tools.monotonic() - began_s) / 60, 2)
                if ended is None or ended.late or ended.code not in (0, 1, 2, 3):
                    self._down(experiment)
                new = sorted(set(run_folders(self.suite.results / experiment)) - before)
                code = ended.code if ended else 130
                halted = f"the night was halted: {self._halted}" if self._halted else ""
                interrupted = halted or "the night was interrupted while it ran"
                trouble = interrupted if ended is None else ""
                if ended and ended.late:
                    trouble = f"it took longer than {job.minutes_max:.0f} minutes and was ended"
                self._record(NightRun(start, code, minutes, trouble), new)
        if self._halted:
            raise KeyboardInterrupt

    def _record(self, night_run: NightRun, folders: Sequence[Path]) -> None:
        """Record a run from its `folders`, and the run of the planned fleet if there is one."""
        folder, planned = newest_runs(folders)
        lines = lines_of(night_run, folder, self.suite.results, self.tools.now())
        predictions = predictions_of(night_run.start, planned, self.suite.results, self.tools.now())
        self.writer.append(*lines, *predictions)
        if night_run.start.night == self.number:
            self.runs += lines
        first = lines[0]
        words = "valid" if first.valid else "disturbed" if first.disturbed else "not valid"
        if not first.valid:
            words += f": {'; '.join(first.reasons) or 'see it'}"
        self.narrator.detail(words)

    def _down(self, experiment: str) -> None:
        log = self._log("down")
        command = [*self.tools.sparecraft, "down", experiment]
        ended = carry_out(command, log, _DOWN_S, self.signals)
        if ended.code not in (0, 2):  # 2: nothing at all is left of that name
            self.narrator.say(f"the fleet of {experiment} may still be there: see {log}")

    def _log(self, name: str) -> Path:
        return self.suite.folder / "logs" / f"{self.number:05d}-{name}.log"

    @property
    def _halted(self) -> str:
        """The reason that `sparecraft halt` gave; "" where nobody called it."""
        halt = runs.read_halt(self.active_path)
        return halt.reason or "no reason was given" if halt else ""

    def _raise_interrupted(self, left_out: Sequence[str]) -> NoReturn:
        remaining, halted = tuple(dict.fromkeys(left_out)), self._halted
        names = ", ".join(remaining) or "nothing"
        self.writer.append(
            End(night=self.number, at=self.tools.now(), runs=self.started, left_out=remaining,
                halted=halted)
        )  # fmt: skip
        if halted:
            build_site(self.suite)
        raise Interrupted(
            f"night {self.number}",
            expected="to reach its end",
            got=f"`sparecraft halt`: {halted}" if halted else "an interrupt",
            hint=f"What was measured is recorded. Left for the next night: {names}.",
        )

    def _end(self, left_out: tuple[str, ...]) -> Outcome:
        self.history = read_history(self.suite.folder)
        changes = tuple(new_changes(self.history, self.suite.file.watch))
        self.writer.append(
            End(
                night=self.number,
                at=self.tools.now(),
                runs=self.started,
                left_out=left_out,
                changes=tuple(change.identity for change in changes),
            )
        )
        self.history = read_history(self.suite.folder)
        prune(self.suite, self.history)
        with self.narrator.step("Making the site"):
            site = build_site(self.suite)
        missing = incomplete(self.history, self.number)
        promises = tuple(broken(self.history, self.number))
        return Outcome(self.number, tuple(self.runs), left_out, missing, changes, promises, site)
