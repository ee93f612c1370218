"""From an Altair chart to an SVG that can stand inside a page: own ids, a title, no fixed size."""

from __future__ import annotations

import html
import re
from typing import Any

import altair as alt
import vl_convert

from core import chart_style as style
from experiments.report import palette

_CONFIG: dict[str, object] = {
    **style.CONFIG,
    "background": None,
    "aria": False,
    "padding": {"left": 2, "right": 8, "top": 4, "bottom": 2},
    "title": {**style.CONFIG["title"], "fontSize": 12, "offset": 4},
    "header": {"labelColor": style.TEXT, "titleColor": style.TITLE},
    "concat": {"spacing": 12},
}

_VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
_ROLES = re.compile(r' (?:role|aria-[a-z]+)="[^"]*"')
_LOCAL_ID = re.compile(r'\bid="([^"]+)"')
_ROOT = re.compile(r"<svg\b[^>]*>")
_VIEW_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


def render(chart: Any, identity: str, title: str, description: str) -> str:
    """Return the chart as inline SVG.

    Parameters: chart, any Altair chart; identity, unique in the page, takes the place of
    every id in the SVG (clip paths of two figures would else shadow each other, and no two runs
    name them alike); title and description, plain text for those who cannot see it.
    """
    spec = chart.to_dict(validate=False)  # validating thousands of points takes seconds
    spec["config"] = _CONFIG
    raw = vl_convert.vegalite_to_svg(spec, vl_version=_VEGA_LITE)
    raw = _ROLES.sub("", raw)
    for number, name in enumerate(dict.fromkeys(_LOCAL_ID.findall(raw))):
        raw = raw.replace(f'id="{name}"', f'id="{identity}-{number}"')
        raw = raw.replace(f"url(#{name})", f"url(#{identity}-{number})")
    size = _VIEW_BOX.search(raw)
    if size is None:
        raise RuntimeError("the SVG that vl-convert made has no viewBox; was it updated?")
    width, height = size.groups()
    root = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{identity}-title {identity}-desc">'
        f'<title id="{identity}-title">{html.escape(title)}</title>'
        f'<desc id="{identity}-desc">{html.escape(description)}</desc>'
    )
    return _ROOT.sub(lambda _: root, raw, count=1)


def dark_rules() -> str:
    """Return CSS that turns each light colour of a figure into its dark one."""
    rules = []
    for colour in palette.ALL:
        for attribute in ("fill", "stroke"):
            rules.append(f'svg.figure [{attribute}="{colour.light}"]{{{attribute}:{colour.dark}}}')
    return "\n".join(rules)
