"""Measurements of the design that a run lacks: arms, rows, limping parts, repeats of scenarios.

A row whose parts moved in every attempt leaves a gap, as does a run that was cut short. Verdicts
from the existing measurements stand; the verdict on the whole run states the gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from experiments.kinds.limplock.scenarios import BASE, label
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import Window

_NOTHING = "nothing was measured"


def missing_measurements(spec: Mapping[str, Any], windows: Sequence[Window]) -> list[str]:
    """Describe the gaps, the largest first: whole rows, whole arms, then the rest row by row.

    Parameters: spec, of the manifest. A search needs all repeats of both ends of its axis and of
    each value that it tried.
    """
    section = LimplockSection.model_validate(spec["limplock"])
    rows, repeats = section.chosen_rows(), _repeats(spec, section)
    scenarios = [scenario.name for scenario in section.scenarios]
    measured: dict[tuple[str, str, str], dict[str, set[int]]] = {}
    for window in windows:
        # A base that was cut short ends its repeat: its scenarios were tried, and are insufficient.
        # In a search, nothing tells which value was tried.
        rest = scenarios if window.cut and section.search is None else []
        names = [window.scenario] if window.scenario != BASE else rest
        by_scenario = measured.setdefault((window.arm, window.row, window.part), {})
        for name in names:
            by_scenario.setdefault(name, set()).add(window.repeat)
    measured_rows = {row for (_, row, _), by_scenario in measured.items() if by_scenario}
    measured_arms = {arm for (arm, _, _), by_scenario in measured.items() if by_scenario}
    gaps = [f"{row.name}: {_NOTHING}" for row in rows if row.name not in measured_rows]
    gaps += [f"{arm}: {_NOTHING}" for arm in repeats if arm not in measured_arms and measured_rows]
    parts = [(row, part) for row in rows for part in row.injected]
    for arm, (row, part) in product(repeats, parts):
        if arm in measured_arms and row.name in measured_rows:
            counts = {
                name: len(numbers)
                for name, numbers in measured.get((arm, row.name, part), {}).items()
            }
            shortfall = _describe_shortfall(dict.fromkeys(scenarios, 0) | counts, repeats[arm])
            scope = ", ".join([arm] * (len(repeats) > 1) + [part] * (len(row.injected) > 1))
            if shortfall:
                gaps.append(f"{row.name}{f' ({scope})' if scope else ''}: {shortfall}")
    return gaps


def _repeats(spec: Mapping[str, Any], section: LimplockSection) -> dict[str, int]:
    """Return the number of repeats of each arm, from its turns; in a search, of each value."""
    order, times = spec["design"]["order"], int(spec["design"]["repeats"])
    turns = {arm: order.count(chr(ord("A") + index)) for index, arm in enumerate(spec["arms"])}
    return {arm: times * (count if section.search is None else 1) for arm, count in turns.items()}


def _describe_shortfall(counts: Mapping[str, int], repeats: int) -> str:
    """Describe the scenarios with fewer repeats, grouped by their number; empty if none has."""
    if not any(counts.values()):
        return _NOTHING
    names_by_count: dict[int, list[str]] = {}
    for name, count in counts.items():
        if count < repeats:
            names_by_count.setdefault(count, []).append(label(name))
    return "; ".join(
        f"{count} of {repeats} repeats of {', '.join(names)}"
        for count, names in names_by_count.items()
    )
