"""`sparecraft reproduce`: three papers' tables, ranges and curves, computed again beside the
published ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from core.terminal import JsonOption, out, print_json, say

if TYPE_CHECKING:
    from core.chart_style import Charts
    from optimizer.reproduce.published import Claim
    from optimizer.reproduce.replicas import Grid
    from optimizer.reproduce.tables import Cell

FiguresOption = Annotated[
    Path | None, typer.Option("--figures", help="Also draw the figures (SVG) into this folder.")
]
group = typer.Typer(no_args_is_help=True)


@group.callback()
def reproduce() -> None:
    """Compute the papers' tables and curves again, and show them beside the papers' values.

    Example: sparecraft reproduce pcraft
    """


@group.command()
def pcraft(figures: FiguresOption = None, as_json: JsonOption = False) -> None:
    """Compute PCRAFT's Tables II and III and figures 5 to 7.

    Both readings of "6/year" are used.

    Example: sparecraft reproduce pcraft --figures figures
    """
    from optimizer.reproduce import measured, ranges, show, tables

    start_s = time.perf_counter()
    cells = {reading: tables.all_cells(reading) for reading in tables.READINGS}
    at_two = tables.table_ii_b_at_two_a_year()
    tables_s = time.perf_counter() - start_s
    claims, injections = ranges.claims(), list(measured.rows())
    drawn = _draw(figures, lambda: _charts("pcraft").charts())
    fitted = cells["fitted"]
    matched = sum(cell.matches for cell in fitted)
    if as_json:
        print_json(
            {
                "cells": len(fitted),
                "matched": matched,
                "mismatched": [_mismatch(cell) for cell in fitted if not cell.matches],
                "reading": "fitted",
                "readings": {
                    reading: _group_by_table(reading_cells)
                    for reading, reading_cells in cells.items()
                },
                "literal_mismatched": [_mismatch(c) for c in cells["literal"] if not c.matches],
                "infeasible": [_infeasible(c) for r in cells.values() for c in r if c.ours is None],
                "table_ii_b_at_2_per_year": at_two,
                "figures": [asdict(claim) for claim in claims],
                "figure_7_measured": [asdict(row) for row in injections],
                "drawn": drawn,
                "seconds": {"tables": tables_s, "all": time.perf_counter() - start_s},
            }
        )
    else:
        say(_READINGS.format(at_two="/".join(str(extra) for extra in at_two.values())))
        show.show_tables(out, cells)
        say("\nThe text's ranges of Fig. 5, 6 and 7")
        show.show_claims(out, claims)
        say(f"  {ranges.RULE}")
        say("\nFig. 7 with our own injections")
        show.show_measured(out, injections)
        say(f"\nTables II and III: {matched} of {len(fitted)} cells match in the fitted reading, "
            f"{sum(c.matches for c in cells['literal'])} in the literal one "
            f"({tables_s:.1f} s).")  # fmt: skip
        _print_figures(drawn)
    raise typer.Exit(0 if matched == len(fitted) else 1)


@group.command()
def spare(
    figures: FiguresOption = None,
    as_json: JsonOption = False,
    simulation: Annotated[
        bool,
        typer.Option(help="Also simulate section 6: MediaWiki and Solr, two to four minutes."),
    ] = True,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Policy simulated as sPARE's: tad-paper (default, to the letter) or tad."
        ),
    ] = None,
) -> None:
    """Compute sPARE's equations and capacities, and simulate it.

    Equations 1 to 3, the capacities of section 4.2, section 6 simulated: once with copies of the
    same work and once with copies of independent work, as the paper does not say which. Its values
    stand beside all results.

    Example: sparecraft reproduce spare --figures figures
    """
    from optimizer.reproduce import replicas, show
    from optimizer.reproduce.published import published
    from optimizer.reproduce.simulated import COPIES, POLICIES, outcomes

    if policy is not None and not simulation:
        raise InputError(
            "--policy",
            expected="the simulation beside it",
            got="--no-simulation",
            hint="Leave one of them out.",
        )
    policy = POLICIES[0] if policy is None else policy
    if policy not in POLICIES:
        raise InputError("--policy", expected=" or ".join(POLICIES), got=policy)
    claims, grids = replicas.claims(), replicas.grids()
    drawn = _draw(figures, lambda: _charts("spare").charts())
    copy_kinds = COPIES if simulation else ()
    simulated = [
        outcome for copies in copy_kinds for outcome in outcomes(policy=policy, copies=copies)
    ]
    if as_json:
        outcome_rows = [
            asdict(outcome) | {"matches": outcome.matches, "iterations": outcome.iterations}
            for outcome in simulated
        ]
        rest = {"policy": policy, "simulated": outcome_rows, "drawn": drawn}
        print_json(_claims_body(claims, grids) | rest)
        return
    limit = published("spare")["mediawiki"]["collision_max"]
    for name, grid in grids.items():
        bounded = name in ("equation_1", "equation_2")
        show.show_grid(out, grid, limit=limit if bounded else None)
        if bounded:
            say(f"  * above the paper's limit of {limit:g}")
    say("\nWhat the text says of them")
    show.show_claims(out, claims)
    if simulated:
        from optimizer.reproduce.show_simulated import show_simulated

        show_simulated(out, simulated, policy)
    _print_figures(drawn)


@group.command()
def limplock(
    figures: FiguresOption = None,
    as_json: JsonOption = False,
    simulation: Annotated[
        bool, typer.Option(help="Also simulate clusters of 10 to 10,000 nodes, half a minute.")
    ] = True,
) -> None:
    """Compute limplock's Table 2 and figure 3.

    By formula and by simulation: how often one limping node locks up a block store. The paper's
    values stand beside.

    Example: sparecraft reproduce limplock --figures figures
    """
    from optimizer.reproduce import limplock as paper
    from optimizer.reproduce import show

    claims, grids = paper.claims(), paper.grids()
    compared = paper.compared() if simulation else []
    drawn = _draw(figures, lambda: _charts("limplock").charts(compared))
    if as_json:
        rest = {"simulated": [asdict(comparison) for comparison in compared], "drawn": drawn}
        print_json(_claims_body(claims, grids) | rest)
        return
    for grid in grids.values():
        show.show_grid(out, grid)
    say("\nWhat the text says")
    show.show_claims(out, claims)
    say(f"  {paper.RULE}")
    if compared:
        from optimizer.reproduce.show_limplock import show_compared

        show_compared(out, compared)
    _print_figures(drawn)


_READINGS = """Two readings of "6/year":
  literal  six crashes a year
  fitted   one crash every six months, 183 days (at exactly 2 a year all other cells come out as
           well, but Table II(b) is {at_two})"""


def _charts(paper: str) -> Any:
    """Import the paper's module of figures; only if figures are requested."""
    return import_module(f"optimizer.reproduce.draw_{paper}")


def _draw(folder: Path | None, charts: Callable[[], Charts]) -> list[str]:
    if folder is None:
        return []
    from core.chart_style import write_figures

    if folder.exists() and not folder.is_dir():
        raise InputError("--figures", expected="a folder", got=f"the file {folder}")
    return [str(path) for path in write_figures(folder, charts())]


def _print_figures(drawn: list[str]) -> None:
    if drawn:
        say("\nFigures:")
        for path in drawn:
            say(f"  {path}")


def _claims_body(claims: Sequence[Claim], grids: Mapping[str, Grid]) -> dict[str, object]:
    at_odds = [asdict(claim) for claim in claims if not claim.matches]
    return {
        "claims": len(claims),
        "matched": len(claims) - len(at_odds),
        "mismatched": at_odds,
        "tables": {name: asdict(grid) for name, grid in grids.items()},
    }


def _group_by_table(cells: list[Cell]) -> dict[str, dict[str, list[int | None]]]:
    body: dict[str, dict[str, list[int | None]]] = {}
    for cell in cells:
        body.setdefault(cell.table, {}).setdefault(cell.node, []).append(cell.ours)
    return body


def _mismatch(cell: Cell) -> dict[str, object]:
    keys = ("table", "node", "column", "paper", "ours", "reading", "explanation")
    return {key: getattr(cell, key) for key in keys}


def _infeasible(cell: Cell) -> dict[str, object]:
    keys = ("table", "node", "column", "reading", "at_any_size", "reason")
    return {key: getattr(cell, key) for key in keys}
