"""Measurements that a run lacks of its design: arms, rows, parts that limp, repeats of scenarios.

A row whose parts moved time after time leaves a hole, as does a run that was cut short. Verdicts of
what is there stand; the run as a whole is not what was asked for, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.kinds.limplock.row import Row
from experiments.kinds.limplock.scenarios import BASE, label
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import Window

_NOTHING = "nothing was measured"


def missing_measurements(spec: Mapping[str, Any], windows: Sequence[Window]) -> list[str]:
    """In words, the most that lacks first: whole rows, whole arms, then the rest row by row.

    Parameters: spec, of the manifest. A search has to have all repeats of both its ends, the first
    and the last of the values that come first, and of each value that it tried.
    """
    section = LimplockSection.model_validate(spec["limplock"])
    asked, repeats = section.chosen_rows(), _repeats(spec, section)
    wanted = [scenario.name for scenario in section.scenarios]
    came: dict[tuple[str, str, str], dict[str, set[int]]] = {}
    for window in windows:
        # A base that was cut short ends its repeat: what follows was tried, and is insufficient. Of
        # a search nothing says which value was.
        ended = wanted if window.cut and section.search is None else []
        names = [window.scenario] if window.scenario != BASE else ended
        mine = came.setdefault((window.arm, window.row, window.part), {})
        for name in names:
            mine.setdefault(name, set()).add(window.repeat)
    rows = {row for (_, row, _), some in came.items() if some}
    arms = {arm for (arm, _, _), some in came.items() if some}
    found = [f"{row.name}: {_NOTHING}" for row in asked if row.name not in rows]
    found += [f"{arm}: {_NOTHING}" for arm in repeats if arm not in arms and rows]
    for arm, row, part in _parts(repeats, asked):
        if arm in arms and row.name in rows:
            counts = {name: len(some) for name, some in came.get((arm, row.name, part), {}).items()}
            said = _describe_shortfall(dict.fromkeys(wanted, 0) | counts, repeats[arm])
            scope = ", ".join([arm] * (len(repeats) > 1) + [part] * (len(row.injected) > 1))
            found += [f"{row.name}{f' ({scope})' if scope else ''}: {said}"] if said else []
    return found


def _repeats(spec: Mapping[str, Any], section: LimplockSection) -> dict[str, int]:
    """Of each arm: how many its turns give, or each value of a search has."""
    order, times = spec["design"]["order"], int(spec["design"]["repeats"])
    turns = {arm: order.count(chr(ord("A") + index)) for index, arm in enumerate(spec["arms"])}
    return {arm: times * (count if section.search is None else 1) for arm, count in turns.items()}


def _parts(arms: Mapping[str, int], asked: Sequence[Row]) -> Iterator[tuple[str, Row, str]]:
    for arm in arms:
        for row in asked:
            for part in row.injected:
                yield arm, row, part


def _describe_shortfall(counts: Mapping[str, int], repeats: int) -> str:
    """Scenarios with fewer repeats, those of one count together; empty if none has."""
    if not any(counts.values()):
        return _NOTHING
    short: dict[int, list[str]] = {}
    for name, count in counts.items():
        if count < repeats:
            short.setdefault(count, []).append(label(name))
    return "; ".join(
        f"{count} of {repeats} repeats of {', '.join(names)}" for count, names in short.items()
    )
