"""`sparecraft compare`: runs side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from experiments import kinds
from experiments.commands.options import JsonOption, out, run_folders, words
from experiments.errors import InputError
from experiments.record.disturbed import taken_share
from experiments.record.result import Result, read_result
from experiments.report.text import milliseconds, number, percent, usd
from optimizer.commands.output import print_json


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Runs: results/EXPERIMENT/RUN, or .../latest",
            autocompletion=run_folders,
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Runs side by side: validity, SLO, cost, host, and what their kinds measured.

    Example: sparecraft compare results/my-shop/latest results/shop/latest
    """
    if len(runs) < 2:
        raise InputError(
            "sparecraft compare",
            expected="two runs or more",
            came="one",
            do="`sparecraft report RUN` shows a single one.",
        )
    columns = [column(read_result(run)) for run in runs]
    if as_json:
        folders = map(str, runs)
        print_json({"runs": [{"folder": f, **c} for f, c in zip(folders, columns, strict=True)]})
        return
    table = Table("", *(escape(one["experiment"]) for one in columns), box=None, pad_edge=False)
    for key in dict.fromkeys(key for one in columns for key in one if key != "experiment"):
        name, show = _in_words(key)
        table.add_row(escape(name), *(escape(show(one.get(key))) for one in columns))
    out.print(table)


def _in_words(key: str) -> tuple[str, Callable[[Any], str]]:
    """A figure's name and style in a report, by the unit that ends its key."""
    if key.endswith("_ms"):
        return key.removesuffix("_ms"), milliseconds
    if key.endswith("error_share"):
        return f"{key.removesuffix('error_share')}errors", percent
    if key == "taken by others":
        return key, percent
    if "USD" in key:
        return key, lambda value: usd(value).removesuffix(" USD")
    return key, lambda value: words(value) if isinstance(value, (bool, dict)) else number(value)


def column(result: Result) -> dict[str, Any]:
    """What is held against the other runs."""
    stopped, slo, host = result.get("stopped"), result["slo"], result["host"]
    try:
        found = dict(kinds.find(result["kind"]).figures(result))
    except InputError:  # a kind of somebody's own, which is not here
        found = {}
    return {
        "experiment": result["experiment"],
        "run": result["run"],
        "kind": result["kind"],
        "valid": result["valid"],
        "taken by others": taken_share(result["disturbed"]),
        "stopped by": stopped and stopped["by"],
        "SLO met": slo and slo["met"],
        "rent, USD": result["cost"]["usd"],
        "commit": result["commit"],
        "cores": host.get("cores"),
        **found,
    }
