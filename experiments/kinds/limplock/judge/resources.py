"""Exhausted resources: the white-box metrics of each row and machine that reached their limit under
a fault, else the one that grew most relative to its base, unless it is far below its limit.

No metric proves that a full heap makes a node slow. The result shows that it was full, when, and
that it was not without the fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from experiments.kinds.limplock.scenarios import BASE, CRASH, label
from experiments.kinds.limplock.windows import Key, RunInputs, Window, by_part, later_bases
from experiments.report.text import number

REACHED = 0.95  # of a limit
_GREW_LEAST = 1.1
_NEAR = 0.5  # of a limit: what stays below has grown, and ran out of nothing
Floats = NDArray[np.float64]
PageMetric = Mapping[str, Any]  # system.PageMetric, as limplock.json has it


class Metrics:
    """White-box metrics by machine, as they were told in time."""

    def __init__(self, whitebox: pl.DataFrame) -> None:
        self._series = {
            (str(machine), str(metric)): (rows["time_s"].to_numpy(), rows["value"].to_numpy())
            for (machine, metric), rows in whitebox.sort("time_s").group_by("machine", "metric")
        }

    def between(
        self, machine: str, metric: str, start_s: float, end_s: float
    ) -> tuple[Floats, Floats]:
        """Times and values; empty if nothing was told."""
        times, values = self._series.get((machine, metric), (np.empty(0), np.empty(0)))
        first, last = np.searchsorted(times, (start_s, end_s))
        return times[first:last], values[first:last]

    def limit(
        self, machine: str, shown: PageMetric, start_s: float = -np.inf, end_s: float = np.inf
    ) -> float | None:
        """Return the largest value of the metric there and then; None if nothing says it."""
        limit = shown.get("limit")
        if not isinstance(limit, str):
            return limit
        _, values = self.between(machine, limit, start_s, end_s)
        most = float(values.max(initial=0.0))
        return most if most > 0.0 else None  # a JVM without one says -1


@dataclass(frozen=True)
class Resource:
    """A metric of a machine in a scenario: figures are medians over repeats, as the page shows
    them."""

    title: str
    scenario: str
    base: float
    level: float  # over the last part of the fault
    limit: float | None
    reached_s: tuple[float, ...]  # when after the fault, of each repeat in which it was
    reached_in_base: bool  # in one repeat at least
    repeats: int

    @property
    def growth(self) -> float:
        """Level over base, each and one: from none to one is no more than from one to three."""
        return (self.level + 1.0) / (self.base + 1.0)


@dataclass(frozen=True)
class Machine:
    """The metrics of a machine, by its part, in a row."""

    arm: str
    row: str
    part: str
    label: str
    names: tuple[str, ...]  # the machines that had the part
    full: tuple[Resource, ...]  # each metric that reached its limit
    grown: Resource | None  # the one that grew most, of those that are not far below a limit
    knows_limits: bool

    @property
    def ran_out(self) -> bool:
        """True where something is at its limit that was not so without the fault."""
        return any(not one.reached_in_base for one in self.full)

    @property
    def words(self) -> str:
        """A sentence."""
        if self.full:
            return "; ".join(map(_full_words, self.full))
        none = "no limit was reached" if self.knows_limits else "no limit is known"
        if self.grown is None:
            far = " that is not far below its limit" if self.knows_limits else ""
            return f"{none}; nothing grew{far}"
        one = self.grown
        return (
            f"{none}; what grew most: {one.title}, from {number(one.base)} to {number(one.level)} "
            f"at {label(one.scenario)}"
        )


def _full_words(one: Resource) -> str:
    times = f"{len(one.reached_s)} of {one.repeats} repeats"
    after = f"after {number(float(np.median(one.reached_s)))} s at {label(one.scenario)}"
    too = ", and without the fault too" if one.reached_in_base else ""
    return f"{one.title}: at its limit of {number(one.limit)} {after}, in {times}{too}"


def resources(
    left: RunInputs, windows: Sequence[Window], whitebox: pl.DataFrame, judged_share: float
) -> list[Machine]:
    """Of each row and machine that told anything.

    Parameters: judged_share, the last part of a fault, whose values count.
    """
    told, found = Metrics(whitebox), []
    for key, mine in by_part(windows).items():
        faulty = [w for w in mine if w.scenario not in (BASE, CRASH)]
        for name in sorted({name for window in faulty for name in window.labels.values()}):
            some = list(_of_machine(left, mine, faulty, name, told, judged_share))
            if some:
                machines = {m for w in faulty for m, part in w.labels.items() if part == name}
                found.append(_machine(key, name, tuple(sorted(machines)), some))
    return found


def _machine(key: Key, name: str, machines: tuple[str, ...], some: Sequence[Resource]) -> Machine:
    full: dict[str, Resource] = {}
    for one in sorted((one for one in some if one.reached_s), key=_how_full, reverse=True):
        full.setdefault(one.title, one)
    near = [one for one in some if one.limit is None or one.level >= _NEAR * one.limit]
    grown = max(near, key=lambda one: one.growth, default=None)
    return Machine(
        *key, name, machines, tuple(full.values()),
        grown if grown is not None and grown.growth >= _GREW_LEAST else None,
        any(one.limit is not None for one in some),
    )  # fmt: skip


def _how_full(one: Resource) -> tuple[bool, int, float]:
    """Only under the fault, in more repeats, sooner."""
    return not one.reached_in_base, len(one.reached_s), -float(np.median(one.reached_s))


def _of_machine(
    left: RunInputs,
    mine: Sequence[Window],
    faulty: Sequence[Window],
    name: str,
    told: Metrics,
    judged_share: float,
) -> Iterator[Resource]:
    """Yield each metric in each scenario."""
    bases = later_bases(mine)
    for scenario in dict.fromkeys(window.scenario for window in faulty):
        pairs = [(bases[w.repeat], w) for w in faulty if w.scenario == scenario]
        for shown in left.shown:
            seen = [_compare_use(shown, name, *pair, told, judged_share) for pair in pairs]
            known = [one for one in seen if one is not None]
            if known:
                yield _over(shown, scenario, known)


@dataclass(frozen=True)
class _Use:
    base: float
    level: float
    limit: float | None
    reached_s: float | None
    reached_in_base: bool


def _compare_use(
    shown: PageMetric, name: str, base: Window, window: Window, told: Metrics, judged_share: float
) -> _Use | None:
    """In one repeat; None if the machine told nothing before, or nothing under the fault."""
    _, calm, _ = _values(shown, name, base, told)
    times, values, limit = _values(shown, name, window, told)
    if not calm.size or not values.size:
        return None
    last = values[-max(1, round(judged_share * values.size)) :]
    full = times[values >= REACHED * limit] if limit else np.empty(0)
    return _Use(
        float(np.median(calm)), float(np.median(last)), limit,
        float(full[0]) - window.start_s if full.size else None,
        bool(limit and calm.max() >= REACHED * limit),
    )  # fmt: skip


def _values(
    shown: PageMetric, name: str, window: Window, told: Metrics
) -> tuple[Floats, Floats, float | None]:
    """Times, values and limit of the machine that has this part in a window."""
    machine = next((m for m, part in window.labels.items() if part == name), "")
    span = (window.start_s, window.end_s)
    times, values = told.between(machine, shown["metric"], *span)
    return times, values, told.limit(machine, shown, *span)


def _over(shown: PageMetric, scenario: str, seen: Sequence[_Use]) -> Resource:
    """Return all repeats of a scenario."""
    unit, limits = shown["unit"], [one.limit for one in seen if one.limit is not None]
    return Resource(
        shown["title"], scenario,
        float(np.median([one.base for one in seen])) / unit,
        float(np.median([one.level for one in seen])) / unit,
        float(np.median(limits)) / unit if limits else None,
        tuple(one.reached_s for one in seen if one.reached_s is not None),
        any(one.reached_in_base for one in seen),
        len(seen),
    )  # fmt: skip
