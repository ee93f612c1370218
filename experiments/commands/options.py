"""Options that several commands have, and their consoles."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from experiments.errors import InputError

out = Console()
err = Console(stderr=True)
RESULTS = Path("results")


class PlatformName(StrEnum):
    """Where a fleet lives."""

    local = "local"
    ec2 = "ec2"


DesignArgument = Annotated[
    str, typer.Argument(help="A design's name (`sparecraft list`) or its folder.")
]
ResultsOption = Annotated[Path, typer.Option("--results", help="Where result folders are kept.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
PlatformOption = Annotated[
    PlatformName, typer.Option("--platform", help="Docker on this host, or an AWS account.")
]
RegionOption = Annotated[
    str | None,
    typer.Option("--region", help="AWS region; else that of the environment or profile."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Answer the question with yes.")]


def confirm(question: str, yes: bool) -> None:
    """Ends the command unless the answer is yes. Raises InputError where nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError(
            question,
            expected="a yes",
            came="no terminal to ask on",
            do="Give --yes if that is what you want.",
        )
    if not typer.confirm(question, err=True):
        err.print("Nothing was changed.")
        raise typer.Exit(2)


def only_ec2(platform: PlatformName, **given: object) -> None:
    """Refuse options of EC2 on another platform. Raises InputError that names the first."""
    for name, value in given.items():
        if platform is not PlatformName.ec2 and value not in (None, False):
            raise InputError(
                f"--{name.replace('_', '-')}",
                expected="--platform ec2 with it",
                came=f"--platform {platform.value}",
                do="Take one of them out.",
            )
