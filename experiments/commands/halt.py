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
    active_runs = runs.active()
    targets = [run for run in active_runs if name in (None, run.experiment, run.design)]
    if name is not None and not targets:
        raise InputError(
            f"sparecraft halt {name}",
            expected="a current run",
            got=f"only {', '.join(run.experiment for run in active_runs)}"
            if active_runs
            else "none",
            hint="`sparecraft list` shows what is up; `sparecraft down NAME` removes a fleet that "
            "a killed run left.",
        )
    targets = [
        run for run in active_runs if any(_belong_together(run, target) for target in targets)
    ]
    runs.halt(targets, reason)
    if as_json:
        print_json({"halted": [asdict(run) for run in targets], "reason": reason})
        return
    for run in targets:
        label = f"night of {run.design}" if run.is_night else run.experiment
        say(f"{label}: told to end (process {run.pid})")
    if not targets:
        say("No run goes on here.")


def _belong_together(first: runs.Active, second: runs.Active) -> bool:
    """Return true if both are the same, or if one is a night and the other its run.
    No other run can be active in a night's results.
    """
    night, run = sorted((first, second), key=lambda active: not active.is_night)
    return first == second or (night.is_night and Path(run.folder).is_relative_to(night.folder))
