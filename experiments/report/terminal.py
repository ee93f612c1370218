"""Lines of every kind on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Lines

from core.terminal import fitting, say, width_of
from experiments.report.tables import Cell, Table

DOUBT = " ?"
_WORD_MOST = 14  # letters of a word that is not broken
_DOUBT_WORDS = "?: fewer than 10 samples lie beyond: nothing may be concluded from it"


def print_table(table: Table | None, console: Console, *, beside: bool = False) -> None:
    """Print a table of the report. If it is too wide, it is transposed, or else without lines, its
    figures whole and its words wrapped. None and a table without rows, as of a run that was cut
    short, are not printed.

    beside: print the small text that the page has below a figure in brackets behind it.
    """
    if table is None or not table.rows:
        return
    boxed = _filled(Lines(), table, beside)
    lines = fitting(boxed, console)
    if lines is boxed and width_of(lines, console) > console.width:
        bare = Lines(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        lines = _filled(bare, table, beside, whole_figures=True)
    console.print(f"[italic]{escape(table.caption)}[/]", highlight=False)
    console.print(lines)
    print_doubt(lines, console)


def _filled(lines: Lines, table: Table, beside: bool, *, whole_figures: bool = False) -> Lines:
    """Return `lines` with the table's columns and rows; columns without a text are left out."""
    rows = [[_cell_text(cell, beside) for cell in row] for row in table.rows]
    kept = [place for place in range(len(table.head)) if any(row[place] for row in rows)]
    for place in kept:
        numeric = table.rows[0][place].numeric
        words = " ".join([table.head[place], *(row[place] for row in rows)]).split()
        lines.add_column(
            table.head[place],
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=numeric and whole_figures,
            min_width=min(_WORD_MOST, max(map(len, words))) if whole_figures else None,
        )
    for row in rows:
        lines.add_row(*(row[place] for place in kept))
    return lines


def print_doubt(table: Lines, console: Console) -> None:
    """Print the meaning of the question mark, below a table that has one."""
    cells = (str(cell) for column in table.columns for cell in column.cells)
    if any(cell.endswith(DOUBT) for cell in cells):
        console.print(_DOUBT_WORDS, style="dim", highlight=False)


def _cell_text(cell: Cell, beside: bool) -> str:
    text = f"{cell.text} ({cell.about})" if beside and cell.about else cell.text
    return escape(text) + (DOUBT if cell.doubtful else "")


def print_reasons(verdicts: Mapping[str, Any], console: Console) -> None:
    """Print the reasons why verdicts failed, a line each."""
    for name, verdict in verdicts.items():
        for reason in verdict["reasons"]:
            console.print(f"  - {name}: {reason}", markup=False, highlight=False)


def print_path(page: Path, console: Console) -> None:
    """Print the full path of the page, as the last line."""
    say(f"Report: {page}", console)
