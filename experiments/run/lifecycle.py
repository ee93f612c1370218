"""The lifecycle of a run of any kind: nothing is left behind, and no data is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from core.errors import Interrupted, as_reason
from core.runfiles.result import Result
from experiments.console import Narrator
from experiments.design import Design
from experiments.record.records import point_latest
from experiments.record.result import passed
from experiments.run.kind import Kind, SectionT
from experiments.testbed import runs
from experiments.testbed.guard import Stop, Stopped
from experiments.testbed.platforms import Platform
from experiments.testbed.signals import ending_signals
from experiments.testbed.testbed import Testbed


@dataclass(frozen=True)
class Outcome:
    folder: Path
    result: Result
    page: Path

    @property
    def passed(self) -> bool:
        """True if the run is valid, its SLO is met, and the fleet is gone."""
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
    """Run a checked design, and return the outcome with its folder of results. If an error ends the
    run early, raises it after the clean-up; the data is kept.

    Parameters: section, the kind's own, as `section_of` returns it; keep, leave the fleet up
    afterwards; quiet_wait_s, how long each block may wait for a quiet host [s]; part, the folder
    for the runs in the experiment's folder, by default the kind's if the design's kind is another;
    hands_on, leave the fleet of a complete run up for the caller, who removes it.
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
    with ending_signals(narrator.say) as signals, runs.registered(_active_run(testbed)) as run_file:
        failure: BaseException | None = None
        try:
            testbed.folder.mkdir(parents=True)
            if kind.needs_fleet:
                testbed.prepare()
            kind.measure(testbed, section)
        except BaseException as error:  # raised again below, once nothing is left behind
            failure = _as_stopped(testbed, error, run_file)
            testbed.note_failure(failure)
            if isinstance(failure, Stopped):
                narrator.say(str(failure), style="bold red")
        signals.shield()
        is_complete = failure is None
        _clean_up(testbed, keep=keep and is_complete, hands_on=hands_on and is_complete)
        try:
            outcome = _conclude(kind, testbed, cut_short=failure is not None)
        except Exception as error:  # what ended the run comes first, also before a page's defect
            narrator.say(f"error {as_reason(error)}", style="bold red")
            failure, outcome = failure or error, None
        if isinstance(failure, KeyboardInterrupt):
            raise _interrupt_error(testbed) from None
        if isinstance(failure, Stopped):
            failure.hint = _describe_end(testbed)
        if failure is not None:
            raise failure
        assert outcome is not None  # only a run that was cut short has nothing to keep
        return outcome


def _clean_up(testbed: Testbed, *, keep: bool, hands_on: bool) -> None:
    """Collect the data, and remove the fleet unless it is handed on; a failure of one step does not
    stop the other. Failures are printed and are reasons of the verdict, because the measurements
    are still to be written."""
    steps: Sequence[Callable[[], None]] = (testbed.collect, partial(testbed.remove, keep=keep))
    for step in steps[:1] if hands_on else steps:
        try:
            step()
        except Exception as error:
            for cause in _causes_of(error):
                testbed.verdicts.cleanup.fail(as_reason(cause))
    for reason in testbed.verdicts.cleanup.reasons:
        testbed.narrator.say(f"clean-up: {reason}", style="bold red")


def _causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and the errors before it: undoing may fail, and then collecting too."""
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
        result = kind.conclude(folder)
        page = kind.write_page(folder)
        point_latest(folder)
        return Outcome(folder, result, page)


def _active_run(testbed: Testbed) -> runs.Active:
    return runs.Active(
        pid=os.getpid(),
        experiment=testbed.design.fleet.experiment,
        design=testbed.design.name,
        folder=str(testbed.folder),
        started=testbed.clock.wall.isoformat(),
    )


def _as_stopped(testbed: Testbed, error: BaseException, run_file: Path) -> BaseException:
    """Return an interrupt that `sparecraft halt` or a watchdog's end sent as Stopped, and any
    other error as it is.
    """
    halt = runs.read_halt(run_file) if isinstance(error, KeyboardInterrupt) else None
    if halt is None:
        return error
    at = testbed.clock.monotonic + (halt.at - testbed.clock.wall).total_seconds()
    return Stopped(Stop(halt.by, "", halt.reason, at))


def _describe_end(testbed: Testbed) -> str:
    """Return the fate of the fleet and of the measurements."""
    fleet_fate = "stays" if testbed.platform.is_attached else "was removed"
    end_text = f"Faults were undone and the fleet {fleet_fate}."
    if not testbed.has_fleet:
        end_text = "Nothing was disturbed."
    if not testbed.is_removed:
        name = testbed.design.fleet.experiment
        end_text = (
            f"The clean-up failed: `sparecraft down {name}` removes what is left of the fleet."
        )
    elif testbed.verdicts.cleanup.reasons:
        end_text = f"The fleet {fleet_fate}; what went wrong before that is told above."
    data_text = f"What was measured is in {testbed.folder}."
    if (page := testbed.folder / "report.html").is_file():
        data_text = f"What was measured: {page}"
    return f"{end_text} {data_text if testbed.folder.is_dir() else 'Nothing was measured.'}"


def _interrupt_error(testbed: Testbed) -> Interrupted:
    return Interrupted(
        f"run {testbed.run} of {testbed.design.fleet.experiment}",
        expected="to reach its end",
        got="an interrupt",
        hint=_describe_end(testbed),
    )
