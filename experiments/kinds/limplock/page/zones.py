"""Danger zones on the page: the curve along the axis, and a table of the zones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from experiments.kinds.limplock.page.words import bounds, ratio_text
from experiments.kinds.limplock.scenarios import Axis
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size
from experiments.report.tables import Cell, Table, named
from experiments.report.text import factor, number

AXES: Mapping[Axis, str] = {
    "slower": "times slower than its nominal rate the part is (log scale)",
    "loss": "packets lost each way, % (log scale)",
    "delay": "ms that each packet is held back each way (log scale)",
    "io_latency": "ms longer that each of the disk's I/Os takes (log scale)",
    "held": "seconds that the part limps (log scale)",
    "start": "seconds of the operation before the part limps (log scale)",
}
_MARGIN = 1.3
SearchResult = Mapping[str, Any]


def zone_figures(searches: Sequence[SearchResult], arms: Sequence[str]) -> list[Figure]:
    return [_figure(search, palette.arm_colour(arms, search["arm"]).light) for search in searches]


def _figure(search: SearchResult, colour: str) -> Figure:
    caption = (
        "How long the row's operation took over its base, each repeat a dot (a triangle: at least "
        "so long, it was cut short), medians joined. Shaded: danger zones, where it changes far "
        "more than the fault does. Lightly shaded: wide stretches that may hold one."
    )
    legend = (
        Key("circle", colour, f"{search['row']}, {search['part']}, {search['arm']}"),
        Key("line", palette.FAULT.light, "danger zone"),
    )
    identity = f"zones-{search['arm']}-{search['row']}-{search['part']}".lower()
    title = f"{search['row']}, {search['part']}, {search['arm']}: slowdown along the fault"
    note = "" if search["points"] else "Nothing was measured."
    return drawn(identity, title, caption, legend, lambda size: _curve(search, colour, size), note)


def _curve(search: SearchResult, colour: str, size: Size) -> Any:
    waits = [
        {"at": point["at"], "value": wait["seconds"], "colour": colour,
         "shape": "triangle-up" if wait["at_least"] else "circle"}
        for point in search["points"]
        for wait in point["waits"]
    ]  # fmt: skip
    medians = [
        {"at": point["at"], "value": point["median"]["seconds"]} for point in search["points"]
    ]
    values = [row["value"] for row in waits]
    ends = [search["points"][0]["at"] / 1.05, search["points"][-1]["at"] * 1.05]
    domain = [min(0.7, min(values) / _MARGIN), max(2.0, max(values) * _MARGIN)]
    x = marks.logarithmic(alt.X, "at", AXES[search["axis"]], ends)
    y = marks.logarithmic(alt.Y, "value", "slowdown (log scale)", domain)
    zones = [(zone["low"], zone["high"]) for zone in search["zones"]]
    layers = [
        marks.shade([{"at": low, "high": high} for low, high in stretches], palette.FAULT.light,
                    opacity, x=x, x2=alt.X2("high:Q"))
        for stretches, opacity in ((zones, 0.28), (search["open"], 0.09))
        if stretches
    ]  # fmt: skip
    layers += [marks.line(medians, x, y, strokeWidth=1.2, stroke=colour),
               marks.points(waits, x, y, 36, opacity=0.85)]  # fmt: skip
    return alt.layer(*layers).properties(width=size.plot_width, height=230 if size.small else 300)


def zone_table(searches: Sequence[SearchResult]) -> Table | None:
    """Return every zone, then the stretches that the budget left open."""
    rows = [_zone_cells(search, zone) for search in searches for zone in search["zones"]]
    rows += [_open_cells(search, stretch) for search in searches for stretch in search["open"]]
    head = ("row", "between", "change of the operation", "elasticity", "seen")
    return Table("zone-table", "Danger zones", head, tuple(rows)) if rows else None


def _zone_cells(search: SearchResult, zone: Mapping[str, Any]) -> tuple[Cell, ...]:
    ratio = zone["ratio"]
    return (
        named(f"{search['row']}, {search['arm']}"),
        Cell(_range_text(search, (zone["low"], zone["high"]))),
        Cell(
            f"{ratio_text(ratio)} {'slower' if zone['worse'] else 'faster'}",
            about=bounds(ratio),
            mood="bad" if zone["worse"] else "good",
        ),
        Cell(f"{number(zone['elasticity'])} or more"),
        named("cornered" if zone["narrow"] else "wide: the budget ended"),
    )


def _open_cells(search: SearchResult, stretch: Sequence[float]) -> tuple[Cell, ...]:
    ends = Cell(_range_text(search, stretch))
    return (
        named(f"{search['row']}, {search['arm']}"),
        ends,
        Cell(""),
        Cell(""),
        named("not decided"),
    )


def _range_text(search: SearchResult, ends: Sequence[float]) -> str:
    return f"{number(ends[0])} and {number(ends[1])} {search['unit']}"


def zone_words(searches: Sequence[SearchResult]) -> str:
    """Return the first sentence of the page of a search."""
    ranges = [
        f"{_range_text(search, (zone['low'], zone['high']))} "
        f"({factor(zone['ratio']['low'])} or more {'slower' if zone['worse'] else 'faster'}, "
        f"{search['row']}, {search['arm']})"
        for search in searches
        for zone in search["zones"]
    ]
    if not ranges:
        return " ".join(_no_zone_sentence(search) for search in searches)
    values = sum(len(search["points"]) for search in searches)
    return f"Danger zones between {'; between '.join(ranges)}; {values} values were measured."


def _no_zone_sentence(search: SearchResult) -> str:
    points = search["points"]
    if not points:
        return f"Nothing was measured ({search['row']}, {search['arm']})."
    medians = [point["median"] for point in points]
    ends = [choose(medians, key=lambda wait: wait["seconds"]) for choose in (min, max)]
    least, most = (ratio_text(wait, "seconds") for wait in ends)
    axis = _range_text(search, [points[0]["at"], points[-1]["at"]])
    wide = " or between ".join(_range_text(search, stretch) for stretch in search["open"])
    return (
        f"No danger zone is shown between {axis} "
        f"({search['row']}, {search['arm']}): {least} to {most} slower, {len(points)} values"
        f"{f'; not decided between {wide}' if wide else ''}."
    )
