"""Exhausted resources: for each row and machine the white-box metrics that reached their limit
under a fault. If there are none: the metric that grew most relative to its base, unless it is far
below its limit.

No metric proves that a full heap makes a node slow. The result shows that the heap was full, when,
and that it was not full without the fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from experiments.kinds.limplock.scenarios import BASE, CRASH, label
from experiments.kinds.limplock.windows import Key, RunInputs, Window, group_by_part, later_bases
from experiments.report.text import number

REACHED = 0.95  # of a limit
_GREW_LEAST = 1.1
_NEAR = 0.5  # of a limit: a metric below it may have grown, but ran out of nothing
Floats = NDArray[np.float64]
PageMetric = Mapping[str, Any]  # system.PageMetric, as limplock.json has it


class Metrics:
    """White-box metrics by machine, over time."""

    def __init__(self, whitebox: pl.DataFrame) -> None:
        self._series = {
            (str(machine), str(metric)): (rows["time_s"].to_numpy(), rows["value"].to_numpy())
            for (machine, metric), rows in whitebox.sort("time_s").group_by("machine", "metric")
        }

    def between(
        self, machine: str, metric: str, start_s: float, end_s: float
    ) -> tuple[Floats, Floats]:
        """Return times and values; empty if there are none."""
        times, values = self._series.get((machine, metric), (np.empty(0), np.empty(0)))
        first, last = np.searchsorted(times, (start_s, end_s))
        return times[first:last], values[first:last]

    def limit(
        self, machine: str, page_metric: PageMetric, start_s: float = -np.inf, end_s: float = np.inf
    ) -> float | None:
        """Return the metric's limit on this machine in this time; None if it is unknown."""
        limit = page_metric.get("limit")
        if not isinstance(limit, str):
            return limit
        _, values = self.between(machine, limit, start_s, end_s)
        highest = float(values.max(initial=0.0))
        return highest if highest > 0.0 else None  # a JVM without one says -1


@dataclass(frozen=True)
class Resource:
    """A metric of a machine in a scenario: medians over repeats, in the page's units."""

    title: str
    scenario: str
    base: float
    level: float  # over the last part of the fault
    limit: float | None
    reached_s: tuple[float, ...]  # time after the fault, of each repeat that reached the limit
    reached_in_base: bool  # in one repeat at least
    repeats: int

    @property
    def growth(self) -> float:
        """Level over base, with 1 added to both, so that growth from 0 to 1 counts little."""
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
    grown: Resource | None  # the metric that grew most, of those not far below a limit
    knows_limits: bool

    @property
    def ran_out(self) -> bool:
        """True if a metric reached its limit that did not reach it without the fault."""
        return any(not resource.reached_in_base for resource in self.full)

    @property
    def words(self) -> str:
        if self.full:
            return "; ".join(map(_full_words, self.full))
        none = "no limit was reached" if self.knows_limits else "no limit is known"
        if self.grown is None:
            far = " that is not far below its limit" if self.knows_limits else ""
            return f"{none}; nothing grew{far}"
        grown = self.grown
        return (
            f"{none}; what grew most: {grown.title}, "
            f"from {number(grown.base)} to {number(grown.level)} at {label(grown.scenario)}"
        )


def _full_words(resource: Resource) -> str:
    times = f"{len(resource.reached_s)} of {resource.repeats} repeats"
    after = f"after {number(float(np.median(resource.reached_s)))} s at {label(resource.scenario)}"
    too = ", and without the fault too" if resource.reached_in_base else ""
    return f"{resource.title}: at its limit of {number(resource.limit)} {after}, in {times}{too}"


def resources(
    inputs: RunInputs, windows: Sequence[Window], whitebox: pl.DataFrame, judged_share: float
) -> list[Machine]:
    """Return the metrics of each row and machine that has any.

    Parameters: judged_share, the last part of a fault, whose values count.
    """
    metrics, machines = Metrics(whitebox), []
    for key, part_windows in group_by_part(windows).items():
        faulty = [window for window in part_windows if window.scenario not in (BASE, CRASH)]
        for name in sorted({name for window in faulty for name in window.labels.values()}):
            part_resources = list(
                _resources_of(inputs, part_windows, faulty, name, metrics, judged_share)
            )
            if part_resources:
                holders = {
                    machine
                    for window in faulty
                    for machine, part in window.labels.items()
                    if part == name
                }
                machines.append(_judge_machine(key, name, tuple(sorted(holders)), part_resources))
    return machines


def _judge_machine(
    key: Key, name: str, machines: tuple[str, ...], part_resources: Sequence[Resource]
) -> Machine:
    full: dict[str, Resource] = {}
    for resource in sorted(
        (resource for resource in part_resources if resource.reached_s), key=_fullness, reverse=True
    ):
        full.setdefault(resource.title, resource)
    near = [
        resource
        for resource in part_resources
        if resource.limit is None or resource.level >= _NEAR * resource.limit
    ]
    grown = max(near, key=lambda resource: resource.growth, default=None)
    return Machine(
        *key, name, machines, tuple(full.values()),
        grown if grown is not None and grown.growth >= _GREW_LEAST else None,
        any(resource.limit is not None for resource in part_resources),
    )  # fmt: skip


def _fullness(resource: Resource) -> tuple[bool, int, float]:
    """Return the sort key: full only under the fault, then in more repeats, then sooner."""
    return (
        not resource.reached_in_base,
        len(resource.reached_s),
        -float(np.median(resource.reached_s)),
    )


def _resources_of(
    inputs: RunInputs,
    windows: Sequence[Window],
    faulty: Sequence[Window],
    name: str,
    metrics: Metrics,
    judged_share: float,
) -> Iterator[Resource]:
    bases = later_bases(windows)
    for scenario in dict.fromkeys(window.scenario for window in faulty):
        pairs = [(bases[window.repeat], window) for window in faulty if window.scenario == scenario]
        for page_metric in inputs.shown:
            uses = [_compare_use(page_metric, name, *pair, metrics, judged_share) for pair in pairs]
            known = [use for use in uses if use is not None]
            if known:
                yield _summarise(page_metric, scenario, known)


@dataclass(frozen=True)
class _Use:
    base: float
    level: float
    limit: float | None
    reached_s: float | None
    reached_in_base: bool


def _compare_use(
    page_metric: PageMetric,
    name: str,
    base: Window,
    window: Window,
    metrics: Metrics,
    judged_share: float,
) -> _Use | None:
    """Compare one repeat's base and fault; None if one of them has no values of the machine."""
    _, calm, _ = _values(page_metric, name, base, metrics)
    times, values, limit = _values(page_metric, name, window, metrics)
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
    page_metric: PageMetric, name: str, window: Window, metrics: Metrics
) -> tuple[Floats, Floats, float | None]:
    """Return times, values and limit of the machine that has this part in a window."""
    machine = next((machine for machine, part in window.labels.items() if part == name), "")
    span = (window.start_s, window.end_s)
    times, values = metrics.between(machine, page_metric["metric"], *span)
    return times, values, metrics.limit(machine, page_metric, *span)


def _summarise(page_metric: PageMetric, scenario: str, uses: Sequence[_Use]) -> Resource:
    unit, limits = page_metric["unit"], [use.limit for use in uses if use.limit is not None]
    return Resource(
        page_metric["title"], scenario,
        float(np.median([use.base for use in uses])) / unit,
        float(np.median([use.level for use in uses])) / unit,
        float(np.median(limits)) / unit if limits else None,
        tuple(use.reached_s for use in uses if use.reached_s is not None),
        any(use.reached_in_base for use in uses),
        len(uses),
    )  # fmt: skip
