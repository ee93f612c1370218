"""Colours of the figures: what is drawn, and what dark mode makes of it.

Figures are drawn once, in light colours. The page's style sheet recolours them in dark mode by the
colour's own value, so each meaning has a value of its own. The arms' colours keep apart for the
common kinds of colour blindness (after Okabe & Ito 2008) and differ in lightness and shape too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Colour:
    """A colour on white, and the one that means the same on black."""

    light: str
    dark: str


TEXT = Colour("#3b4046", "#c6cbd1")
TITLE = Colour("#22262a", "#eceff2")
GRID = Colour("#e4e6e9", "#34383e")
AXIS = Colour("#8b9097", "#6d737b")
MARKER = Colour("#15181b", "#f4f6f8")
FAULT = Colour("#b0176a", "#ff7cc0")
INTERFERENCE = Colour("#7d858f", "#8f98a3")
PAPER = Colour("#fefefe", "#17191c")

ARMS = (
    Colour("#0b6bb0", "#62b4f5"),
    Colour("#c4500b", "#ff9a56"),
    Colour("#0a7d5e", "#48cda7"),
    Colour("#84479a", "#d7a3e8"),
)
SHAPES = ("circle", "triangle-up", "square", "diamond")

ALL = (TEXT, TITLE, GRID, AXIS, MARKER, FAULT, INTERFERENCE, PAPER, *ARMS)


def arm_colour(arms: Sequence[str], arm: str) -> Colour:
    """The colour of an arm, by its place in the experiment."""
    return ARMS[arms.index(arm) % len(ARMS)] if arm in arms else INTERFERENCE


def arm_shape(arms: Sequence[str], arm: str) -> str:
    """The point shape of an arm."""
    return SHAPES[arms.index(arm) % len(SHAPES)] if arm in arms else SHAPES[0]
