"""`sparecraft reap`: list expired resources of an AWS account, or remove them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from core.terminal import JsonOption, err, out, print_json, say
from experiments.commands.options import RegionOption, YesOption, confirm
from experiments.report.text import counted
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
    all_resources = resources.find(aws)
    expired = resources.find_expired(all_resources, now)
    console = err if as_json else out
    if not as_json:
        _show(aws, all_resources, expired)
    removed: list[str] = []
    if expired and remove:
        confirm(f"Remove these {len(expired)} from {aws.region}?", yes)

        def note_removed(line: str) -> None:
            removed.append(line.removeprefix("removed "))
            say(f"  {line}", console)

        sweep.remove(aws, expired, note_removed)
    elif expired and not as_json:
        say(f"`sparecraft reap --region {aws.region} --remove` removes them.")
    if as_json:
        print_json(
            {
                "region": aws.region,
                "account": aws.account(),
                "outlived": [_row(resource) for resource in expired],
                "kept": len(all_resources) - len(expired),
                "removed": removed,
            }
        )
    raise typer.Exit(1 if expired and not remove else 0)


def _show(
    aws: Aws, all_resources: Sequence[TaggedResource], expired: Sequence[TaggedResource]
) -> None:
    if expired:
        table = Table("experiment", "kind", "id", "expires", title_justify="left")
        for resource in expired:
            table.add_row(*(str(value) for value in _row(resource).values()))
        out.print(table)
    account = f"account {aws.account()}, region {aws.region}"
    others = len(all_resources) - len(expired)
    say(f"{counted(len(expired), 'resource')} expired, {others:,} did not ({account}).")


def _row(resource: TaggedResource) -> dict[str, object]:
    return {
        "experiment": resource.experiment,
        "kind": resource.kind,
        "id": resource.id,
        "expires": resource.expires.isoformat() if resource.expires else "",
    }
