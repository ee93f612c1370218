"""`sparecraft down`: nothing of a fleet is left, whatever became of the run that made it."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.commands.on_platform import Chosen
from experiments.commands.options import YesOption, confirm, out
from experiments.errors import InputError


def down(
    chosen: Chosen,
    experiment: Annotated[
        str | None, typer.Argument(help="An experiment's name; without one, asks for all fleets.")
    ] = None,
    all_fleets: Annotated[
        bool, typer.Option("--all", help="Every fleet of the platform that was made here, unasked.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Remove a fleet and every trace of it, also one that a killed run left behind.

    Example: sparecraft down mediawiki-noisy
    """
    if experiment is not None and all_fleets:
        raise InputError(
            "sparecraft down",
            expected="an experiment's name or --all",
            came="both",
            do="Give one of them.",
        )
    names = [experiment] if experiment else chosen.entry.made()
    if not names:
        out.print(f"No fleet on {chosen.entry.name} was made here.", highlight=False)
    elif experiment is None:
        several = f"all {len(names)} fleets" if len(names) > 1 else "the fleet"
        question = f"Remove {several} on {chosen.entry.name}: {', '.join(names)}?"
        confirm(question, yes or all_fleets, "a name, or --all")
    for name in names:
        fleet = chosen.entry.for_down(name, chosen.given)
        for thing in fleet.down(lambda line: out.print(f"  {line}", highlight=False)):
            out.print(f"  swept {thing}", highlight=False)
        out.print(f"{name}: removed", highlight=False)
