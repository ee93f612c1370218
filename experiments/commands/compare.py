"""`sparecraft compare`: runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from core.config_file import raise_all
from core.errors import InputError
from core.runfiles.folder import run_folder
from core.runfiles.result import Result, read_result
from core.terminal import JsonOption, out, print_json
from experiments.commands.list import kind_values, report_left_out
from experiments.commands.options import cell_text, run_folders
from experiments.record.disturbed import taken_share
from experiments.report.text import milliseconds, number, percent, usd


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Runs: results/EXPERIMENT/RUN; or an experiment's name, for its latest run.",
            autocompletion=run_folders,
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Show runs side by side: validity, SLO, cost, host, and the results of their kinds.

    A run that cannot be read is named; the others are shown, and the exit code is 2.

    Example: sparecraft compare my-shop results/shop/20261128-094500
    """
    if len(runs) < 2:
        raise InputError(
            "sparecraft compare",
            expected="two runs or more",
            got="one",
            hint="`sparecraft report RUN` shows a single one.",
        )
    columns: dict[Path, dict[str, object]] = {}
    problems: list[InputError] = []
    for run in runs:
        try:
            folder = run_folder(run)
            columns[folder] = column(folder, read_result(folder))
        except InputError as error:
            problems.append(error)
    if not columns:
        raise_all(problems)
    for problem in problems:
        report_left_out(problem)
    if as_json:
        print_json({"runs": [{"folder": str(run), **values} for run, values in columns.items()]})
    else:
        _show(list(columns.values()))
    if problems:
        raise typer.Exit(InputError.exit_code)


def _show(columns: Sequence[Mapping[str, Any]]) -> None:
    names = (escape(str(values["experiment"])) for values in columns)
    table = Table("", *names, box=None, pad_edge=False)
    for key in dict.fromkeys(key for values in columns for key in values if key != "experiment"):
        name, show = _name_and_style(key)
        table.add_row(escape(name), *(escape(show(values.get(key))) for values in columns))
    out.print(table)


def _name_and_style(key: str) -> tuple[str, Callable[[Any], str]]:
    """Return a figure's name and style in a report, by the unit that ends its key."""
    if key.endswith("_ms"):
        return key.removesuffix("_ms"), milliseconds
    if key.endswith("error_share"):
        return f"{key.removesuffix('error_share')}errors", percent
    if key.endswith(" gain"):
        return f"{key} (95 % interval)", cell_text
    if key == "taken by others":
        return "cores taken by other work", percent
    if key.endswith("_per_s"):
        return f"{key.removesuffix('_per_s')}, 1/s", number
    if "USD" in key:
        return key, lambda value: usd(value).removesuffix(" USD")
    return key, lambda value: cell_text(value) if isinstance(value, (bool, dict)) else number(value)


def column(run: Path, result: Result) -> dict[str, object]:
    """Return a run's values that are compared with those of other runs."""
    stopped, slo, host = result.get("stopped"), result["slo"], result["host"]
    return {
        "experiment": result["experiment"],
        "run": result["run"],
        "kind": result["kind"],
        "valid": result["valid"],
        "taken by others": taken_share(result["disturbed"]),
        "stopped by": stopped and stopped["by"],
        "SLO met": slo and slo["met"],
        "availability kept, by the model": ((slo or {}).get("availability") or {}).get("met"),
        "rent, USD": result["cost"]["usd"],
        "commit": result["commit"],
        "cores": host.get("cores"),
        **kind_values(run, result, lambda kind: kind.compared_values(result)),
    }
