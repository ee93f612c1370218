"""The front of cost against a limit as SVG: a step line, the chosen plan, the SLO."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from core.chart_style import BLUE, LIMIT, ORANGE, Row, Rows, data, svg
from optimizer.plan.explain.curve import nines

_WIDTH, _HEIGHT = 720, 340
_LETTER = 8.0  # pixels of a label's letter, with its distance from its point


def front_svg(body: Mapping[str, Any]) -> str:
    """Draw one front from its `Front.body`. The line is the least cost of each limit.

    The line is dashed where no cheaper fleet was searched. Raises ValueError without points.
    """
    title, subtitle = front_titles(body)
    return svg(
        front_chart(body, _WIDTH, _HEIGHT).properties(title=alt.Title(title, subtitle=subtitle))
    )


def front_titles(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the title and the subtitle of a front."""
    points = body["points"]
    subtitle = f"{len(points)} points, each the proved optimum of its limit, all other limits kept"
    if not all(point["next_is_adjacent"] for point in points):
        subtitle += ". Dashed: there may be cheaper fleets"
    return f"Least cost of each {body['limit'].removesuffix('_ms')}", subtitle


def front_chart(body: Mapping[str, Any], width: int, height: int) -> Any:
    """Return the chart of a front. Raises ValueError without points."""
    limit = body["limit"]
    points = sorted((_row(limit, point) for point in body["points"]), key=lambda p: p["x"])
    if not points:
        raise ValueError("a front needs at least one point")
    slo = None if body["asked"] is None else _x(limit, body["asked"])
    x, y = _x_axis(limit, points, slo), _y_axis(points)
    dash = alt.Scale(domain=[False, True], range=[[1, 0], [4, 4]])
    segments = _segments(limit, points, slo)
    line = alt.Chart(data(segments)).mark_line(strokeWidth=2, color=BLUE)
    dots = alt.Chart(data(points)).mark_point(
        shape="circle", size=44, filled=True, color=BLUE, opacity=1
    )
    layers = [
        line.encode(
            x=x,
            y=y,
            detail=alt.Detail("part:N"),
            order=alt.Order("order:Q"),
            strokeDash=alt.StrokeDash("open:N", legend=None, scale=dash),
        ),
        dots.encode(x=x, y=y),
        *(_slo_layers(body, slo, _domain(limit, points, slo), x) if slo is not None else []),
        *_chosen_layers(limit, points, slo, width, x, y),
    ]
    return alt.layer(*layers, width=width, height=height)


def _x(limit: str, value: float) -> float:
    return nines(1.0 - value) if limit == "availability" else value


def _row(limit: str, point: Mapping[str, Any]) -> Row:
    return {
        "x": _x(limit, point[limit]),
        "usd": point["usd_per_month"],
        "chosen": point["chosen"],
        "adjacent": point["next_is_adjacent"],
        "loose": None if point["same_cost_from"] is None else _x(limit, point["same_cost_from"]),
        "fleet": point["fleet"],
    }


def _domain(limit: str, points: Sequence[Mapping[str, Any]], slo: float | None) -> list[float]:
    """Return the bounds of x with a small margin, which is a factor for a latency."""
    values = [p["x"] for p in points] + ([] if slo is None else [slo])
    low, high = min(values), max(values)
    if limit == "availability":
        margin = 0.06 * (high - low) or 0.5
        return [max(0.0, low - margin), high + margin]
    factor = (high / low) ** 0.06 if high > low else 1.2
    return [low / factor, high * factor]


def _x_axis(limit: str, points: Sequence[Mapping[str, Any]], slo: float | None) -> Any:
    domain = _domain(limit, points, slo)
    if limit == "availability":
        axis = alt.Axis(
            title="availability, nines = -log10(1 - A)",
            tickMinStep=1,
            tickCount=math.ceil(domain[1]) - math.floor(domain[0]),
            labelExpr="datum.value + (datum.value > 1 ? ' nines' : ' nine')",
        )
        return alt.X("x:Q", scale=alt.Scale(domain=domain, nice=False, zero=False), axis=axis)
    axis = alt.Axis(
        title=f"{limit.removesuffix('_ms')} of a request, ms (log scale)",
        values=_ticks(domain),
        format=",.6~g",
    )
    return alt.X("x:Q", scale=alt.Scale(type="log", domain=domain, nice=False), axis=axis)


def _y_axis(points: Sequence[Mapping[str, Any]]) -> Any:
    low, high = min(p["usd"] for p in points), max(p["usd"] for p in points)
    if high <= 8 * low or low <= 0:
        scale = alt.Scale(domain=[0, high * 1.08 or 1.0], nice=False)
        axis = alt.Axis(title="USD a month", format=",.6~g", tickCount=6)
    else:
        domain = [low * 0.7, high * 1.3]
        scale = alt.Scale(type="log", domain=domain, nice=False)
        axis = alt.Axis(title="USD a month (log scale)", format=",.6~g", values=_ticks(domain))
    return alt.Y("usd:Q", scale=scale, axis=axis)


def _ticks(domain: Sequence[float]) -> list[float]:
    """Return 1, 2, 5 times the powers of ten in the domain, or finer ticks if these are few."""
    low, high = domain
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1.0, 2.0, 5.0), tuple(range(1, 10)), tuple(k / 10 for k in range(10, 100))):
        ticks = [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]
        if len(ticks) >= 4:
            break
    return ticks


def _segments(limit: str, points: Sequence[Mapping[str, Any]], slo: float | None) -> Rows:
    """Return the pieces of the step line.

    From each point one piece goes along the looser limits of the same cost. It goes on to the
    next point, dashed if no fleet was searched there, and then down to that point.
    """
    domain = _domain(limit, points, slo)
    edge = domain[0] if limit == "availability" else domain[1]
    cheapest_first = points if limit == "availability" else points[::-1]
    rows: list[Row] = []

    def piece(kind: str, at: Mapping[str, Any], corners: Sequence[tuple[float, float]]) -> None:
        name = f"{kind} {at['x']}"
        for x, usd in corners:
            row = {"part": name, "x": x, "usd": usd, "open": kind == "open"}
            rows.append({**row, "order": len(rows)})

    for point, cheaper in zip(cheapest_first, [None, *cheapest_first], strict=False):
        usd = point["usd"]
        end = edge if point["loose"] is None else min(max(point["loose"], domain[0]), domain[1])
        piece("known", point, [(point["x"], usd), (end, usd)])
        if cheaper is None:
            piece("known", {"x": "edge"}, [(end, usd), (edge, usd)])
        else:
            piece("open", point, [(end, usd), (cheaper["x"], usd)])
            piece("step", point, [(cheaper["x"], usd), (cheaper["x"], cheaper["usd"])])
    return rows


def _slo_layers(body: Mapping[str, Any], slo: float, domain: Sequence[float], x: Any) -> list[Any]:
    """Return the line of the SLO, with its name at the top on the side with more space."""
    unit = "" if body["limit"] == "availability" else " ms"
    text = f"SLO {body['asked']:,.12g}{unit}"
    base = alt.Chart(data([{"x": slo, "text": text}]))
    scale = (lambda value: value) if body["limit"] == "availability" else math.log
    low, at, high = (scale(value) for value in (domain[0], slo, domain[1]))
    right = at - low < high - at
    label = base.mark_text(
        align="left" if right else "right", dx=6 if right else -6, dy=2, baseline="top",
        color=LIMIT, fontSize=12,
    )  # fmt: skip
    return [
        base.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=LIMIT).encode(x=x),
        label.encode(x=x, y=alt.value(0), text=alt.Text("text:N")),
    ]


def _chosen_layers(
    limit: str,
    points: Sequence[Mapping[str, Any]],
    slo: float | None,
    width: int,
    x: Any,
    y: Any,
) -> list[Any]:
    """Return the mark of the plan, with its cost written where no line runs.

    On the right the text is below the line for availability and above it for latency; on the
    left it is the other way round.
    """
    chosen = [{**p, "text": f"plan: {p['usd']:,.2f} USD"} for p in points if p["chosen"]]
    base = alt.Chart(data(chosen))
    mark = base.mark_point(shape="diamond", size=150, filled=True, color=ORANGE, opacity=1)
    right = all(
        _room_on_the_right(limit, _domain(limit, points, slo), point["x"], slo, width)
        > _LETTER * len(point["text"])
        for point in chosen
    )
    below = right == (limit == "availability")
    label = base.mark_text(
        align="left" if right else "right",
        dx=10 if right else -10,
        dy=16 if below else -14,
        color=ORANGE,
        fontSize=12,
        fontWeight=600,
    )
    return [mark.encode(x=x, y=y), label.encode(x=x, y=y, text=alt.Text("text:N"))]


def _room_on_the_right(
    limit: str, domain: Sequence[float], x: float, slo: float | None, width: int
) -> float:
    """Return the pixels between a point and the edge, or the line of the SLO."""
    scale = (lambda value: value) if limit == "availability" else math.log
    low, high = (scale(value) for value in domain)
    end = high if slo is None or slo < x else scale(slo)
    return (end - scale(x)) / (high - low) * width
