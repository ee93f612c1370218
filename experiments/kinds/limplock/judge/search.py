"""A search for danger zones on a fleet: the axis along which a fault is varied, and what the files
of a run say of it. zones.py has the search itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field, model_validator

from core.config_file import refusal
from experiments.design.contracts import KINDS
from experiments.design.injections import HELD_S_MAX
from experiments.kinds.limplock.judge.slowdown import Duration, median
from experiments.kinds.limplock.judge.zones import Point, Zones, judge_zones
from experiments.kinds.limplock.row import Row
from experiments.kinds.limplock.scenarios import BASE, OF_PART, UNITS, Axis, Scenario
from experiments.kinds.limplock.windows import Window, by_part, later_bases

_DIGITS = 4
_PARTS = {"nic": "card", "disk": "disk"}
_TIMES: tuple[Axis, ...] = ("held", "start")  # of a rate that is stated


class Search(Zones):
    """A search for danger zones of one row, instead of `severities` and `crash`: values at which a
    slightly different fault makes its operation slower or faster. Each value has all repeats."""

    axis: Axis
    """slower: slowdown of the part. loss: per cent of packets lost each way. delay: delay of
    each packet each way [ms]. io_latency: delay of each I/O of the disk [ms]. held: length of
    the fault [s]. start: begin of the fault within the operation [s]."""
    slower: Annotated[float, Field(gt=1, le=1e6)] | None = None
    """Slowdown of the part on the axes `held` and `start`."""
    held_s: Annotated[float, Field(gt=0, le=HELD_S_MAX)] | None = None
    """Length of the fault on the axis `start` [s]."""

    @model_validator(mode="after")
    def _can_be_done(self) -> Search:
        self._stated("slower", "a factor", self.slower, needed=self.axis in _TIMES)
        self._stated("held_s", "a number of seconds", self.held_s, needed=self.axis == "start")
        if self.axis in OF_PART:
            self._within(*OF_PART[self.axis][1:])
        if self.axis in _TIMES and self.high > HELD_S_MAX:
            raise refusal(f"at most {HELD_S_MAX:g} seconds", got=f"{self.high:g}", key="high")
        if self.axis == "slower" and self.low <= 1:
            raise refusal("more than 1 times slower", got=f"{self.low:g}", key="low")
        return self

    def _stated(self, key: str, what: str, value: float | None, *, needed: bool) -> None:
        if (value is not None) != needed:
            got = "none" if value is None else f"{value:g}"
            raise refusal(what if needed else "nothing on this axis", got=got, key=key)

    def _within(self, kind: str, parameter: str) -> None:
        """The parameters for the agents, in the unit of the axis."""
        limits = next(one for one in KINDS[kind].parameters if one.name == parameter)
        unit = UNITS[self.axis]
        if limits.minimum is not None and self.low < limits.minimum:
            expected = f"at least {limits.minimum:g} {unit}, as {kind} takes"
            raise refusal(expected, got=f"{self.low:g}", key="low")
        if limits.maximum is not None and self.high > limits.maximum:
            expected = f"at most {limits.maximum:g} {unit}, as {kind} takes"
            raise refusal(expected, got=f"{self.high:g}", key="high")

    def problem_of(self, row: Row) -> tuple[str, str] | None:
        """Return the expected and the stated value, where this cannot be done to the row's part."""
        if len(row.injected) > 1:
            return "a row of one part", ", ".join(row.injected)
        part = OF_PART[self.axis][0] if self.axis in OF_PART else row.limpware
        if part != row.limpware:
            expected = f"a row whose {_PARTS[part]} limps, for {self.axis}"
            return expected, f"one whose {_PARTS[row.limpware]} does"
        return None

    def scenario(self, value: float) -> Scenario:
        """Return a value of the axis, as it is done to a machine."""
        return Scenario(float(f"{value:.{_DIGITS}g}"), self.axis, self.slower, self.held_s)

    def range_words(self) -> str:
        """For people."""
        said = f"{self.low:g} to {self.high:g} {UNITS[self.axis]}"
        if self.axis == "held":
            said = f"{self.slower:g} {UNITS['slower']} for {said}"
        if self.axis == "start":
            limping = f"{self.slower:g} {UNITS['slower']} for {self.held_s:g} s"
            said = f"{limping}, begun {said} after the operation"
        return f"{said}, at most {self.budget} values"


def value_of(scenario: str) -> float:
    """Return the place of a search's scenario on its axis, by its name."""
    return float(scenario.split()[0])


def relative(base: Window, faulty: Window, rule: Search) -> Duration | None:
    """Return the time of an operation in units of its repeat's base, so that a host whose speed
    drifts makes no zone. None if the base was cut short, whose length is not known, and where
    the operation was over before its fault was to begin.
    """
    missed = rule.axis == "start" and faulty.took_s <= value_of(faulty.scenario)
    return (
        None if base.cut or missed else Duration(faulty.took_s / base.took_s, at_least=faulty.cut)
    )


def searched(windows: Sequence[Window], rule: Search) -> list[dict[str, object]]:
    """Return the findings of a run: of each arm the points in order of the axis, the zones, and
    what a budget left open.
    """
    return [
        {"arm": arm, "row": row, "part": part, **_summarise(mine, rule)}
        for (arm, row, part), mine in sorted(by_part(windows).items())
    ]


def _summarise(windows: Sequence[Window], rule: Search) -> dict[str, object]:
    base = later_bases(windows)
    waits: dict[float, list[Duration]] = {}
    for window in windows:
        wait = None if window.scenario == BASE else relative(base[window.repeat], window, rule)
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
