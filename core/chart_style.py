"""The style of figures, and the way from charts to SVG files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.units import YEAR_S

TEXT, TITLE, GRID, AXIS = "#3b4046", "#22262a", "#e4e6e9", "#8b9097"
BLUE, ORANGE, GREEN, PURPLE = "#0b6bb0", "#c4500b", "#0a7d5e", "#84479a"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, AXIS)
LIMIT = "#b0176a"
PAPER = "#fefefe"
"""After Okabe & Ito 2008; the reports of runs add the colours of dark mode."""

Row = Mapping[str, Any]
Rows = Sequence[Row]
"""The data of a chart."""
Charts = Mapping[str, Any]
"""Charts by the name of their file."""

CONFIG: Mapping[str, Any] = {
    "background": PAPER,
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "padding": 12,
    "view": {"stroke": None},
    "axis": {
        "labelColor": TEXT,
        "titleColor": TITLE,
        "gridColor": GRID,
        "domainColor": AXIS,
        "tickColor": AXIS,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 600,
        "titlePadding": 8,
        "labelOverlap": True,
    },
    "legend": {
        "labelColor": TEXT,
        "titleColor": TITLE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "symbolStrokeWidth": 2,
        "labelLimit": 320,
    },
    "title": {
        "color": TITLE,
        "subtitleColor": TEXT,
        "fontSize": 14,
        "subtitleFontSize": 12,
        "fontWeight": 600,
        "anchor": "start",
        "offset": 10,
    },
    "concat": {"spacing": 28},
}

PERCENT_LABEL = "format(100 * datum.value, ',~g') + ' %'"
"""The label of a share on an axis: `5 %`, as in the text."""

_NINES = (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def colours(names: Iterable[str]) -> Any:
    """Return a scale that gives each name its colour, in order."""
    import altair as alt

    domain = list(names)
    return alt.Scale(domain=domain, range=list(SERIES[: len(domain)]))


def data(rows: Rows) -> Any:
    """Return rows as a chart's data, as text, because Altair copies a chart at every step."""
    import altair as alt

    return alt.InlineData(values=json.dumps(rows), format=alt.JsonDataFormat(type="json"))


def nines_axis(worst: float, best: float) -> Any:
    """Return a log axis of the unavailability `u`, labelled as availability and downtime a year.

    Parameters: worst and best unavailability [-], the ends of the axis. Better is up.
    """
    import altair as alt

    values = [n for n in _NINES if best <= n <= worst]
    labels = ", ".join(f"'{100 * (1 - n):.6g} %  ({_downtime(n)})'" for n in values)
    numbers = ", ".join(f"{n!r}" for n in values)
    return alt.Y(
        "u:Q",
        scale=alt.Scale(type="log", domain=[worst, best], nice=False, clamp=True),
        axis=alt.Axis(
            title="availability over a year (downtime)",
            values=values,
            labelExpr=f"[{labels}][indexof([{numbers}], datum.value)]",
            labelOverlap=False,
        ),
    )


def _downtime(share: float) -> str:
    seconds = share * YEAR_S
    for unit, size_s in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size_s:
            count = seconds / size_s
            return f"{count:.0f} {unit}" if count >= 10 else f"{count:.1f} {unit}"
    return f"{seconds:.2g} s"


def svg(chart: Any) -> str:
    """Return a chart as SVG text, in the style of all figures."""
    import altair as alt
    import vl_convert

    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    spec = {**chart.to_dict(validate=False), "config": CONFIG}
    return str(vl_convert.vegalite_to_svg(spec, vl_version=version))


def write_figures(folder: Path, charts: Mapping[str, Any]) -> list[Path]:
    """Write each chart as NAME.svg into `folder`, and make the folder if necessary.

    Returns: the files. Raises: InputError if the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            "--figures", expected="a folder that can be made", got=f"{folder}: {error.strerror}"
        ) from error
    paths = []
    for name, chart in charts.items():
        path = folder / f"{name}.svg"
        path.write_text(svg(chart))
        paths.append(path)
    return paths
