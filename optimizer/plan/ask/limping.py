"""What a limping machine still does, as a run of kind limplock measured it.

In plan.toml `limp_capacity` and `limp_speed` are numbers, or name a scenario of a run of a limplock
design: where the row's operation takes S times longer, a limping machine counts as 1 / S of one.
S is the upper bound of the slowdown, so that a plan does not rest on the lucky end; where waits
were cut short there is none, and a limping machine counts as nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from optimizer.errors import InputError
from optimizer.source import Source, Strict, check

Text = Annotated[str, Field(min_length=1)]
KEYS = ("limp_capacity", "limp_speed")
_HEAD, _KIND = "result.json", "limplock"
_CHOICE = ("row", "scenario", "arm", "part")


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


def measured_share(asked: LimpRun, folder: Path, place: str) -> tuple[float, str]:
    """The share of a machine that a limping one is, in [0, 1], and where that is from.

    Parameters: folder, what a relative `run` is relative to; place, of the key that asks.
    Raises: InputError for a folder that is no valid run of kind limplock, a scenario that it does
    not have or has several of, and one whose slowdown too few repeats tell.
    """
    head, scenarios = _read(folder / asked.run, place)
    found = [one for one in scenarios if asked.choice.items() <= one.items()]
    if len(found) != 1:
        known = "; ".join(
            ", ".join(f"{key} {one[key]}" for key in _CHOICE) for one in found or scenarios
        )
        raise InputError(
            place,
            expected=f"one of the scenarios ({known})",
            came="none of them" if not found else f"{len(found)} of them",
            do="Name row and scenario, and arm and part where there are several.",
        )
    slowdown = found[0]["slowdown"]
    if slowdown is None:
        raise InputError(
            place,
            expected="a scenario with repeats enough to bound its slowdown",
            came=f"{found[0]['repeats']} repeats",
            do="Measure it with [design] repeats = 3 or more.",
        )
    return _share(slowdown), _said(asked, head, slowdown)


def _share(slowdown: Mapping[str, Any]) -> float:
    return 0.0 if slowdown["high"] is None else min(1.0, 1.0 / float(slowdown["high"]))


def _said(asked: LimpRun, head: Mapping[str, Any], slowdown: Mapping[str, Any]) -> str:
    where = f"{asked.row} at {asked.scenario} in run {head['run']} of {head['experiment']}"
    if slowdown["high"] is None:
        return (
            f"a limping machine counts as nothing: {where} was cut short at "
            f"{slowdown['factor']:.3g} times its base"
        )
    return (
        f"a limping machine counts as {_share(slowdown):.3g} of one: {where} took "
        f"{slowdown['factor']:.3g} times as long ({slowdown['low']:.3g} to {slowdown['high']:.3g}; "
        "the upper end counts)"
    )


def _read(folder: Path, place: str) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """The head, and all scenarios."""
    path = folder / _HEAD
    try:
        head: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if head["valid"] is not True:
            raise InputError(
                place,
                expected="a valid run",
                came=f"{head['run']}, which is not",
                do="Its report says why; measure again.",
            )
        return head, head[_KIND]["scenarios"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            place,
            expected=f"a run of kind {_KIND}, with {_HEAD} in it",
            came=f"{folder}: {error!r}",
            do="`sparecraft run` of such a design makes one; `sparecraft list` shows the runs.",
        ) from error


def with_measured_limping(source: Source) -> tuple[Source, tuple[str, ...]]:
    """The plan.toml with numbers for runs in [rates] and [[remedies]], and what has to be said.

    Raises: InputError as `measured_share`, and for a speed that no bound tells.
    """
    values, said = dict(source.values), []
    if isinstance(rates := values.get("rates"), dict):
        values["rates"], text = _in_numbers(rates, source, "rates")
        said += text
    if isinstance(remedies := values.get("remedies"), list):
        values["remedies"] = list(remedies)
        for number, remedy in enumerate(remedies):
            if isinstance(remedy, dict):
                values["remedies"][number], text = _in_numbers(remedy, source, "remedies", number)
                said += text
    return source.having(values), tuple(said)


def _in_numbers(
    table: Mapping[str, Any], source: Source, *key: str | int
) -> tuple[dict[str, Any], list[str]]:
    found, said = dict(table), []
    for name in KEYS:
        asked = table.get(name)
        if isinstance(asked, dict):
            run = check(source.part(asked, *key, name), LimpRun)
            place = source.place(*key, name)
            found[name], text = measured_share(run, source.path.parent, place)
            if name == "limp_speed" and not found[name]:
                expected = "a slowdown with an upper bound, as the speed is above 0"
                raise InputError(place, expected=expected, came="waits that were cut short")
            said.append(f"{_name(table, *key)}: {text}")
    return found, said


def _name(table: Mapping[str, Any], *key: str | int) -> str:
    return f"remedy {table.get('name', '')}" if key[0] == "remedies" else "limping"
