"""A search for danger zones on a fleet: the axis along which a fault is varied, and the results
from the files of a run. zones.py has the search itself."""

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
from experiments.kinds.limplock.windows import Window, group_by_part, later_bases

_DIGITS = 4
_PARTS = {"nic": "card", "disk": "disk"}
_TIMES: tuple[Axis, ...] = ("held", "start")  # axes of time; the rate is stated


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
    def _check_axis(self) -> Search:
        self._check_stated("slower", "a factor", self.slower, needed=self.axis in _TIMES)
        is_start = self.axis == "start"
        self._check_stated("held_s", "a number of seconds", self.held_s, needed=is_start)
        if self.axis in OF_PART:
            self._check_range(*OF_PART[self.axis][1:])
        if self.axis in _TIMES and self.high > HELD_S_MAX:
            raise refusal(f"at most {HELD_S_MAX:g} seconds", got=f"{self.high:g}", key="high")
        if self.axis == "slower" and self.low <= 1:
            raise refusal("more than 1 times slower", got=f"{self.low:g}", key="low")
        return self

    def _check_stated(
        self, key: str, description: str, value: float | None, *, needed: bool
    ) -> None:
        if (value is not None) != needed:
            got = "none" if value is None else f"{value:g}"
            raise refusal(description if needed else "nothing on this axis", got=got, key=key)

    def _check_range(self, kind: str, parameter: str) -> None:
        """Check the ends of the axis against the limits of the agents' parameter."""
        limits = next(limit for limit in KINDS[kind].parameters if limit.name == parameter)
        unit = UNITS[self.axis]
        if limits.minimum is not None and self.low < limits.minimum:
            expected = f"at least {limits.minimum:g} {unit}, as {kind} takes"
            raise refusal(expected, got=f"{self.low:g}", key="low")
        if limits.maximum is not None and self.high > limits.maximum:
            expected = f"at most {limits.maximum:g} {unit}, as {kind} takes"
            raise refusal(expected, got=f"{self.high:g}", key="high")

    def problem_of(self, row: Row) -> tuple[str, str] | None:
        """Return the expected and the stated value if the row's part does not suit the axis."""
        if len(row.injected) > 1:
            return "a row of one part", ", ".join(row.injected)
        part = OF_PART[self.axis][0] if self.axis in OF_PART else row.limpware
        if part != row.limpware:
            expected = f"a row whose {_PARTS[part]} limps, for {self.axis}"
            return expected, f"one whose {_PARTS[row.limpware]} does"
        return None

    def scenario(self, value: float) -> Scenario:
        return Scenario(float(f"{value:.{_DIGITS}g}"), self.axis, self.slower, self.held_s)

    def range_words(self) -> str:
        text = f"{self.low:g} to {self.high:g} {UNITS[self.axis]}"
        if self.axis == "held":
            text = f"{self.slower:g} {UNITS['slower']} for {text}"
        if self.axis == "start":
            limping = f"{self.slower:g} {UNITS['slower']} for {self.held_s:g} s"
            text = f"{limping}, begun {text} after the operation"
        return f"{text}, at most {self.budget} values"


def value_of(scenario: str) -> float:
    return float(scenario.split()[0])


def relative_duration(base: Window, faulty: Window, rule: Search) -> Duration | None:
    """Return the time of an operation in units of its repeat's base, so that a host whose speed
    drifts makes no zone. None if the base was cut short, because its length is unknown, or if the
    operation was over before the begin of its fault.
    """
    missed = rule.axis == "start" and faulty.took_s <= value_of(faulty.scenario)
    return (
        None if base.cut or missed else Duration(faulty.took_s / base.took_s, at_least=faulty.cut)
    )


def summarise_search(windows: Sequence[Window], rule: Search) -> list[dict[str, object]]:
    """Return the findings of a run: for each arm the points in order of the axis, the zones, and
    the stretches that the budget left open.
    """
    return [
        {"arm": arm, "row": row, "part": part, **_summarise(part_windows, rule)}
        for (arm, row, part), part_windows in sorted(group_by_part(windows).items())
    ]


def _summarise(windows: Sequence[Window], rule: Search) -> dict[str, object]:
    base = later_bases(windows)
    waits: dict[float, list[Duration]] = {}
    for window in windows:
        wait = (
            None
            if window.scenario == BASE
            else relative_duration(base[window.repeat], window, rule)
        )
        if wait is not None:
            waits.setdefault(value_of(window.scenario), []).append(wait)
    points = [Point(at, tuple(waits[at])) for at in sorted(waits)]
    result = judge_zones(points, rule)
    return {
        "axis": rule.axis,
        "unit": UNITS[rule.axis],
        "points": [_json(point) for point in result.points],
        "zones": [asdict(zone) for zone in result.zones],
        "open": [list(stretch) for stretch in result.open],
    }


def _json(point: Point) -> Mapping[str, Any]:
    middle = median(point.waits)
    return {
        "at": point.at,
        "median": asdict(middle),
        "waits": [asdict(wait) for wait in point.waits],
    }
