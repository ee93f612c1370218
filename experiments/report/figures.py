"""A figure of a page: drawn in both sizes, with a legend, a caption, or a note in its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from altair.utils.schemapi import debug_mode

from experiments.report.layout import SIZES, Size
from experiments.report.svg import render


@dataclass(frozen=True)
class Key:
    """One entry of a figure's legend: a swatch of `kind` in `colour`, and what it stands for."""

    kind: str
    colour: str
    text: str


@dataclass(frozen=True)
class Figure:
    """A figure in both sizes, or the note that stands in its place."""

    identity: str
    title: str
    caption: str
    legend: tuple[Key, ...]
    drawings: dict[str, str]
    note: str


def drawn(
    identity: str,
    title: str,
    caption: str,
    legend: tuple[Key, ...],
    draw: Callable[[Size], Any],
    note: str = "",
) -> Figure:
    """Return a figure with the charts of `draw` in both sizes; with a note, nothing is drawn."""
    drawings = {}
    for size in () if note else SIZES:
        with debug_mode(False):  # checking each object against the schema takes seconds
            drawings[size.name] = render(draw(size), f"{identity}-{size.name}", title, caption)
    return Figure(identity, title, caption, legend, drawings, note)


def log_ticks(domain: Sequence[float]) -> list[float]:
    """Return 1, 2 and 5 of each decade in the domain; fewer if there are many decades."""
    decades = range(math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1])) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [tick for tick in ticks if domain[0] <= tick <= domain[1]]
        if len(ticks) <= 10:
            return ticks
    return ticks
