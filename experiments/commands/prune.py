"""`sparecraft prune`: list images that no machine uses, or remove them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from core.terminal import JsonOption, err, out, plain_table, print_json, print_table, say
from experiments.commands.options import YesOption, confirm
from experiments.report.text import counted
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
    unused = images.find_unused()
    candidates = [image for image in unused if all_unused or image.superseded]
    if not as_json:
        _show(candidates, len(unused) - len(candidates))
        if candidates and not remove:
            say(f"`sparecraft prune{' --all' * all_unused} --remove` removes them.")
    removed: list[str] = []
    if candidates and remove:
        confirm(f"Remove these {len(candidates)} images?", yes)
        for image in candidates:
            images.remove(image)
            removed.append(image.id)
            say(f"  removed {image.label}", err if as_json else out)
    if as_json:
        print_json({"images": [asdict(image) for image in candidates], "removed": removed})


def _show(candidates: Sequence[Image], more: int) -> None:
    """Print the images; `more` others are unused too, but the next run would use them."""
    if not candidates:
        say("A newer build has replaced no image." if more else "No image is unused.")
    else:
        table = plain_table("image", "made", "size", "of its own", left=2)
        for image in candidates:
            table.add_row(image.label, image.made, image.size, image.own_size)
        print_table(table)
        say("Size includes layers that images share; what is of its own is freed with it.")
    if more:
        say(f"{counted(more, 'image')} more that no machine uses, for the next run: see --all.")
