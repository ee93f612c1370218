"""`sparecraft halt`: undo all faults of a run and end it, from another terminal."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from core.errors import InputError
from core.terminal import JsonOption, print_json, say
from experiments.testbed import runs


def halt(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of an experiment, a design or a suite; without one, all your runs on this "
            "host."
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Reason; it is kept with the run's data.")
    ] = "no reason given",
    as_json: JsonOption = False,
) -> None:
    """End runs on this host: undo all their faults at once, and keep their data.

    Such a run ends with exit code 1 and says `stopped by halt`; the reason is in its events.jsonl
    and result.json. A night whose run is halted ends too, with exit code 130, and its site gives
    the reason. The next night begins as usual.

    Example: sparecraft halt mediawiki-noisy --reason "the host is needed"
    """
    going_on = runs.active()
    meant = [run for run in going_on if name in (None, run.experiment, run.design)]
    if name is not None and not meant:
        raise InputError(
            f"sparecraft halt {name}",
            expected="a current run",
            got=f"one of {', '.join(run.experiment for run in going_on)}" if going_on else "none",
            hint="`sparecraft list` shows what is up; `sparecraft down NAME` removes a fleet that "
            "a killed run left.",
        )
    meant = [one for one in going_on if any(_together(one, other) for other in meant)]
    for run in sorted(meant, key=lambda run: run.is_night):  # a night would interrupt its run
        runs.halt(run, reason)
    if as_json:
        print_json({"halted": [asdict(run) for run in meant], "reason": reason})
        return
    for run in meant:
        what = f"night of {run.design}" if run.is_night else run.experiment
        say(f"{what}: told (process {run.pid})")
    if not meant:
        say("No run goes on here.")


def _together(one: runs.Active, other: runs.Active) -> bool:
    """Tell whether both are the same, or one is a night and the other its run.

    No other run can be active in a night's results.
    """
    night, run = sorted((one, other), key=lambda active: not active.is_night)
    return one == other or (night.is_night and Path(run.folder).is_relative_to(night.folder))
