"""Lines of every kind on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Lines

from core.terminal import fitting, say
from experiments.report.tables import Table


def print_table(table: Table | None, console: Console) -> None:
    """Print a table of the report; one that is too wide stands on its side. None, and one without
    rows, as of a run that was cut short, is not printed."""
    if table is None or not table.rows:
        return
    lines = Lines()
    for heading, cell in zip(table.head, table.rows[0], strict=True):
        lines.add_column(heading, justify="right" if cell.numeric else "left")
    for row in table.rows:
        lines.add_row(*(escape(cell.text) + (" ?" if cell.doubtful else "") for cell in row))
    console.print(f"[italic]{escape(table.caption)}[/]", highlight=False)
    console.print(fitting(lines, console))


def print_reasons(verdicts: Mapping[str, Any], console: Console) -> None:
    """Why verdicts failed, a line each."""
    for name, verdict in verdicts.items():
        for reason in verdict["reasons"]:
            console.print(f"  - {name}: {reason}", markup=False, highlight=False)


def print_path(page: Path, console: Console) -> None:
    """The last line: where the page lies, whole."""
    say(f"Report: {page}", console)
