"""How many times longer an operation took beside a limping machine, as a run of kind limplock says.

Its slowdown has bounds that hold for few repeats (experiments/kinds/limplock/slowdown.py). Where
waits were cut short it is an "at least", and there may be no upper bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from core.config_file import Strict
from core.errors import InputError

Text = Annotated[str, Field(min_length=1)]
_HEAD, _KIND = "result.json", "limplock"
_CHOICE = ("row", "scenario", "arm", "part")
_TOO_FEW = "too few repeats"  # as a run begins the reason that more of them would mend
COPYING = ("F8", "F9", "F10", "F11")
"""Rows whose operation copies blocks from node to node: what a store does after a crash."""


class LimpRun(Strict):
    """A scenario of a run; arm and part where it has several of the row."""

    run: Text
    row: Text
    scenario: Text
    arm: Text | None = None
    part: Text | None = None

    @property
    def choice(self) -> dict[str, str]:
        """What has to be the scenario's."""
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
        """For people: what was measured."""
        return f"{self.row} at {self.scenario} in run {self.run} of {self.experiment}"


def measured_slowdown(asked: LimpRun, folder: Path, place: str) -> MeasuredSlowdown:
    """The slowdown that a run measured.

    Parameters: folder, what a relative `run` is relative to; place, of the key that asks.
    Raises: InputError for a folder that is no valid run of kind limplock, a scenario that it does
    not have or has several of, and one whose slowdown has no bounds.
    """
    head, body = _read(folder / asked.run, place)
    found = _chosen(asked, body["scenarios"], place)
    slowdown = found["slowdown"]
    if slowdown is None:
        raise InputError(
            place,
            expected="a scenario whose slowdown has bounds",
            came=f"{found['repeats']} repeats, insufficient: {found['reason']}",
            do="Measure it with [design] repeats = 3 or more."
            if found["reason"].startswith(_TOO_FEW)
            else "Its page says why; measure again.",
        )
    return MeasuredSlowdown(
        run=head["run"],
        experiment=head["experiment"],
        **{key: found[key] for key in _CHOICE},
        **{key: slowdown[key] for key in ("factor", "at_least", "low", "high")},
        confidence=body["rule"]["confidence"],
        insufficient=found["reason"] if found["operation"] not in ("yes", "no") else "",
    )


def _chosen(
    asked: LimpRun, scenarios: Sequence[Mapping[str, Any]], place: str
) -> Mapping[str, Any]:
    found = [one for one in scenarios if asked.choice.items() <= one.items()]
    if len(found) == 1:
        return found[0]
    of_row = [one for one in scenarios if one["row"] == asked.row]
    rows = ", ".join(dict.fromkeys(one["row"] for one in scenarios))
    known = "; ".join(", ".join(f"{key} {one[key]}" for key in _CHOICE) for one in found or of_row)
    raise InputError(
        place,
        expected=f"one of the scenarios ({known})" if of_row else f"one of the rows {rows}",
        came=f"{len(found)} of them" if found else f"none of them: {_asked(asked)}",
        do="Name row and scenario, and arm and part where there are several.",
    )


def _asked(asked: LimpRun) -> str:
    return ", ".join(f"{key} {value}" for key, value in asked.choice.items())


def _read(folder: Path, place: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The head, and what the kind added to it."""
    try:
        head: Mapping[str, Any] = json.loads((folder / _HEAD).read_text(encoding="utf-8"))
        valid, body = head["valid"], head[_KIND]
        if not isinstance(body["scenarios"], list):
            raise TypeError("scenarios is no list")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            place,
            expected=f"a run of kind {_KIND}, with {_HEAD} in it",
            came=f"{folder}: {error!r}",
            do="`sparecraft run` of such a design makes one; `sparecraft list` shows the runs.",
        ) from error
    if valid is not True:
        raise InputError(
            place,
            expected="a valid run",
            came=f"{head['run']}, which is not",
            do="Its report says why; measure again.",
        )
    return head, body
