"""The lifecycle of a run of any kind: nothing is left behind, and no data is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.markup import escape

from core.errors import Interrupted, as_reason
from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import FILE, Result
from experiments.console import Narrator
from experiments.design import Design
from experiments.record.records import point_latest, write_json
from experiments.record.result import passed, result_of
from experiments.run.kind import Kind, SectionT
from experiments.testbed import runs
from experiments.testbed.guard import Stop, Stopped
from experiments.testbed.platforms import Platform
from experiments.testbed.signals import ending_signals
from experiments.testbed.testbed import Testbed


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    folder: Path
    result: Result
    page: Path

    @property
    def passed(self) -> bool:
        """Valid, its SLO met, the fleet gone."""
        return passed(self.result)


def run_experiment(
    kind: Kind[SectionT],
    design: Design,
    section: SectionT,
    *,
    results: Path,
    platform: Platform,
    keep: bool,
    command: Sequence[str],
    narrator: Narrator,
    quiet_wait_s: float = 0.0,
    part: str = "",
    hands_on: bool = False,
) -> Outcome:
    """Return a run, from a checked design to a folder of results. Raises what ended it early, after
    clean-up and with the data kept.

    Parameters: section, the kind's own, as `section_of` returns it; keep the fleet afterwards;
    quiet_wait_s, how long each block may wait for a quiet host [s]; part, the folder of the
    experiment's that its runs are kept in, by default the kind's if it is not the design's own;
    hands_on, the fleet of a run that came to its end stays up for the caller, who removes it.
    """
    kind.check_host(design, section, platform)
    folder = results.resolve() / design.fleet.experiment
    folder /= part or (kind.name if kind.name != design.experiment.kind else "")
    testbed = Testbed(
        kind.adapted(design, section),
        folder,
        platform,
        narrator,
        command,
        section={kind.name: keys} if (keys := section.model_dump(mode="json")) else None,
        quiet_wait_s=quiet_wait_s,
    )
    with ending_signals(narrator.say) as signals, runs.registered(_active(testbed)) as told:
        failure: BaseException | None = None
        try:
            testbed.folder.mkdir(parents=True)
            if kind.needs_fleet:
                testbed.prepare()
            kind.measure(testbed, section)
        except BaseException as error:  # raised again below, once nothing is left behind
            failure = _halted(testbed, error, told)
            testbed.failed(failure)
            if isinstance(failure, Stopped):
                narrator.say(f"[bold red]{escape(str(failure))}[/bold red]")
        signals.shield()
        whole = failure is None
        _clean_up(testbed, keep=keep and whole, hands_on=hands_on and whole)
        try:
            outcome = _conclude(kind, testbed, cut_short=failure is not None)
        except Exception as error:  # what ended the run comes first, also before a page's defect
            narrator.say(f"[bold red]error[/bold red] {escape(as_reason(error))}")
            failure, outcome = failure or error, None
        if isinstance(failure, KeyboardInterrupt):
            raise _interrupted(testbed) from None
        if isinstance(failure, Stopped):
            failure.hint = _describe_end(testbed)
        if failure is not None:
            raise failure
        assert outcome is not None  # only a run that was cut short has nothing to keep
        return outcome


def _clean_up(testbed: Testbed, *, keep: bool, hands_on: bool) -> None:
    """Collect, and remove what is not handed on, the one whatever becomes of the other: what went
    wrong is said, and is a reason of the verdict; what was measured is still to be written."""
    steps: Sequence[Callable[[], None]] = (testbed.collect, partial(testbed.remove, keep=keep))
    for step in steps[:1] if hands_on else steps:
        try:
            step()
        except Exception as error:
            for one in _with_those_before(error):
                testbed.verdicts.cleanup.fail(as_reason(one))
    for reason in testbed.verdicts.cleanup.reasons:
        testbed.narrator.say(f"[bold red]clean-up[/bold red] {escape(reason)}")


def _with_those_before(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and those that it came after: undoing may fail, and then collecting too."""
    while error is not None:
        yield error
        error = None if error.__suppress_context__ else error.__context__


def _conclude(kind: Kind[Any], testbed: Testbed, *, cut_short: bool) -> Outcome | None:
    """Write everything that was measured; None when there was nothing."""
    folder = testbed.folder
    if not folder.is_dir() or not testbed.write(cut_short=cut_short):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    with testbed.narrator.step("Writing results and report"):
        result = result_of(kind.name, manifest_if_any(folder), kind.analyse(folder))
        write_json(folder / FILE, result)
        page = kind.write_page(folder)
        point_latest(folder)
        return Outcome(folder, result, page)


def _active(testbed: Testbed) -> runs.Active:
    return runs.Active(
        pid=os.getpid(),
        experiment=testbed.design.fleet.experiment,
        design=testbed.design.name,
        folder=str(testbed.folder),
        started=testbed.clock.wall.isoformat(),
    )


def _halted(testbed: Testbed, error: BaseException, told: Path) -> BaseException:
    """Return the interrupt that `sparecraft halt` or a watchdog's end sent as what it was; any
    other error as it is.
    """
    halt = runs.read_halt(told) if isinstance(error, KeyboardInterrupt) else None
    if halt is None:
        return error
    at = testbed.clock.monotonic + (halt.at - testbed.clock.wall).total_seconds()
    return Stopped(Stop(halt.by, "", halt.reason, at))


def _describe_end(testbed: Testbed) -> str:
    """Return the fate of the fleet and of what was measured."""
    became = "stays" if testbed.platform.is_attached else "was removed"
    said = f"Faults were undone and the fleet {became}."
    if not testbed.has_fleet:
        said = "Nothing was disturbed."
    if not testbed.is_removed:
        name = testbed.design.fleet.experiment
        said = f"The clean-up failed: `sparecraft down {name}` removes what is left of the fleet."
    elif testbed.verdicts.cleanup.reasons:
        said = f"The fleet {became}; what went wrong before that is told above."
    kept = f"What was measured is in {testbed.folder}."
    if (page := testbed.folder / "report.html").is_file():
        kept = f"What was measured: {page}"
    return f"{said} {kept if testbed.folder.is_dir() else 'Nothing was measured.'}"


def _interrupted(testbed: Testbed) -> Interrupted:
    return Interrupted(
        f"run {testbed.run} of {testbed.design.fleet.experiment}",
        expected="to reach its end",
        got="an interrupt",
        hint=_describe_end(testbed),
    )
