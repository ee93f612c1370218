"""Output of commands: JSON for programs, lines and tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from core.errors import SparecraftError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
out = Console()
err = Console(stderr=True)


def plain_table(first: str, *columns: str, left: int = 1) -> Table:
    """Return a plain table; the first `left` columns are texts, the others figures."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for number, name in enumerate((first, *columns)):
        table.add_column(name, justify="left" if number < left else "right", no_wrap=True)
    return table


def bare_table(*columns: str, left: int = 1, gap: int = 2) -> Table:
    """Return a table without a rule below its head, with this many spaces between columns."""
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < left else "right")
    return table


def print_table(table: Table) -> None:
    """Print the table below an empty line, transposed if it is too wide."""
    say("")
    out.print(fitting(table))


def fitting(table: Table, console: Console = out) -> Table:
    """Return the table. If it is too wide for the console, and narrower when it is transposed (a
    column for each row), return the transposed table."""
    columns = [[column.header, *column.cells] for column in table.columns]
    transposed = Table(
        title=table.title,
        title_justify=table.title_justify,
        box=table.box,
        padding=table.padding,
        pad_edge=table.pad_edge,
        show_edge=table.show_edge,
    )
    for index, cell in enumerate(columns[0] if columns else ()):
        transposed.add_column(
            cell, justify="right" if index else "left", no_wrap=not index, overflow="fold"
        )
    for column in columns[1:]:
        transposed.add_row(*column)
    widths = [width_of(candidate, console) for candidate in (table, transposed)]
    return transposed if widths[0] > console.width and widths[1] < widths[0] else table


def width_of(table: Table, console: Console) -> int:
    """Width of the table in columns, without a limit."""
    unlimited = console.options.update(max_width=10_000)
    return Measurement.get(console, unlimited, table).maximum


def option_of(argument: str) -> str:
    return "--" + argument.replace("_", "-")


@contextmanager
def told_by_option(options: Mapping[str, str]) -> Iterator[None]:
    """Name the option instead of the argument in errors about an argument in `options`."""
    try:
        yield
    except SparecraftError as error:
        if error.place not in options:
            raise
        error.place = options[error.place]
        raise


def print_json(value: Any) -> None:
    """Print `value` as JSON. Raises ValueError for inf or nan."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def say(line: str, console: Console = out, style: str | None = None) -> None:
    """Print one line as it is, without markup or highlighting."""
    console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)
