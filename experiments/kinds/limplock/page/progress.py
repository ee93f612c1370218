"""Progress of a row's jobs, from its client's log: Limplock's Figure 2a (progress) and Figure 2c
(jobs per hour).

A client may write progress to its log, by its own clock, which is also the runner's; README.md, "To
add a system", has the format. A row whose base is one job gets the first figure, even if a failed
job was repeated; a row of several jobs gets the second one.
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
    """The progress of a job's parts, 0 to 1, or the job's end: `over` is True if it succeeded."""

    time_s: float
    job: str
    parts: Mapping[str, float]
    over: bool | None = None


@dataclass(frozen=True)
class ReadMarks:
    """A log's marks in order; damaged: number of lines that begin like a mark and cannot be read;
    is_complete: True if the whole log was read."""

    marks: tuple[Mark, ...] = ()
    damaged: int = 0
    is_complete: bool = True


def read_log(path: Path, t0_s: float) -> ReadMarks:
    """Return the marks of a client's log; none if it has no log.

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
        is_complete = not log.read(1)
    return ReadMarks(tuple(marks), damaged, is_complete)


def mark_of(line: str) -> Mark | None:
    """Return the mark of a whole line, with its line end; None if it is damaged. Time is the
    client's.
    """
    if match := _OVER.fullmatch(line):
        return Mark(int(match[1]) / 1e9, match[2], {}, over=match[3] == "succeeded")
    if not (match := _PROGRESS.fullmatch(line)):
        return None
    try:
        entries = (entry.rsplit("=", 1) for entry in match[3].split())
        parts = {name: float(share) for name, share in entries}
    except ValueError:
        return None
    are_shares = all(0.0 <= share <= 1.0 for share in parts.values())
    return Mark(int(match[1]) / 1e9, match[2], parts) if are_shares else None


@dataclass(frozen=True)
class Course:
    """A window and the marks in it. Seconds count from its begin, when the fault is in force and
    the operation begins."""

    window: Window
    marks: tuple[Mark, ...]

    @property
    def over_s(self) -> tuple[float, ...]:
        """Times at which jobs succeeded, in order."""
        return tuple(sorted(mark.time_s for mark in self.marks if mark.over))

    @property
    def per_hour(self) -> float:
        """Number of succeeded jobs over the time of the operation [1/h]."""
        return _HOUR_S * len(self.over_s) / self.window.took_s

    def lines(self) -> Mapping[tuple[str, str], list[tuple[float, float]]]:
        """Return the progress of each job and part over time; a succeeded job's parts are done."""
        lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for mark in self.marks:
            done = [key for key in lines if key[0] == mark.job] if mark.over else []
            shares = dict.fromkeys(done, 1.0)
            shares |= {(mark.job, part): share for part, share in mark.parts.items()}
            for key, share in shares.items():
                lines.setdefault(key, []).append((mark.time_s, share))
        return lines


def course_of(window: Window, marks: Iterable[Mark]) -> Course:
    """Return the marks of this window, out of all marks of its arm's client."""
    inside = (mark for mark in marks if window.start_s <= mark.time_s <= window.end_s)
    return Course(
        window, tuple(replace(mark, time_s=mark.time_s - window.start_s) for mark in inside)
    )


@dataclass(frozen=True)
class Panel:
    """A scenario of one arm: pairs of base and faulty run, one for each repeat."""

    arm: str
    scenario: str
    repeats: tuple[tuple[Course, Course], ...]

    @property
    def title(self) -> str:
        return f"{self.arm}, {label(self.scenario)}"

    @property
    def middle(self) -> tuple[Course, Course]:
        """The repeat whose faulty run is the median; the quicker one of two."""
        ordered = sorted(self.repeats, key=lambda pair: pair[1].window.took_s)
        return ordered[(len(ordered) - 1) // 2]


def progress_figures(folder: Path, inputs: RunInputs, windows: Sequence[Window]) -> list[Figure]:
    """Return a figure for each row whose client's log has marks; none if the run has no second 0 of
    its clock."""
    if inputs.monotonic_s is None:
        return []
    systems = {row: rows()[row].system for row in {window.row for window in windows}}
    keys = {(window.arm, systems[window.row]) for window in windows}
    logs = {key: read_log(folder / client_log(*key), inputs.monotonic_s) for key in keys}
    figures = []
    for row, part in dict.fromkeys((window.row, window.part) for window in windows):
        part_windows = [window for window in windows if (window.row, window.part) == (row, part)]
        arm_logs = {window.arm: logs[window.arm, systems[row]] for window in part_windows}
        panels = panels_of(part_windows, arm_logs)
        if panels or any(log.damaged for log in arm_logs.values()):
            figures.append(
                _figure(row, part, panels, list(arm_logs), _omissions(arm_logs.values(), panels))
            )
    return figures


def panels_of(windows: Sequence[Window], logs: Mapping[str, ReadMarks]) -> list[Panel]:
    """Return the panels of one row and part, by arm and scenario, that have any marks.

    Parameters: logs, by arm.
    """
    panels = []
    for arm, scenario in dict.fromkeys((window.arm, window.scenario) for window in windows):
        faulty = [window for window in windows if (window.arm, window.scenario) == (arm, scenario)]
        bases = later_bases(window for window in windows if window.arm == arm)
        repeats = tuple(
            (course_of(bases[window.repeat], logs[arm].marks), course_of(window, logs[arm].marks))
            for window in faulty
            if scenario != BASE and window.repeat in bases
        )
        if any(course.marks for repeat in repeats for course in repeat):
            panels.append(Panel(arm, scenario, repeats))
    return panels


def _omissions(arm_logs: Iterable[ReadMarks], panels: Sequence[Panel]) -> str:
    logs = list(arm_logs)
    damaged, undrawn = sum(log.damaged for log in logs), len(panels) - _PANELS_MAX
    sentences = [f"Damaged lines of the client's log, left out: {damaged}."] if damaged else []
    if not all(log.is_complete for log in logs):
        sentences.append(f"Only the first {_BYTES_MAX >> 20} MB of a log were read.")
    sentences += [f"{undrawn} further scenarios are not drawn."] if undrawn > 0 else []
    return " ".join(sentences)


def _figure(
    row: str, part: str, panels: Sequence[Panel], arms: Sequence[str], omissions: str
) -> Figure:
    drawn_panels = panels[:_PANELS_MAX]
    has_several_jobs = any(
        len(base.over_s) > 1 for panel in drawn_panels for base, _ in panel.repeats
    )
    note = "" if drawn_panels else "Nothing that can be read was told while the operation ran."
    name, identity = f"{row}, {part}", f"{row}-{part}".lower()
    if has_several_jobs:
        return _jobs_figure(name, identity, drawn_panels, arms, omissions, note)
    return _progress_figure(name, identity, drawn_panels, omissions, note)


def _progress_figure(
    name: str, identity: str, panels: Sequence[Panel], omissions: str, note: str
) -> Figure:
    """Figure 2a."""
    all_parts = (part for panel in panels for course in panel.middle for _, part in course.lines())
    parts = list(dict.fromkeys(all_parts))
    drawn_parts, undrawn = parts[:_PARTS_MAX], len(parts) - _PARTS_MAX
    colours = dict(zip(drawn_parts, cycle(colour.light for colour in palette.ARMS), strict=False))
    omissions = f"{omissions} {undrawn} further parts are not drawn." if undrawn > 0 else omissions
    caption = (
        "How far each part of the job is, as the system tells it, from when the operation began: "
        "of the repeat whose faulty run is the median. Dashed: the same without a fault. "
        f"A line that ends below 1 was cut short. {omissions}"
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
    return [
        {"t": time_s, "value": share, "colour": colours[part], "line": f"{job} {part}"}
        for (job, part), line in course.lines().items()
        if part in colours
        for time_s, share in _thin_out(line)
    ]


def _jobs_figure(
    name: str,
    identity: str,
    panels: Sequence[Panel],
    arms: Sequence[str],
    omissions: str,
    note: str,
) -> Figure:
    """Figure 2c, as counts: their slope is the number of jobs per hour."""
    caption = (
        "Jobs that had succeeded, from when the operation began: all repeats. Dashed: the same "
        "without a fault. Jobs per hour are over all of the operation's time, the median of the "
        f"repeats. {omissions}"
    ).strip()
    colours = {panel.arm: palette.arm_colour(arms, panel.arm).light for panel in panels}
    legend = tuple(Key("line", colour, arm) for arm, colour in colours.items())
    courses = [course for panel in panels for pair in panel.repeats for course in pair]
    jobs_max = max((len(course.over_s) for course in courses), default=0)

    def graph(panel: Panel, x: alt.X, size: Size) -> Any:
        base, faulty = ([pair[side] for pair in panel.repeats] for side in (0, 1))
        rates = [number(median(course.per_hour for course in group)) for group in (faulty, base)]
        title = f"{panel.title}: {rates[0]} jobs per hour, base {rates[1]}"
        top = 1.05 * jobs_max or 1.0
        y = marks.linear(alt.Y, "value", None, [0, top], tickMinStep=1, tickCount=5, format="d")
        return alt.layer(*(
            marks.line(_steps(group), x, y, interpolate="step-after", stroke=colours[panel.arm],
                       **stroke).encode(detail=alt.Detail("line:N"))
            for group, stroke in ((base, _DASHED), (faulty, _SOLID))
        )).properties(title=title, width=_width(size), height=_height(size))  # fmt: skip

    return drawn(
        f"jobs-{identity}", f"{name}: jobs done", caption, legend,
        lambda size: _graphs(panels, graph, size), note,
    )  # fmt: skip


def _steps(courses: Sequence[Course]) -> Rows:
    """Return the number of done jobs of each course over time, to the end of its operation."""
    return [
        {"t": time_s, "value": done, "line": str(course.window.repeat)}
        for course in courses
        for time_s, done in [
            *_thin_out([(time_s, done) for done, time_s in enumerate((0.0, *course.over_s))]),
            (max(course.window.took_s, *course.over_s, 0.0), len(course.over_s)),
        ]
    ]


def _thin_out(line: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Return fewer points of a line if there are too many, always with the last one."""
    return [*line[:: 1 + len(line) // _POINTS_MAX], line[-1]]


def _graphs(panels: Sequence[Panel], graph: Callable[[Panel, alt.X, Size], Any], size: Size) -> Any:
    """Draw the graphs side by side, with a common axis of seconds."""
    pairs = [pair for panel in panels for pair in panel.repeats]
    end_s = max(course.window.took_s for pair in pairs for course in pair)
    x = marks.linear(alt.X, "t", "seconds", [0, end_s], tickCount=6)
    return alt.concat(*(graph(panel, x, size) for panel in panels), columns=_columns(size))


def _columns(size: Size) -> int:
    return 1 if size.small else 2


def _width(size: Size) -> float:
    return (size.plot_width - 44 * (_columns(size) - 1)) / _columns(size)


def _height(size: Size) -> int:
    return 150 if size.small else 200
