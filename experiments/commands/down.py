"""`sparecraft down`: remove all of a fleet, whatever the end of its run."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from core.config_file import read_tfvars
from core.errors import InputError
from core.terminal import JsonOption, err, out, print_json, say
from experiments.commands.on_platform import Chosen
from experiments.commands.options import RESULTS, YesOption, confirm
from experiments.design import designs_available
from experiments.design.fleet import NAME


@dataclass(frozen=True)
class _Removal:
    """The result for a fleet; `removed` is False if nothing of it existed."""

    experiment: str
    removed: bool
    swept: list[str]


def down(
    chosen: Chosen,
    experiment: Annotated[
        str | None,
        typer.Argument(
            help="An experiment's name or its design's folder; without one, all fleets, after a "
            "question."
        ),
    ] = None,
    all_fleets: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Remove every fleet of the platform that was made here, without a question.",
        ),
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove a fleet with all its machines, networks and volumes, also after a killed run.

    Images stay for the next run: `sparecraft prune --all` lists them. Exit code 0 also if nothing
    is left; 2 if no fleet, design or run has that name.

    Example: sparecraft down mediawiki-noisy
    """
    console = err if as_json else out
    if experiment is not None:
        if all_fleets:
            raise InputError(
                "sparecraft down",
                expected="an experiment's name or --all",
                got="both",
                hint="Give one of them.",
            )
        gone = [_named(chosen, experiment, console)]
    else:
        gone = _all(chosen, yes or all_fleets, console)
    if as_json:
        print_json({"platform": chosen.entry.name, "fleets": [asdict(one) for one in gone]})


def _all(chosen: Chosen, yes: bool, console: Console) -> list[_Removal]:
    names = chosen.entry.experiments()
    if not names:
        say(f"No fleet on {chosen.entry.name} was made here.", console)
        return []
    several = f"all {len(names)} fleets" if len(names) > 1 else "the fleet"
    question = f"Remove {several} on {chosen.entry.name}: {', '.join(names)}?"
    confirm(question, yes, "a name, or --all")
    return [_report_removal(_removed(chosen, name, names, console), console) for name in names]


def _named(chosen: Chosen, given: str, console: Console) -> _Removal:
    """Raises InputError for a name that nothing has: it is a slip, and a fleet may still be up."""
    made = chosen.entry.experiments()
    name = given if given in made else _experiment_of(given)
    is_name = name in made or re.fullmatch(NAME, name) is not None
    if is_name:  # what is none may be a path, and states are kept by name
        gone = _removed(chosen, name, made, console)
        if gone.removed or _is_known(given):
            return _report_removal(gone, console)
    near = get_close_matches(Path(name).name, {*made, *designs_available()}, n=1, cutoff=0.5)
    raise InputError(
        f"sparecraft down {given}",
        expected=f"the name of a fleet on {chosen.entry.name}, or of a design or run that is here",
        got="a name that none of them has" if is_name else "no name of an experiment",
        hint=f"Did you mean {near[0]}?" if near else "`sparecraft list` shows all of them.",
    )


def _experiment_of(given: str) -> str:
    """Return the experiment of a design's folder, whose name may be another; else what was
    given.
    """
    file = Path(given) / "fleet.tfvars"
    if not file.is_file():
        return given
    try:
        return str(read_tfvars(file).values["experiment"])
    except (InputError, KeyError):
        return Path(given).resolve().name


def _removed(chosen: Chosen, name: str, made: Collection[str], console: Console) -> _Removal:
    """Swept whether or not it was made here: a label or a tag may be all that is left of it."""
    fleet = chosen.entry.for_down(name, chosen.given)
    swept = fleet.down(lambda line: say(f"  {line}", console))
    for thing in swept:
        say(f"  swept {thing}", console)
    return _Removal(name, name in made or bool(swept), swept)


def _report_removal(gone: _Removal, console: Console) -> _Removal:
    said = "removed" if gone.removed else "nothing to remove"
    say(f"{gone.experiment}: {said}", console)
    return gone


def _is_known(name: str) -> bool:
    """A design of this name or in this folder is there, or a run of it."""
    return (
        Path(name, "fleet.tfvars").is_file()
        or name in designs_available()
        or (RESULTS / name).is_dir()
    )
