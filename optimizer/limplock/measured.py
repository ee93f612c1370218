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
_TOO_FEW = "too few repeats"  # begin of the reason in a run that more repeats would help
COPYING = ("F8", "F9", "F10", "F11")
"""Rows whose operation copies blocks from node to node, as a store does after a crash."""


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
    """Factor by which the row's operation took longer: median and bounds, each at `confidence`.

    at_least: the median is of waits that were cut short. high None: no bound, for the same reason.
    insufficient: the reason that the run does not judge the operation, or empty.
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


def measured_slowdown(limp_run: LimpRun, folder: Path, place: str) -> MeasuredSlowdown:
    """Return the slowdown [-] that a run measured.

    Parameters: folder, the base of a relative `run`; place, the key that names the run. Raises:
    InputError for a folder that is no valid run of kind limplock, for a missing or ambiguous
    scenario, and for a slowdown without bounds.
    """
    result = part_of(folder / limp_run.run, "limplock", _Result, place)
    result.require_valid(place)
    scenario = _choose(limp_run, result.limplock.scenarios, place)
    slowdown = scenario.slowdown
    if slowdown is None:
        raise InputError(
            place,
            expected="a scenario whose slowdown has bounds",
            got=f"{scenario.repeats} repeats, insufficient: {scenario.reason}",
            hint="Measure it with [design] repeats = 3 or more."
            if scenario.reason.startswith(_TOO_FEW)
            else "Its page says why; measure again.",
        )
    return MeasuredSlowdown(
        run=result.run,
        experiment=result.experiment,
        **scenario.model_dump(include=set(_CHOICE)),
        **slowdown.model_dump(),
        confidence=result.limplock.rule.confidence,
        insufficient=scenario.reason if scenario.operation not in ("yes", "no") else "",
    )


def _choose(limp_run: LimpRun, scenarios: Sequence[_Scenario], place: str) -> _Scenario:
    matches = [
        scenario for scenario in scenarios if limp_run.choice.items() <= scenario.choice.items()
    ]
    if len(matches) == 1:
        return matches[0]
    row_scenarios = [scenario for scenario in scenarios if scenario.row == limp_run.row]
    rows = ", ".join(dict.fromkeys(scenario.row for scenario in scenarios))
    listed = "; ".join(_text(scenario.choice) for scenario in matches or row_scenarios)
    raise InputError(
        place,
        expected=f"one of the scenarios ({listed})" if row_scenarios else f"one of the rows {rows}",
        got=f"{len(matches)} of them" if matches else f"none of them: {_text(limp_run.choice)}",
        hint="Name row and scenario, and arm and part if there are several.",
    )


def _text(choice: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in choice.items())
