"""`sparecraft down`: nothing of a fleet is left, whatever became of the run that made it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.options import (
    PlatformName,
    PlatformOption,
    RegionOption,
    only_ec2,
    out,
)
from experiments.errors import InputError
from experiments.platform import LocalPlatform, Platform, docker
from experiments.platform.ec2 import STACK, Ec2Platform
from experiments.platform.local import ROOT

_NONE = {
    PlatformName.local: "No fleet of Sparecraft is on this host.",
    PlatformName.ec2: "No fleet on EC2 was made here; `sparecraft list --platform ec2` asks AWS.",
}


def add_to(app: typer.Typer) -> None:
    """Add `sparecraft down`."""
    app.command()(down)


def down(
    experiment: Annotated[
        str | None, typer.Argument(help="An experiment's name; without one, all fleets.")
    ] = None,
    all_fleets: Annotated[
        bool,
        typer.Option("--all", help="Every fleet of this host; on EC2, all that were made here."),
    ] = False,
    platform: PlatformOption = PlatformName.local,
    region: RegionOption = None,
) -> None:
    """Remove a fleet and every trace of it, also one that a killed run left behind."""
    only_ec2(platform, region=region)
    if experiment is not None and all_fleets:
        raise InputError(
            "sparecraft down",
            expected="an experiment's name or --all",
            came="both",
            do="Give one of them.",
        )
    if platform is PlatformName.local:
        docker.check()
        names = [experiment] if experiment else _local_experiments()
    else:
        names = [experiment] if experiment else _stated(STACK)
    if not names:
        out.print(_NONE[platform])
    for name in names:
        fleet: Platform = (
            LocalPlatform(name) if platform is PlatformName.local else Ec2Platform(name, region)
        )
        for thing in fleet.down(lambda line: out.print(f"  {line}", highlight=False)):
            out.print(f"  swept {thing}", highlight=False)
        out.print(f"{name}: removed", highlight=False)


def _local_experiments() -> list[str]:
    labelled = {found.experiment for found in docker.find()}
    return sorted({*_stated(ROOT / "infra" / "stacks" / "local"), *labelled})


def _stated(stack: Path) -> list[str]:
    """The experiments that a stack has states of."""
    return sorted(path.name for path in (stack / "terraform.tfstate.d").glob("*/"))
