"""Capacity of a limping machine, from a run of kind limplock.

In plan.toml `limp_capacity` and `limp_speed` are numbers, or name a scenario of a run of a limplock
design: if the row's operation takes S times longer, a limping machine counts as 1 / S of one. S is
the upper bound of the slowdown, which is the safe side. If waits were cut short there is no upper
bound, and a limping machine counts as nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.config_file import ConfigFile, check
from core.errors import InputError
from optimizer.limplock import LimpRun, MeasuredSlowdown, measured_slowdown

KEYS = ("limp_capacity", "limp_speed")


def measured_share(asked: LimpRun, folder: Path, place: str) -> tuple[float, str]:
    """Return the share of capacity of a limping machine, in [0, 1], and its source.

    Parameters and errors: as `measured_slowdown`.
    """
    found = measured_slowdown(asked, folder, place)
    share = 0.0 if found.high is None else min(1.0, 1.0 / found.high)
    return share, _describe(found, share)


def _describe(found: MeasuredSlowdown, share: float) -> str:
    if found.high is None:
        return (
            f"a limping machine counts as nothing: {found.where} was cut short at "
            f"{found.factor:.3g} times its base"
        )
    return (
        f"a limping machine counts as {share:.3g} of one: {found.where} took {found.factor:.3g} "
        f"times as long ({found.low:.3g} to {found.high:.3g}; the upper end counts)"
    )


def with_measured_limping(source: ConfigFile) -> tuple[ConfigFile, tuple[str, ...]]:
    """Return the plan.toml with numbers in place of runs in [rates] and [[remedies]], and remarks.

    Raises: InputError as `measured_share`, and for a speed that no bound tells.
    """
    values, remarks = dict(source.values), []
    if isinstance(rates := values.get("rates"), dict):
        values["rates"], text = _in_numbers(rates, source, "rates")
        remarks += text
    if isinstance(remedies := values.get("remedies"), list):
        values["remedies"] = list(remedies)
        for number, remedy in enumerate(remedies):
            if isinstance(remedy, dict):
                values["remedies"][number], text = _in_numbers(remedy, source, "remedies", number)
                remarks += text
    return source.having(values), tuple(remarks)


def _in_numbers(
    table: Mapping[str, Any], source: ConfigFile, *key: str | int
) -> tuple[dict[str, object], list[str]]:
    found, remarks = dict(table), []
    for name in KEYS:
        asked = table.get(name)
        if isinstance(asked, dict):
            run = check(source.part(asked, *key, name), LimpRun)
            place = source.place(*key, name)
            found[name], text = measured_share(run, source.path.parent, place)
            if name == "limp_speed" and not found[name]:
                expected = "a slowdown with an upper bound, as the speed is above 0"
                raise InputError(place, expected=expected, got="waits that were cut short")
            remarks.append(f"{_name(table, *key)}: {text}")
    return found, remarks


def _name(table: Mapping[str, Any], *key: str | int) -> str:
    return f"remedy {table.get('name', '')}" if key[0] == "remedies" else "limping"
