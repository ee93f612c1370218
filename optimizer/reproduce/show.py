"""The papers' tables and statements beside ours, for a terminal: readable without colours too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from core.terminal import bare_table
from optimizer.reproduce.measured import Row
from optimizer.reproduce.published import Claim
from optimizer.reproduce.replicas import Grid
from optimizer.reproduce.tables import NODES, Cell

_TITLES = {
    "table_ii_a": "Table II(a): extra active nodes in the cloud",
    "table_ii_b": "Table II(b): extra active nodes on-premises, no repair",
    "table_iii": "Table III: nodes in the pool on-premises, by crash rate, fail-over, pool repair",
}
_AT_ODDS = "bold red"


def show_tables(out: Console, cells: Mapping[str, Sequence[Cell]]) -> None:
    """Print each table with the paper's line and one for each reading; explain the differences."""
    for table, title in _TITLES.items():
        chosen = {r: [c for c in row_cells if c.table == table] for r, row_cells in cells.items()}
        out.print(Text(f"\n{title}", style="bold"))
        out.print(_make_table(chosen))
        _explain_cells(out, [c for row_cells in chosen.values() for c in row_cells])


def _make_table(cells: Mapping[str, Sequence[Cell]]) -> Table:
    first = next(iter(cells.values()))
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("node", no_wrap=True)
    table.add_column("from", no_wrap=True)
    for cell in first:
        if cell.node == NODES[0]:
            table.add_column(_split_heading(cell.column), justify="right", no_wrap=True)
    for node in NODES:
        node_cells = {r: [c for c in row_cells if c.node == node] for r, row_cells in cells.items()}
        table.add_row(
            node, "paper", *(_format_number(c.paper) for c in next(iter(node_cells.values())))
        )
        for reading, row in node_cells.items():
            table.add_row("", reading, *(_format_ours(cell) for cell in row))
    return table


def _split_heading(column: str) -> str:
    """Put rate, time and repair of a column, such as "1/year 15 s none", on lines of their own."""
    parts = column.split()
    lines, rest = [parts[0]], parts[1:]
    while rest:
        take = 2 if rest[0].isdigit() else 1
        lines.append(" ".join(rest[:take]))
        rest = rest[take:]
    return "\n".join(lines)


def _format_number(value: int | None) -> str:
    return "×" if value is None else str(value)


def _format_ours(cell: Cell) -> Text:
    text = "×" if cell.at_any_size else "?" if cell.ours is None else str(cell.ours)
    return Text(text) if cell.matches else Text(f"≠{text}", style=_AT_ODDS)


def _explain_cells(out: Console, cells: Sequence[Cell]) -> None:
    """Print one line for each column and reading: the first node type represents the others."""
    columns: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if not cell.matches or cell.ours is None:
            columns.setdefault((cell.column, cell.reading), []).append(cell)
    for (column, reading), group in columns.items():
        first, other_nodes = group[0], ", ".join(cell.node for cell in group[1:])
        sign = "×" if first.matches else "≠"
        head = f"{sign} {column}, {reading}: "
        style = "" if first.matches else _AT_ODDS
        text = f"{first.node}, {first.explanation or first.reason}"
        likewise = f"; {other_nodes} likewise" if other_nodes else ""
        out.print(Padding(Text.assemble((head, style), text, likewise), (0, 0, 0, 2)))


def show_claims(out: Console, claims: Iterable[Claim]) -> None:
    """Print the claims, the models' values, and the reason where the two differ."""
    table = bare_table("where", "what", "paper", "ours", "", left=5)
    at_odds: dict[str, list[Claim]] = {}
    for claim in claims:
        sign = Text("match") if claim.matches else Text("≠", style=_AT_ODDS)
        table.add_row(claim.place, claim.subject, claim.paper, claim.ours, sign)
        if not claim.matches:
            at_odds.setdefault(claim.explanation, []).append(claim)
    out.print(table)
    for explanation, group in at_odds.items():
        head = f"≠ {'; '.join(f'{c.place}, {c.subject}' for c in group)}: "
        out.print(Padding(Text.assemble((head, _AT_ODDS), explanation), (0, 0, 0, 2)))


def show_grid(out: Console, grid: Grid, *, limit: float | None = None) -> None:
    """Print a formula's table; values above `limit` are marked with *."""
    out.print(Text(f"\n{grid.title}", style="bold"))
    table = bare_table(grid.corner, *grid.columns)
    for name, values in grid.rows.items():
        table.add_row(name, *(_format_value(value, limit) for value in values))
    out.print(table)


def show_measured(out: Console, rows: Sequence[Row]) -> None:
    """Print shares of a month with the paper's probabilities and with measured ones."""
    corrupt, down = ("corrupt %, paper", "here", "at most"), ("down %, paper", "here")
    table = bare_table("node", "faults a month", *corrupt, *down)
    for row in rows:
        shares = (row.corrupt_paper, row.corrupt, row.corrupt_most, row.down_paper, row.down)
        name = row.name if row.name == row.paper_name else f"{row.paper_name}: {row.name}"
        table.add_row(name, str(row.faults_per_month), *(f"{share:.3g}" for share in shares))
    out.print(table)


def _format_value(value: float, limit: float | None) -> Text:
    above = limit is not None and value > limit
    if isinstance(value, int) or value in (0.0, 1.0):
        text = f"{value:g}"
    else:
        text = ">.999" if 0.9995 <= value < 1.0 else f"{value:.3f}"
    return Text(f"{text}*", style="yellow") if above else Text(f"{text} " if limit else text)
