"""Options of several commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import InputError
from core.terminal import err, say

RESULTS = Path("results")


def _designs(incomplete: str) -> list[str]:
    from experiments.design import designs_available

    return [name for name in designs_available() if name.startswith(incomplete)]


def run_folders(incomplete: str) -> list[str]:
    """Return the runs in the results folder, for a shell to complete."""
    folders = {str(file.parent) for file in RESULTS.glob("*/*/manifest.json")}
    return sorted(name for name in folders if name.startswith(incomplete))


DesignArgument = Annotated[
    str,
    typer.Argument(
        help="A design's name (`sparecraft list`) or its folder.", autocompletion=_designs
    ),
]
RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="A run: results/EXPERIMENT/RUN; or an experiment's name, for its latest run.",
        autocompletion=run_folders,
    ),
]
ResultsOption = Annotated[Path, typer.Option("--results", help="Folder of all runs.")]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Seed of arrivals, neighbours and faults, to repeat an earlier run's; default: "
        "the design's, or a new one.",
    ),
]
InfluxOption = Annotated[
    str | None,
    typer.Option(
        "--influxdb",
        metavar="URL",
        help="An InfluxDB, such as http://127.0.0.1:8086 or http://USER:PASSWORD@127.0.0.1:8086",
    ),
]
RegionOption = Annotated[
    str | None,
    typer.Option("--region", help="AWS region; default: that of the environment or profile."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Answer yes to the question.")]


def cell_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {cell_text(item)}" for key, item in value.items())
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def confirm(question: str, yes: bool, instead: str = "--yes") -> None:
    """End the command unless the answer is yes. Raises InputError if nobody can answer; it names
    `instead`, the option to give then.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError(
            question,
            expected="a yes",
            got="no terminal to ask on",
            hint=f"Give {instead} if that is what you want.",
        )
    if not typer.confirm(question, err=True):
        say("Nothing was changed.", err)
        raise typer.Exit(2)
