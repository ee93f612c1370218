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


def measured_share(run: LimpRun, folder: Path, place: str) -> tuple[float, str]:
    """Return the share of capacity of a limping machine, in [0, 1], and its source.

    Parameters and errors: as `measured_slowdown`.
    """
    slowdown = measured_slowdown(run, folder, place)
    share = 0.0 if slowdown.high is None else min(1.0, 1.0 / slowdown.high)
    return share, _describe(slowdown, share)


def _describe(slowdown: MeasuredSlowdown, share: float) -> str:
    if slowdown.high is None:
        return (
            f"a limping machine counts as nothing: {slowdown.where} was cut short at "
            f"{slowdown.factor:.3g} times its base"
        )
    return (
        f"a limping machine counts as {share:.3g} of one: {slowdown.where} took "
        f"{slowdown.factor:.3g} times as long ({slowdown.low:.3g} to {slowdown.high:.3g}; the "
        "upper end counts)"
    )


def with_measured_limping(source: ConfigFile) -> tuple[ConfigFile, tuple[str, ...]]:
    """Return the plan.toml with numbers in place of runs in [rates] and [[remedies]], and remarks.

    Raises: InputError as `measured_share`, and for a speed without a bound.
    """
    values, remarks = dict(source.values), []
    if isinstance(rates := values.get("rates"), dict):
        values["rates"], text = _replace_runs(rates, source, "rates")
        remarks += text
    if isinstance(remedies := values.get("remedies"), list):
        values["remedies"] = list(remedies)
        for number, remedy in enumerate(remedies):
            if isinstance(remedy, dict):
                values["remedies"][number], text = _replace_runs(remedy, source, "remedies", number)
                remarks += text
    return source.having(values), tuple(remarks)


def _replace_runs(
    table: Mapping[str, Any], source: ConfigFile, *key: str | int
) -> tuple[dict[str, object], list[str]]:
    numbers, remarks = dict(table), []
    for name in KEYS:
        reference = table.get(name)
        if isinstance(reference, dict):
            run = check(source.part(reference, *key, name), LimpRun)
            place = source.place(*key, name)
            numbers[name], text = measured_share(run, source.path.parent, place)
            if name == "limp_speed" and not numbers[name]:
                expected = "a slowdown with an upper bound, as the speed is above 0"
                raise InputError(place, expected=expected, got="waits that were cut short")
            remarks.append(f"{_table_name(table, *key)}: {text}")
    return numbers, remarks


def _table_name(table: Mapping[str, Any], *key: str | int) -> str:
    return f"remedy {table.get('name', '')}" if key[0] == "remedies" else "limping"
