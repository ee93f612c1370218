"""The closed loop of `sparecraft run --close`: measure, plan, change the fleet, measure again.

The first half is an ordinary run, whose fleet stays up. Its plan becomes a design (`adopt.py`),
Terraform changes the fleet in place, so that unchanged machines keep running, and the second half
measures the plan's promise (`record/metrics/promise.py`). Its runs are kept in EXPERIMENT/planned.
With `next_cheaper` the fleet that the plan refused is measured after it, in EXPERIMENT/refused.

At any end of the loop the fleet is removed, and all measurements are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InputError, Interrupted, as_reason
from experiments import kinds
from experiments.console import Narrator
from experiments.design import Design
from experiments.design.prediction import PLANNED_FOLDER, REFUSED_FOLDER, REFUSED_PLAN
from experiments.kinds.compare.adopt import adopt
from experiments.record.result import validity
from experiments.run.kind import Kind
from experiments.run.lifecycle import Outcome, run_experiment
from experiments.testbed.platforms import Platform
from experiments.testbed.signals import ending_signals


@dataclass(frozen=True)
class Closed:
    """The outcome of a loop; `planned` is None where it could not be closed, and `why_not` says
    why. `refused` is the run of the next cheaper fleet. `left` has the remains of a fleet that was
    to be removed."""

    measured: Outcome
    planned: Outcome | None = None
    why_not: str = ""
    refused: Outcome | None = None
    left: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True if the last half passed: its run is valid, its SLO not missed, the fleet gone."""
        return (self.planned or self.measured).passed and not self.left


@dataclass(frozen=True)
class Loop:
    """Settings of both halves; `platform` makes the fleet's platform for each of them."""

    results: Path
    platform: Callable[[], Platform]
    keep: bool
    command: Sequence[str]
    narrator: Narrator
    quiet_wait_s: float = 0.0
    next_cheaper: bool = False
    load_s: float | None = None  # longest time of load on the planned fleet; None: adopt's

    def run_half(
        self,
        kind: Kind[Any],
        design: Design,
        *,
        keep: bool = False,
        part: str = "",
        hands_on: bool = False,
    ) -> Outcome:
        """Carry out one half. Raises the error that ended it early."""
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
        """Remove the fleet if it still exists, and return what could not be removed."""
        platform = self.platform()
        if not platform.remaining():
            return ()
        with self.narrator.step("Removing the fleet (terraform destroy)"):
            platform.down(self.narrator.detail)
        return tuple(platform.remaining())


def close(kind: Kind[Any], design: Design, loop: Loop, tell: Callable[[Outcome], None]) -> Closed:
    """Carry out both halves; `tell` gets the first one's outcome before the second begins.

    Raises the error that ended a half early or came between the halves, after clean-up; all data
    are kept.
    """
    with ending_signals(loop.narrator.say) as signals:
        try:
            measured = loop.run_half(kind, design, hands_on=True)
            tell(measured)
            design_or_reason = planned_design(measured, loop.load_s)
            if isinstance(design_or_reason, Design):
                loop.narrator.say("The plan is put to the test: the fleet is changed in place")
                return _measure_plan(measured, design_or_reason, loop, tell)
            signals.shield()
            return Closed(measured, None, design_or_reason, left=() if loop.keep else loop.remove())
        except BaseException as error:  # raised again below, once nothing is left behind
            signals.shield()
            _remove_after(loop)
            if isinstance(error, KeyboardInterrupt):
                raise _interrupted(design) from None
            raise


def _measure_plan(
    measured: Outcome, design: Design, loop: Loop, tell: Callable[[Outcome], None]
) -> Closed:
    """Measure the planned fleet, and with `next_cheaper` the fleet that the plan refused."""
    kind = kinds.kind_of(design)
    cheaper = _refused_design(measured, design, loop) if loop.next_cheaper else None
    if cheaper is None:
        return Closed(measured, loop.run_half(kind, design, keep=loop.keep, part=PLANNED_FOLDER))
    planned = loop.run_half(kind, design, hands_on=True, part=PLANNED_FOLDER)
    tell(planned)
    loop.narrator.say("The next cheaper fleet, which the plan refused, is measured too")
    refused = loop.run_half(kind, cheaper, keep=loop.keep, part=REFUSED_FOLDER)
    return Closed(measured, planned, refused=refused)


def _refused_design(measured: Outcome, design: Design, loop: Loop) -> Design | None:
    """Return the design of the fleet that the plan refused; None, and a message, without one."""
    plan = measured.folder / REFUSED_PLAN
    try:
        if plan.is_file():
            folder = measured.folder / f"{design.directory.name}-{REFUSED_FOLDER}"
            return adopt(
                measured.folder, to=folder, plan_file=plan, in_place=True, load_s=loop.load_s
            )
        reason = "the plan refused no cheaper fleet"
    except InputError as error:
        reason = str(error)
    loop.narrator.say(f"No cheaper fleet is measured: {reason}")
    return None


def planned_design(outcome: Outcome, load_s: float | None = None) -> Design | str:
    """Return the plan's design for the running fleet, or the reason why there is none."""
    result = outcome.result
    if (answer := validity(result)) != "yes":
        state = "was disturbed" if answer == "disturbed" else "is not valid"
        return f"the run {state}, so no plan is made of it"
    if result[result["kind"]]["plan"]["feasible"] is False:
        return "the plan found no fleet within its limits"
    try:
        return adopt(outcome.folder, in_place=True, load_s=load_s)
    except InputError as error:
        return str(error)


def _remove_after(loop: Loop) -> None:
    """Remove the fleet; report a failure without raising it, so that the loop's error is raised."""
    try:
        remains = loop.remove()
    except Exception as error:
        remains = (as_reason(error),)
    for remnant in remains:
        loop.narrator.say(f"clean-up: {remnant}", style="bold red")


def _interrupted(design: Design) -> Interrupted:
    return Interrupted(
        f"the closed loop of {design.fleet.experiment}",
        expected="to reach its end",
        got="an interrupt between its halves",
        hint="The first half's run is kept; a fleet that could not be removed is named above.",
    )
