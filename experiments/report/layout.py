"""The two sizes in which every figure is drawn: one for a desk and paper, one for a phone.

Scaling one drawing down to a phone makes its text unreadable, so there are two.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The width of a drawing, and the room in it."""

    name: str
    width: int
    columns: int
    points_max: int

    @property
    def plot_width(self) -> int:
        """Room for the plot beside an axis with labels."""
        return self.width - 82

    @property
    def small(self) -> bool:
        """A phone."""
        return self.columns == 2


WIDE = Size("wide", width=880, columns=4, points_max=2400)
NARROW = Size("narrow", width=352, columns=2, points_max=1000)
SIZES = (WIDE, NARROW)
