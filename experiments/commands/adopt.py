"""`sparecraft adopt`: make a design from a run's plan, to measure its promise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.runfiles.folder import run_folder
from core.terminal import JsonOption, print_json, say
from experiments.commands.options import RunArgument


def adopt(
    run: RunArgument,
    to: Annotated[
        Path | None, typer.Option(help="Folder of the new design; default: in the run's folder.")
    ] = None,
    plan_file: Annotated[
        Path | None, typer.Option("--plan", help="Use this plan.json instead of the run's.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a design from a run's plan, to measure whether the plan keeps its promise.

    Example: sparecraft adopt results/mediawiki-noisy/latest --to planned
    """
    from experiments.kinds.compare.adopt import adopt as make_design

    design = make_design(run_folder(run), to=to, plan_file=plan_file)
    working_directory = Path.cwd()
    folder = design.directory
    display_path = (
        folder.relative_to(working_directory)
        if folder.is_relative_to(working_directory)
        else folder
    )
    if as_json:
        print_json({"experiment": design.fleet.experiment, "folder": str(design.directory)})
        return
    say(f"{design.fleet.experiment}: {display_path}")
    say(f"`sparecraft run {display_path}` measures it.")
