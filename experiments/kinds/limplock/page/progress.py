"""Progress of a row's jobs, as its client tells it: Limplock's Figure 2a, their progress, and 2c,
jobs an hour.

A client may tell it in lines of its log, by its own clock, which is the runner's; README.md, "To
add a system", has their words. A row whose base is one job has the first figure, also where
one that failed was asked again; one of several jobs the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import altair as alt

from core.chart_style import Rows
from experiments.kinds.limplock.row import rows
from experiments.kinds.limplock.scenarios import BASE, label
from experiments.kinds.limplock.windows import RunInputs, Window, client_log, later_bases
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size
from experiments.report.text import number

_BYTES_MAX = 64 << 20  # of a log
_LINE_BYTES_MAX = 64 << 10
_POINTS_MAX = 300  # of a line in a figure
_PARTS_MAX = 12
_PANELS_MAX = 8
_HOUR_S = 3600.0
_BEGIN = (b"progress ", b"job-over ")
_PROGRESS = re.compile(r"progress (\d{1,19}) (\S+)((?: [^\s=]+=\S+)+)\n")
_OVER = re.compile(r"job-over (\d{1,19}) (\S+) (succeeded|failed)\n")


@dataclass(frozen=True)
class Mark:
    """The progress of a job's parts, 0 to 1, or its end: `over` is its success."""

    time_s: float
    job: str
    parts: Mapping[str, float]
    over: bool | None = None


@dataclass(frozen=True)
class ReadMarks:
    """A log's marks in order; damaged: lines that begin as one and are none; whole: all of it was
    read."""

    marks: tuple[Mark, ...] = ()
    damaged: int = 0
    whole: bool = True


def read_log(path: Path, t0_s: float) -> ReadMarks:
    """Return the lines of a client; nothing of one that has no log.

    Parameters: t0_s, the run's second 0 on the client's clock. Times are the run's.
    """
    marks, damaged = list[Mark](), 0
    if not path.is_file():
        return ReadMarks()
    with path.open("rb") as log:
        while log.tell() < _BYTES_MAX and (line := log.readline(_LINE_BYTES_MAX)):
            if line.startswith(_BEGIN):
                mark = mark_of(line.decode(errors="replace"))
                damaged += mark is None
                marks += [replace(mark, time_s=mark.time_s - t0_s)] if mark else []
        whole = not log.read(1)
    return ReadMarks(tuple(marks), damaged, whole)


def mark_of(line: str) -> Mark | None:
    """Return the values of a whole line, with its end; None of a damaged one. Time is the
    client's.
    """
    if found := _OVER.fullmatch(line):
        return Mark(int(found[1]) / 1e9, found[2], {}, over=found[3] == "succeeded")
    if not (found := _PROGRESS.fullmatch(line)):
        return None
    try:
        said = (word.rsplit("=", 1) for word in found[3].split())
        parts = {name: float(share) for name, share in said}
    except ValueError:
        return None
    good = all(0.0 <= share <= 1.0 for share in parts.values())
    return Mark(int(found[1]) / 1e9, found[2], parts) if good else None


@dataclass(frozen=True)
class Course:
    """A window with what was told in it: seconds are from its begin, where the operation begins as
    soon as the fault is in force."""

    window: Window
    marks: tuple[Mark, ...]

    @property
    def over_s(self) -> tuple[float, ...]:
        """When jobs succeeded, in order."""
        return tuple(sorted(mark.time_s for mark in self.marks if mark.over))

    @property
    def per_hour(self) -> float:
        """Jobs that succeeded, over the time that the operation took."""
        return _HOUR_S * len(self.over_s) / self.window.took_s

    def lines(self) -> Mapping[tuple[str, str], list[tuple[float, float]]]:
        """By job and part, its progress at each second; all of a job that succeeded is done."""
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for mark in self.marks:
            done = [key for key in found if key[0] == mark.job] if mark.over else []
            shares = dict.fromkeys(done, 1.0) | {(mark.job, k): v for k, v in mark.parts.items()}
            for key, share in shares.items():
                found.setdefault(key, []).append((mark.time_s, share))
        return found


def course_of(window: Window, marks: Iterable[Mark]) -> Course:
    """Return the lines of this window, of all that its arm's client told."""
    inside = (mark for mark in marks if window.start_s <= mark.time_s <= window.end_s)
    return Course(
        window, tuple(replace(mark, time_s=mark.time_s - window.start_s) for mark in inside)
    )


@dataclass(frozen=True)
class Panel:
    """A scenario of one arm: its repeats, each with its base first."""

    arm: str
    scenario: str
    repeats: tuple[tuple[Course, Course], ...]

    @property
    def title(self) -> str:
        """Arm and scenario."""
        return f"{self.arm}, {label(self.scenario)}"

    @property
    def middle(self) -> tuple[Course, Course]:
        """The repeat whose faulty run is the median, the quicker of two."""
        ordered = sorted(self.repeats, key=lambda one: one[1].window.took_s)
        return ordered[(len(ordered) - 1) // 2]


def progress_figures(folder: Path, left: RunInputs, windows: Sequence[Window]) -> list[Figure]:
    """Of each row whose client told anything; none of a run that kept no second 0 of its clock."""
    if left.monotonic_s is None:
        return []
    systems = {row: rows()[row].system for row in {window.row for window in windows}}
    keys = {(w.arm, systems[w.row]) for w in windows}
    logs = {key: read_log(folder / client_log(*key), left.monotonic_s) for key in keys}
    found = []
    for row, part in dict.fromkeys((w.row, w.part) for w in windows):
        mine = [w for w in windows if (w.row, w.part) == (row, part)]
        told = {w.arm: logs[w.arm, systems[row]] for w in mine}
        panels = panels_of(mine, told)
        if panels or any(one.damaged for one in told.values()):
            found.append(_figure(row, part, panels, list(told), _left_out(told.values(), panels)))
    return found


def panels_of(windows: Sequence[Window], told: Mapping[str, ReadMarks]) -> list[Panel]:
    """Of the windows of one row and part, by arm and scenario, those in which anything was told.

    Parameters: told, by arm.
    """
    found = []
    for arm, scenario in dict.fromkeys((w.arm, w.scenario) for w in windows):
        faulty = [w for w in windows if (w.arm, w.scenario) == (arm, scenario)]
        bases = later_bases(w for w in windows if w.arm == arm)
        repeats = tuple(
            (course_of(bases[w.repeat], told[arm].marks), course_of(w, told[arm].marks))
            for w in faulty
            if scenario != BASE and w.repeat in bases
        )
        if any(course.marks for repeat in repeats for course in repeat):
            found.append(Panel(arm, scenario, repeats))
    return found


def _left_out(told: Iterable[ReadMarks], panels: Sequence[Panel]) -> str:
    """Said at the end of a caption."""
    logs = list(told)
    damaged, more = sum(one.damaged for one in logs), len(panels) - _PANELS_MAX
    words = [f"Damaged lines of the client's log, left out: {damaged}."] if damaged else []
    if not all(one.whole for one in logs):
        words.append(f"Only the first {_BYTES_MAX >> 20} MB of a log were read.")
    words += [f"{more} further scenarios are not drawn."] if more > 0 else []
    return " ".join(words)


def _figure(
    row: str, part: str, panels: Sequence[Panel], arms: Sequence[str], left_out: str
) -> Figure:
    shown = panels[:_PANELS_MAX]
    many = any(len(base.over_s) > 1 for panel in shown for base, _ in panel.repeats)
    note = "" if shown else "Nothing that can be read was told while the operation ran."
    draw = _jobs_figure if many else _progress_figure
    return draw(f"{row}, {part}", f"{row}-{part}".lower(), shown, arms, left_out, note)


def _progress_figure(
    name: str, identity: str, panels: Sequence[Panel], arms: Sequence[str], left_out: str, note: str
) -> Figure:
    """Figure 2a."""
    del arms
    every = (part for one in panels for course in one.middle for _, part in course.lines())
    parts = list(dict.fromkeys(every))
    drawn_parts, more = parts[:_PARTS_MAX], len(parts) - _PARTS_MAX
    colours = dict(zip(drawn_parts, cycle(colour.light for colour in palette.ARMS), strict=False))
    left_out = f"{left_out} {more} further parts are not drawn." if more > 0 else left_out
    caption = (
        "How far each part of the job is, as the system tells it, from when the operation began: "
        "of the repeat whose faulty run is the median. Dashed: the same without a fault. "
        f"A line that ends below 1 was cut short. {left_out}"
    ).strip()
    legend = tuple(Key("line", colour, part) for part, colour in colours.items())

    def graph(panel: Panel, x: alt.X, size: Size) -> Any:
        base, faulty = panel.middle
        y = marks.linear(alt.Y, "value", None, [0, 1.03], tickCount=6, format="~g")
        return alt.layer(*(
            marks.line(_points(course, colours), x, y, clip=True, **stroke)
            .encode(stroke=marks.STROKE, detail=alt.Detail("line:N"))
            for course, stroke in ((base, _DASHED), (faulty, _SOLID))
        )).properties(title=panel.title, width=_width(size), height=_height(size))  # fmt: skip

    return drawn(
        f"progress-{identity}", f"{name}: progress", caption, legend,
        lambda size: _graphs(panels, graph, size), note,
    )  # fmt: skip


_DASHED: Mapping[str, Any] = {"strokeWidth": 1.3, "strokeDash": [4, 3]}
_SOLID: Mapping[str, Any] = {"strokeWidth": 1.9}


def _points(course: Course, colours: Mapping[str, str]) -> Rows:
    """Of its parts that have a colour."""
    return [
        {"t": time_s, "value": share, "colour": colours[part], "line": f"{job} {part}"}
        for (job, part), line in course.lines().items()
        if part in colours
        for time_s, share in _thinned(line)
    ]


def _jobs_figure(
    name: str, identity: str, panels: Sequence[Panel], arms: Sequence[str], left_out: str, note: str
) -> Figure:
    """Figure 2c, as counts: its jobs an hour are how steep they are."""
    caption = (
        "Jobs that had succeeded, from when the operation began: all repeats. Dashed: the same "
        "without a fault. Jobs per hour are over all of the operation's time, the median of the "
        f"repeats. {left_out}"
    ).strip()
    colours = {panel.arm: palette.arm_colour(arms, panel.arm).light for panel in panels}
    legend = tuple(Key("line", colour, arm) for arm, colour in colours.items())
    most = max((len(c.over_s) for p in panels for pair in p.repeats for c in pair), default=0)

    def graph(panel: Panel, x: alt.X, size: Size) -> Any:
        base, faulty = ([pair[which] for pair in panel.repeats] for which in (0, 1))
        rates = [number(median(course.per_hour for course in some)) for some in (faulty, base)]
        title = f"{panel.title}: {rates[0]} jobs per hour, base {rates[1]}"
        top = 1.05 * most or 1.0
        y = marks.linear(alt.Y, "value", None, [0, top], tickMinStep=1, tickCount=5, format="d")
        return alt.layer(*(
            marks.line(_steps(some), x, y, interpolate="step-after", stroke=colours[panel.arm],
                       **stroke).encode(detail=alt.Detail("line:N"))
            for some, stroke in ((base, _DASHED), (faulty, _SOLID))
        )).properties(title=title, width=_width(size), height=_height(size))  # fmt: skip

    return drawn(
        f"jobs-{identity}", f"{name}: jobs done", caption, legend,
        lambda size: _graphs(panels, graph, size), note,
    )  # fmt: skip


def _steps(courses: Sequence[Course]) -> Rows:
    """Of each course how many were done, until its operation was."""
    return [
        {"t": time_s, "value": done, "line": str(one.window.repeat)}
        for one in courses
        for time_s, done in [
            *_thinned([(time_s, done) for done, time_s in enumerate((0.0, *one.over_s))]),
            (max(one.window.took_s, *one.over_s, 0.0), len(one.over_s)),
        ]
    ]


def _thinned(line: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """As few points as are seen, the last among them."""
    return [*line[:: 1 + len(line) // _POINTS_MAX], line[-1]]


def _graphs(panels: Sequence[Panel], graph: Callable[[Panel, alt.X, Size], Any], size: Size) -> Any:
    """Side by side, with the same seconds."""
    end_s = max(c.window.took_s for p in panels for pair in p.repeats for c in pair)
    x = marks.linear(alt.X, "t", "seconds", [0, end_s], tickCount=6)
    return alt.concat(*(graph(panel, x, size) for panel in panels), columns=_columns(size))


def _columns(size: Size) -> int:
    return 1 if size.small else 2


def _width(size: Size) -> float:
    return (size.plot_width - 44 * (_columns(size) - 1)) / _columns(size)


def _height(size: Size) -> int:
    return 150 if size.small else 200
