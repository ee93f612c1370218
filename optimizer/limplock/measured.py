"""Slowdown of an operation beside a limping machine, from a run of kind limplock.

Its slowdown has bounds that hold for few repeats
(experiments/kinds/limplock/judge/slowdown.py). If waits were cut short it is an "at least", and
there may be no upper bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from core.config_file import Interval, Positive, Strict, Text, Written
from core.errors import InputError
from core.runfiles.part import Part, part_of

_CHOICE = ("row", "scenario", "arm", "part")
_TOO_FEW = "too few repeats"  # as a run begins the reason that more of them would mend
COPYING = ("F8", "F9", "F10", "F11")
"""Rows whose operation copies blocks from node to node: what a store does after a crash."""


class LimpRun(Strict):
    """A scenario of a run; arm and part if the run has several for the row."""

    run: Text
    row: Text
    scenario: Text
    arm: Text | None = None
    part: Text | None = None

    @property
    def choice(self) -> dict[str, str]:
        """The fields that have to be the scenario's."""
        return self.model_dump(include=set(_CHOICE), exclude_none=True)


@dataclass(frozen=True)
class MeasuredSlowdown:
    """Times that the row's operation took longer, median and bounds, each at that confidence.

    at_least: the median is of waits that were cut short. high None: no bound, for the same reason.
    insufficient: why the run does not judge the operation; empty where it does.
    """

    run: str
    experiment: str
    row: str
    scenario: str
    arm: str
    part: str
    factor: float
    at_least: bool
    low: float
    high: float | None
    confidence: float
    insufficient: str = ""

    @property
    def where(self) -> str:
        """The measured row and scenario, in words."""
        return f"{self.row} at {self.scenario} in run {self.run} of {self.experiment}"


class _Bounds(Interval):
    """A slowdown, with its bounds."""

    factor: Positive
    at_least: bool


class _Scenario(Written):
    """One scenario of a run."""

    row: str
    scenario: str
    arm: str
    part: str
    repeats: int
    operation: str
    reason: str
    slowdown: _Bounds | None

    @property
    def choice(self) -> dict[str, str]:
        return {key: getattr(self, key) for key in _CHOICE}


class _Rule(Written):
    confidence: Annotated[float, Field(gt=0, lt=1)]


class _Body(Written):
    rule: _Rule
    scenarios: list[_Scenario]


class _Result(Part):
    experiment: str
    limplock: _Body


def measured_slowdown(asked: LimpRun, folder: Path, place: str) -> MeasuredSlowdown:
    """Return the slowdown [-] that a run measured.

    Parameters: folder, the base of a relative `run`; place, the key that names the run. Raises:
    InputError for a folder that is no valid run of kind limplock, for a missing or ambiguous
    scenario, and for a slowdown without bounds.
    """
    result = part_of(folder / asked.run, "limplock", _Result, place)
    result.require_valid(place)
    found = _chosen(asked, result.limplock.scenarios, place)
    slowdown = found.slowdown
    if slowdown is None:
        raise InputError(
            place,
            expected="a scenario whose slowdown has bounds",
            got=f"{found.repeats} repeats, insufficient: {found.reason}",
            hint="Measure it with [design] repeats = 3 or more."
            if found.reason.startswith(_TOO_FEW)
            else "Its page says why; measure again.",
        )
    return MeasuredSlowdown(
        run=result.run,
        experiment=result.experiment,
        row=found.row,
        scenario=found.scenario,
        arm=found.arm,
        part=found.part,
        factor=slowdown.factor,
        at_least=slowdown.at_least,
        low=slowdown.low,
        high=slowdown.high,
        confidence=result.limplock.rule.confidence,
        insufficient=found.reason if found.operation not in ("yes", "no") else "",
    )


def _chosen(asked: LimpRun, scenarios: Sequence[_Scenario], place: str) -> _Scenario:
    found = [one for one in scenarios if asked.choice.items() <= one.choice.items()]
    if len(found) == 1:
        return found[0]
    of_row = [one for one in scenarios if one.row == asked.row]
    rows = ", ".join(dict.fromkeys(one.row for one in scenarios))
    known = "; ".join(_text(one.choice) for one in found or of_row)
    raise InputError(
        place,
        expected=f"one of the scenarios ({known})" if of_row else f"one of the rows {rows}",
        got=f"{len(found)} of them" if found else f"none of them: {_text(asked.choice)}",
        hint="Name row and scenario, and arm and part if there are several.",
    )


def _text(choice: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in choice.items())
