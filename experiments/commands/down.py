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
        removals = [_remove_named(chosen, experiment, console)]
    else:
        removals = _remove_all(chosen, yes or all_fleets, console)
    if as_json:
        print_json(
            {"platform": chosen.entry.name, "fleets": [asdict(removal) for removal in removals]}
        )


def _remove_all(chosen: Chosen, yes: bool, console: Console) -> list[_Removal]:
    names = chosen.entry.experiments()
    if not names:
        say(f"No fleet on {chosen.entry.name} was made here.", console)
        return []
    subject = f"all {len(names)} fleets" if len(names) > 1 else "the fleet"
    question = f"Remove {subject} on {chosen.entry.name}: {', '.join(names)}?"
    confirm(question, yes, "a name, or --all")
    return [_report_removal(_remove(chosen, name, names, console), console) for name in names]


def _remove_named(chosen: Chosen, name_or_folder: str, console: Console) -> _Removal:
    """Remove the fleet of this name. Raises InputError for a name that no fleet, design or run has,
    because it may be a slip while a fleet is up.
    """
    experiments = chosen.entry.experiments()
    name = name_or_folder if name_or_folder in experiments else _experiment_of(name_or_folder)
    is_name = name in experiments or re.fullmatch(NAME, name) is not None
    if is_name:  # anything else may be a path, and states are kept by name
        removal = _remove(chosen, name, experiments, console)
        if removal.removed or _is_known(name_or_folder):
            return _report_removal(removal, console)
    suggestions = get_close_matches(
        Path(name).name, {*experiments, *designs_available()}, n=1, cutoff=0.5
    )
    raise InputError(
        f"sparecraft down {name_or_folder}",
        expected=f"the name of a fleet on {chosen.entry.name}, or of a design or run that is here",
        got="a name that none of them has" if is_name else "no name of an experiment",
        hint=f"Did you mean {suggestions[0]}?"
        if suggestions
        else "`sparecraft list` shows all of them.",
    )


def _experiment_of(name_or_folder: str) -> str:
    """Return the experiment of a design's folder, which may be named differently; else the
    argument itself.
    """
    file = Path(name_or_folder) / "fleet.tfvars"
    if not file.is_file():
        return name_or_folder
    try:
        return str(read_tfvars(file).values["experiment"])
    except (InputError, KeyError):
        return Path(name_or_folder).resolve().name


def _remove(chosen: Chosen, name: str, experiments: Collection[str], console: Console) -> _Removal:
    """Remove a fleet and sweep its remains, also if it was not made here: only a label or a tag may
    be left of it.
    """
    fleet = chosen.entry.for_down(name, chosen.options)
    swept = fleet.down(lambda line: say(f"  {line}", console))
    for resource in swept:
        say(f"  swept {resource}", console)
    return _Removal(name, name in experiments or bool(swept), swept)


def _report_removal(removal: _Removal, console: Console) -> _Removal:
    outcome = "removed" if removal.removed else "nothing to remove"
    say(f"{removal.experiment}: {outcome}", console)
    return removal


def _is_known(name: str) -> bool:
    """Return true if there is a design of this name or in this folder, or a run of it."""
    return (
        Path(name, "fleet.tfvars").is_file()
        or name in designs_available()
        or (RESULTS / name).is_dir()
    )
