"""`sparecraft run DESIGN --target URL`: the load of a design on an existing service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from core.errors import InputError
from core.terminal import say
from experiments.design import Design
from experiments.design.endpoint import as_endpoint, left_out
from experiments.design.target import Target, resolved


def with_target(
    design: Design,
    target: str,
    allow_hosts: Sequence[str],
    others: Mapping[str, Any],
    console: Console,
) -> Design:
    """Return the design as one of kind endpoint, with a list of the parts that are left out.

    Raises InputError if one of `others` is given, the options about a fleet.
    """
    given = [name for name, value in others.items() if value]
    if given:
        raise InputError(
            "--target",
            expected="no option about a fleet, because none is made or used",
            got=f"{' and '.join(given)} beside it",
            hint="Leave that out.",
        )
    made = as_endpoint(design)
    if without := left_out(design.experiment):
        said = f"Left out, as nothing is disturbed without agents: {without}"
        say(said, console)
    load = made.experiment.load.model_copy(
        update={"target": target, "allow_hosts": (*made.experiment.load.allow_hosts, *allow_hosts)}
    )
    return replace(made, experiment=made.experiment.model_copy(update={"load": load}))


def target_of(design: Design, allow_hosts: Sequence[str]) -> Target:
    """Return the service that the design asks, its name resolved. Raises InputError if it says
    none, or one that may not be asked.
    """
    load = design.experiment.load
    if load.target is None:
        raise InputError(
            "--target",
            expected="the URL of the service that is asked",
            got="none",
            hint='Give --target http://HOST:PORT, or target = "..." under [load].',
        )
    return resolved("--target", load.target, (*load.allow_hosts, *allow_hosts))
