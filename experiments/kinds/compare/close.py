"""The closed loop of `sparecraft run --close`: measure, plan, change the fleet, measure again.

The first half is an ordinary run, whose fleet stays up. Its plan becomes a design (`adopt.py`),
Terraform changes the fleet in place, so that unchanged machines keep running, and the second half
measures the plan's promise (`record/metrics/promise.py`). Its runs are kept in EXPERIMENT/planned.

At any end of the loop the fleet is removed, and all measurements are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape

from core.errors import InputError, Interrupted, as_reason
from experiments import kinds
from experiments.console import Narrator
from experiments.design import Design
from experiments.design.prediction import PLANNED_FOLDER
from experiments.kinds.compare.adopt import adopt
from experiments.record.result import validity
from experiments.run.kind import Kind
from experiments.run.lifecycle import Outcome, run_experiment
from experiments.testbed.platforms import Platform
from experiments.testbed.signals import ending_signals


@dataclass(frozen=True)
class Closed:
    """The outcome of a loop; `planned` is None where it could not be closed, and `why_not` says
    why. `left`: what is still there of a fleet that was to be removed."""

    measured: Outcome
    planned: Outcome | None = None
    why_not: str = ""
    left: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True if the last half passed: its run is valid, its SLO not missed, the fleet gone."""
        return (self.planned or self.measured).passed and not self.left


@dataclass(frozen=True)
class Loop:
    """Settings of both halves; `platform` makes the fleet's for each of them."""

    results: Path
    platform: Callable[[], Platform]
    keep: bool
    command: Sequence[str]
    narrator: Narrator
    quiet_wait_s: float = 0.0

    def half(
        self,
        kind: Kind[Any],
        design: Design,
        *,
        keep: bool = False,
        part: str = "",
        hands_on: bool = False,
    ) -> Outcome:
        """Carry out one. Raises what ended it early."""
        return run_experiment(
            kind,
            design,
            kinds.section_of(kind, design),
            results=self.results,
            platform=self.platform(),
            keep=keep,
            command=self.command,
            narrator=self.narrator,
            quiet_wait_s=self.quiet_wait_s,
            part=part,
            hands_on=hands_on,
        )

    def remove(self) -> tuple[str, ...]:
        """Remove the fleet where it is still there, and return what is left of it all the same."""
        platform = self.platform()
        if not platform.remaining():
            return ()
        with self.narrator.step("Removing the fleet (terraform destroy)"):
            platform.down(self.narrator.detail)
        return tuple(platform.remaining())


def close(kind: Kind[Any], design: Design, loop: Loop, tell: Callable[[Outcome], None]) -> Closed:
    """Carry out both halves; `tell` is given the first one's outcome before the second begins.

    Raises what ended a half early, or came between them, after clean-up and with the data kept.
    """
    with ending_signals(loop.narrator.say) as signals:
        try:
            measured = loop.half(kind, design, hands_on=True)
            tell(measured)
            found = planned_design(measured)
            if isinstance(found, Design):
                loop.narrator.say("The plan is put to the test: the fleet is changed in place")
                second = kinds.kind_of(found)
                planned = loop.half(second, found, keep=loop.keep, part=PLANNED_FOLDER)
                return Closed(measured, planned)
            signals.shield()
            return Closed(measured, None, found, () if loop.keep else loop.remove())
        except BaseException as error:  # raised again below, once nothing is left behind
            signals.shield()
            _remove_after(loop)
            if isinstance(error, KeyboardInterrupt):
                raise _interrupted(design) from None
            raise


def planned_design(measured: Outcome) -> Design | str:
    """Return the design of the plan, for the fleet that is up; the reason where there is none."""
    result = measured.result
    if (word := validity(result)) != "yes":
        said = "was disturbed" if word == "disturbed" else "is not valid"
        return f"the run {said}, so no plan is made of it"
    if result[result["kind"]]["plan"]["feasible"] is False:
        return "the plan found no fleet within its limits"
    try:
        return adopt(measured.folder, in_place=True)
    except InputError as error:
        return str(error)


def _remove_after(loop: Loop) -> None:
    """Remove the fleet; say what fails, so that what ended the loop is raised."""
    try:
        left = loop.remove()
    except Exception as error:
        left = (as_reason(error),)
    for one in left:
        loop.narrator.say(f"[bold red]clean-up[/bold red] {escape(one)}")


def _interrupted(design: Design) -> Interrupted:
    return Interrupted(
        f"the closed loop of {design.fleet.experiment}",
        expected="to reach its end",
        got="an interrupt between its halves",
        hint="The first half's run is kept; a fleet that could not be removed is named above.",
    )
