"""`sparecraft prune`: list images that no machine uses, or remove them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from core.terminal import JsonOption, err, out, plain_table, print_json, print_table, say
from experiments.commands.options import YesOption, confirm
from experiments.testbed.platforms.local import images
from experiments.testbed.platforms.local.images import Image


def prune(
    all_unused: Annotated[
        bool,
        typer.Option(
            "--all", help="Include images that the next run would use, and would then build again."
        ),
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the listed images, after a question.")
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """List (or --remove) Docker images of Sparecraft that no machine uses, with their size.

    Without --all: only images that a newer build has replaced.

    Example: sparecraft prune --remove
    """
    found = [one for one in images.unused() if all_unused or one.superseded]
    if not as_json:
        _show(found)
    removed: list[str] = []
    if found and remove:
        confirm(f"Remove these {len(found)} images?", yes)
        for one in found:
            images.remove(one)
            removed.append(one.id)
            say(f"  removed {one.label}", err if as_json else out)
    if as_json:
        print_json({"images": [asdict(one) for one in found], "removed": removed})


def _show(found: Sequence[Image]) -> None:
    if not found:
        say("No image is unused.")
        return
    table = plain_table("image", "made", "size", "of its own", left=2)
    for one in found:
        table.add_row(one.label, one.made, one.size, one.own_size)
    print_table(table)
    say("Size includes layers that images share; what is of its own is freed with it.")
