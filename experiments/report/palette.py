"""Colours of the figures: what is drawn, and what dark mode makes of it.

Figures are drawn once, in light colours. The page's style sheet recolours them in dark mode by the
colour's own value, so each meaning has a value of its own. The arms' colours keep apart for the
common kinds of colour blindness (after Okabe & Ito 2008) and differ in lightness and shape too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core import chart_style as style


@dataclass(frozen=True)
class Colour:
    """A colour on white, and the one that means the same on black."""

    light: str
    dark: str


TEXT = Colour(style.TEXT, "#c6cbd1")
TITLE = Colour(style.TITLE, "#eceff2")
GRID = Colour(style.GRID, "#34383e")
AXIS = Colour(style.AXIS, "#6d737b")
MARKER = Colour("#15181b", "#f4f6f8")
FAULT = Colour(style.LIMIT, "#ff7cc0")
INTERFERENCE = Colour("#7d858f", "#8f98a3")
PAPER = Colour(style.PAPER, "#17191c")

ARMS = (
    Colour(style.BLUE, "#62b4f5"),
    Colour(style.ORANGE, "#ff9a56"),
    Colour(style.GREEN, "#48cda7"),
    Colour(style.PURPLE, "#d7a3e8"),
)
PAGE = {  # the style sheet's variables
    "paper": PAPER,
    "card": Colour("#f5f6f8", "#1f2226"),
    "ink": TITLE,
    "soft": Colour("#565d65", "#a9b0b8"),
    "line": Colour("#dcdfe3", "#363b41"),
    "link": Colour("#0b5c99", "#7cc0f7"),
    "good": Colour("#0b6b3a", "#5fd39a"),
    "bad": Colour("#a3122f", "#ff8fa3"),
    "unknown": Colour("#7a5600", "#f0c264"),
}
SHAPES = ("circle", "triangle-up", "square", "diamond")

ALL = (TEXT, TITLE, GRID, AXIS, MARKER, FAULT, INTERFERENCE, PAPER, *ARMS)


def arm_colour(arms: Sequence[str], arm: str) -> Colour:
    """Return the colour of an arm, by its place in the experiment."""
    return ARMS[arms.index(arm) % len(ARMS)] if arm in arms else INTERFERENCE


def arm_shape(arms: Sequence[str], arm: str) -> str:
    """Return the point shape of an arm: of two arms with one colour each has its own."""
    if arm not in arms:
        return SHAPES[0]
    round_of_colours, index = divmod(arms.index(arm), len(ARMS))
    return SHAPES[(index + round_of_colours) % len(SHAPES)]


def page_rules(*, dark: bool) -> str:
    """Return the style sheet's colours."""
    colours = {name: colour.dark if dark else colour.light for name, colour in PAGE.items()}
    return f":root{{{''.join(f'--{name}:{value};' for name, value in colours.items())}}}"
