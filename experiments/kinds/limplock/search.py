"""A search for danger zones on a fleet: the axis along which a fault is varied, and what the files
of a run say of it. zones.py has the search itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

from pydantic import Field, model_validator

from experiments.design.injections import HELD_S_MAX
from experiments.kinds.limplock.row import Row
from experiments.kinds.limplock.scenarios import BASE, UNITS, Axis, Scenario
from experiments.kinds.limplock.slowdown import Waited, median
from experiments.kinds.limplock.windows import Window
from experiments.kinds.limplock.zones import Point, Zones, judge_zones
from optimizer.source import refusal

_LOSS_MOST = 100.0
_DIGITS = 4


class Search(Zones):
    """In place of `severities` and `crash`, with one row: where a slightly different fault makes
    its operation far slower, or faster. Each value that is tried has all repeats."""

    axis: Axis
    """slower: how many times slower the part is. loss: per cent of packets lost each way. held: for
    how many seconds the part limps."""
    slower: Annotated[float, Field(gt=1, le=1e6)] | None = None
    """How many times slower the part is, where the axis is `held`."""

    @model_validator(mode="after")
    def _can_be_done(self) -> Search:
        if (self.slower is not None) != (self.axis == "held"):
            wanted = "a factor" if self.axis == "held" else "nothing on this axis"
            came = "none" if self.slower is None else f"{self.slower:g}"
            raise refusal(wanted, came=came, key="slower")
        if self.axis == "loss" and self.high > _LOSS_MOST:
            raise refusal("at most 100 per cent", came=f"{self.high:g}", key="high")
        if self.axis == "held" and self.high > HELD_S_MAX:
            raise refusal(f"at most {HELD_S_MAX:g} seconds", came=f"{self.high:g}", key="high")
        if self.axis == "slower" and self.low <= 1:
            raise refusal("more than 1 times slower", came=f"{self.low:g}", key="low")
        return self

    def problem_of(self, row: Row) -> tuple[str, str] | None:
        """What was expected and what came, where this cannot be done to the row's part."""
        if len(row.injected) > 1:
            return "a row of one part", ", ".join(row.injected)
        if self.axis == "loss" and row.limpware != "nic":
            return "a row whose card limps, as packets are lost", f"one whose {row.limpware} does"
        return None

    def scenario(self, value: float) -> Scenario:
        """A value of the axis, as it is done to a machine."""
        return Scenario(float(f"{value:.{_DIGITS}g}"), self.axis, self.slower)

    def range_words(self) -> str:
        """For people."""
        unit = UNITS[self.axis]
        limping = "" if self.slower is None else f" of {self.slower:g} {UNITS['slower']}"
        return f"{self.low:g} to {self.high:g} {unit}{limping}, at most {self.budget} values"


def value_of(scenario: str) -> float:
    """Where a scenario of a search stands on its axis, by its name."""
    return float(scenario.split()[0])


def relative(base: Window, faulty: Window) -> Waited | None:
    """How long an operation took in units of its repeat's base, so that a host whose speed drifts
    makes no zone. None where the base was cut short, whose length is not known."""
    return None if base.cut else Waited(faulty.took_s / base.took_s, at_least=faulty.cut)


def searched(windows: Sequence[Window], rule: Search) -> list[dict[str, Any]]:
    """What a run found: of each arm the points in order of the axis, the zones, and what a budget
    left open."""
    return [
        {"arm": arm, "row": row, "part": part, **_found(list(mine), rule)}
        for (arm, row, part), mine in groupby(
            sorted(windows, key=_series), key=_series
        )
    ]  # fmt: skip


def _series(window: Window) -> tuple[str, str, str]:
    return window.arm, window.row, window.part


def _found(windows: Sequence[Window], rule: Search) -> dict[str, Any]:
    # A repeat that was begun again has its later base.
    base = {window.repeat: window for window in windows if window.scenario == BASE}
    waits: dict[float, list[Waited]] = {}
    for window in windows:
        wait = None if window.scenario == BASE else relative(base[window.repeat], window)
        if wait is not None:
            waits.setdefault(value_of(window.scenario), []).append(wait)
    points = [Point(at, tuple(waits[at])) for at in sorted(waits)]
    found = judge_zones(points, rule)
    return {
        "axis": rule.axis,
        "unit": UNITS[rule.axis],
        "points": [_json(point) for point in found.points],
        "zones": [asdict(zone) for zone in found.zones],
        "open": [list(stretch) for stretch in found.open],
    }


def _json(point: Point) -> Mapping[str, Any]:
    middle = median(point.waits)
    return {"at": point.at, "median": asdict(middle), "waits": [asdict(one) for one in point.waits]}
