"""The line of a design's tile: its last runs, without axes."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from experiments.report import palette


def sparkline(values: Sequence[tuple[float, bool]], words: str) -> str:
    """Return a tile's line as SVG: values with whether they are valid, oldest first."""
    if not values:
        return ""
    logs = [math.log(value) for value, _ in values]
    low, high = min(logs), max(logs)

    def point(index: int) -> tuple[float, float]:
        across = index / max(1, len(logs) - 1)
        up = (logs[index] - low) / (high - low) if high > low else 0.5
        return 6 + across * 148, 34 - up * 28

    points = [point(index) for index in range(len(logs))]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    colour, paper = palette.ARMS[0].light, palette.PAPER.light
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour if valid else paper}" '
        f'stroke="{colour}" stroke-width="1.4"/>'
        for (x, y), (_, valid) in zip(points, values, strict=True)
    )
    return (
        f'<svg class="figure spark" viewBox="0 0 160 40" width="160" height="40" role="img" '
        f'aria-label="{html.escape(words)}"><path d="{path}" fill="none" stroke="{colour}" '
        f'stroke-width="1.4"/>{dots}</svg>'
    )
