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
from experiments.design.target import Target, resolve


def with_target(
    design: Design,
    target: str,
    allow_hosts: Sequence[str],
    others: Mapping[str, Any],
    console: Console,
) -> Design:
    """Return the design as one of kind endpoint, and print the parts that are left out.

    Raises InputError if one of `others`, the options about a fleet, is given.
    """
    names = [name for name, value in others.items() if value]
    if names:
        raise InputError(
            "--target",
            expected="no option about a fleet, because none is made or used",
            got=f"{' and '.join(names)} beside it",
            hint="Leave that out.",
        )
    endpoint = as_endpoint(design)
    if parts := left_out(design.experiment):
        message = f"Left out, as nothing is disturbed without agents: {parts}"
        say(message, console)
    load = endpoint.experiment.load
    hosts = (*load.allow_hosts, *allow_hosts)
    load = load.model_copy(update={"target": target, "allow_hosts": hosts})
    return replace(endpoint, experiment=endpoint.experiment.model_copy(update={"load": load}))


def target_of(design: Design, allow_hosts: Sequence[str]) -> Target:
    """Return the service that the design loads, with its name resolved. Raises InputError if the
    design names none, or one that it may not load.
    """
    load = design.experiment.load
    if load.target is None:
        raise InputError(
            "--target",
            expected="the URL of the service that is asked",
            got="none",
            hint='Give --target http://HOST:PORT, or target = "..." under [load].',
        )
    return resolve(load.target, (*load.allow_hosts, *allow_hosts))
