"""`sparecraft reap`: list expired resources of an AWS account, or remove them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from core.terminal import JsonOption, err, out, print_json, say
from experiments.commands.options import RegionOption, YesOption, confirm
from experiments.testbed.platforms.ec2 import resources, sweep
from experiments.testbed.platforms.ec2.aws import Aws
from experiments.testbed.platforms.ec2.resources import TaggedResource


def reap(
    region: RegionOption = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the listed resources, after a question.")
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """List (or --remove) expired EC2 resources of one region.

    Machines end themselves in time; this removes their networks, disks and keys. Exit code 1 if
    something has expired and was not removed.

    Example: sparecraft reap --region eu-central-1 --remove
    """
    aws = Aws(region)
    now = datetime.now(UTC)
    found = resources.find(aws)
    over = resources.outlived(found, now)
    console = err if as_json else out
    if not as_json:
        _show(aws, found, over)
    removed: list[str] = []
    if over and remove:
        confirm(f"Remove these {len(over)} from {aws.region}?", yes)

        def note_removed(line: str) -> None:
            removed.append(line.removeprefix("removed "))
            say(f"  {line}", console)

        sweep.remove(aws, over, note_removed)
    if as_json:
        print_json(
            {
                "region": aws.region,
                "account": aws.account(),
                "outlived": [_row(one) for one in over],
                "kept": len(found) - len(over),
                "removed": removed,
            }
        )
    raise typer.Exit(1 if over and not remove else 0)


def _show(aws: Aws, found: Sequence[TaggedResource], over: Sequence[TaggedResource]) -> None:
    if over:
        table = Table("experiment", "kind", "id", "expires", title_justify="left")
        for one in over:
            table.add_row(*(str(value) for value in _row(one).values()))
        out.print(table)
    where = f"account {aws.account()}, region {aws.region}"
    say(f"{len(over)} outlived their time, {len(found) - len(over)} did not ({where}).")


def _row(one: TaggedResource) -> dict[str, object]:
    return {
        "experiment": one.experiment,
        "kind": one.kind,
        "id": one.id,
        "expires": one.expires.isoformat() if one.expires else "",
    }
