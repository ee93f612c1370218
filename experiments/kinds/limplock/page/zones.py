"""Danger zones on the page: the curve along the axis, and a table of the zones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from experiments.kinds.limplock.page.words import bounds, slowed
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
Searched = Mapping[str, Any]


def zone_figures(found: Sequence[Searched], arms: Sequence[str]) -> list[Figure]:
    """Of each arm."""
    return [_figure(one, palette.arm_colour(arms, one["arm"]).light) for one in found]


def _figure(one: Searched, colour: str) -> Figure:
    caption = (
        "How long the row's operation took over its base, each repeat a dot (a triangle: at least "
        "so long, it was cut short), medians joined. Shaded: danger zones, where it changes far "
        "more than the fault does. Lightly shaded: wide stretches that may hold one."
    )
    legend = (
        Key("circle", colour, f"{one['row']}, {one['part']}, {one['arm']}"),
        Key("line", palette.FAULT.light, "danger zone"),
    )
    identity = f"zones-{one['arm']}-{one['row']}-{one['part']}".lower()
    title = f"{one['row']}, {one['part']}, {one['arm']}: slowdown along the fault"
    note = "" if one["points"] else "Nothing was measured."
    return drawn(identity, title, caption, legend, lambda size: _curve(one, colour, size), note)


def _curve(one: Searched, colour: str, size: Size) -> Any:
    waits = [
        {"at": point["at"], "value": wait["seconds"], "colour": colour,
         "shape": "triangle-up" if wait["at_least"] else "circle"}
        for point in one["points"]
        for wait in point["waits"]
    ]  # fmt: skip
    medians = [{"at": p["at"], "value": p["median"]["seconds"]} for p in one["points"]]
    values = [row["value"] for row in waits]
    ends = [one["points"][0]["at"] / 1.05, one["points"][-1]["at"] * 1.05]
    domain = [min(0.7, min(values) / _MARGIN), max(2.0, max(values) * _MARGIN)]
    x = marks.logarithmic(alt.X, "at", AXES[one["axis"]], ends)
    y = marks.logarithmic(alt.Y, "value", "slowdown (log scale)", domain)
    zones = [(zone["low"], zone["high"]) for zone in one["zones"]]
    layers = [
        marks.shade([{"at": low, "high": high} for low, high in stretches], palette.FAULT.light,
                    opacity, x=x, x2=alt.X2("high:Q"))
        for stretches, opacity in ((zones, 0.28), (one["open"], 0.09))
        if stretches
    ]  # fmt: skip
    layers += [marks.line(medians, x, y, strokeWidth=1.2, stroke=colour),
               marks.points(waits, x, y, 36, opacity=0.85)]  # fmt: skip
    return alt.layer(*layers).properties(width=size.plot_width, height=230 if size.small else 300)


def zone_table(found: Sequence[Searched]) -> Table | None:
    """Every zone, then what the budget left open."""
    rows = [_zone(one, zone) for one in found for zone in one["zones"]]
    rows += [_open(one, stretch) for one in found for stretch in one["open"]]
    head = ("row", "between", "change of the operation", "elasticity", "seen")
    return Table("zone-table", "Danger zones", head, tuple(rows)) if rows else None


def _zone(one: Searched, zone: Mapping[str, Any]) -> tuple[Cell, ...]:
    ratio = zone["ratio"]
    return (
        named(f"{one['row']}, {one['arm']}"),
        Cell(_between(one, (zone["low"], zone["high"]))),
        Cell(
            f"{slowed(ratio)} {'slower' if zone['worse'] else 'faster'}",
            about=bounds(ratio),
            mood="bad" if zone["worse"] else "good",
        ),
        Cell(f"{number(zone['elasticity'])} or more"),
        named("cornered" if zone["narrow"] else "wide: the budget ended"),
    )


def _open(one: Searched, stretch: Sequence[float]) -> tuple[Cell, ...]:
    where = Cell(_between(one, stretch))
    return named(f"{one['row']}, {one['arm']}"), where, Cell(""), Cell(""), named("not decided")


def _between(one: Searched, ends: Sequence[float]) -> str:
    return f"{number(ends[0])} and {number(ends[1])} {one['unit']}"


def zone_words(found: Sequence[Searched]) -> str:
    """Return the first sentence of such a page."""
    said = [
        f"{_between(one, (zone['low'], zone['high']))} ({factor(zone['ratio']['low'])} or more "
        f"{'slower' if zone['worse'] else 'faster'}, {one['row']}, {one['arm']})"
        for one in found
        for zone in one["zones"]
    ]
    if not said:
        return " ".join(_none(one) for one in found)
    values = sum(len(one["points"]) for one in found)
    return f"Danger zones between {'; between '.join(said)}; {values} values were measured."


def _none(one: Searched) -> str:
    points = one["points"]
    if not points:
        return f"Nothing was measured ({one['row']}, {one['arm']})."
    slow = {key: choose(points, key=lambda point: point["median"]["seconds"])
            for key, choose in (("least", min), ("most", max))}  # fmt: skip
    said = [slowed(slow[key]["median"], "seconds") for key in ("least", "most")]
    wide = " or between ".join(_between(one, stretch) for stretch in one["open"])
    return (
        f"No danger zone is shown between {_between(one, [points[0]['at'], points[-1]['at']])} "
        f"({one['row']}, {one['arm']}): {said[0]} to {said[1]} slower, {len(points)} values"
        f"{f'; not decided between {wide}' if wide else ''}."
    )
