"""A table of a page as rows of text; the template and the terminal only lay it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One cell; `doubtful` marks a figure that rests on too few samples, `mood` (good, bad,
    unknown, void) what it is to the reader; `about` stands small below it."""

    text: str
    doubtful: bool = False
    numeric: bool = True
    mood: str = ""
    about: str = ""


@dataclass(frozen=True)
class Table:
    """Head and rows; the first cell of each row names it."""

    identity: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def named(text: Any) -> Cell:
    """Return a cell with text, not with a figure."""
    return Cell(str(text), numeric=False)
