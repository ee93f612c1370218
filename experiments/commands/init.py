"""`sparecraft init`: make a commented design folder that runs without changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from core.errors import InputError
from core.terminal import say

TEMPLATE = Path(__file__).with_name("template")
TEMPLATE_NAME = "my-shop"  # of the template's experiment


def init(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the new design; its last part names the experiment.")
    ],
) -> None:
    """Make a commented design of a small service, to be replaced by your own.

    Example: sparecraft init my-shop
    """
    make_design(folder)
    say(f"{folder}: README.md says what each file is.")
    say(f"`sparecraft check {folder}` reads it, `sparecraft run {folder}` measures it.")


def make_design(folder: Path) -> None:
    """Copy the template under the folder's name. Raises InputError if the folder exists."""
    name = experiment_name(folder)
    try:
        shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    except FileExistsError:
        raise InputError(
            str(folder),
            expected="a folder that does not exist yet",
            got="one that does",
            hint="Give another name, or remove it.",
        ) from None
    except OSError as error:
        raise InputError(
            str(folder),
            expected="a folder that can be made",
            got=str(error.strerror),
            hint="Give another place.",
        ) from error
    for path in sorted(folder.iterdir()):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(TEMPLATE_NAME, name), encoding="utf-8")


def experiment_name(folder: Path) -> str:
    """Return a new design's name: its folder's last part. Raises InputError if that is none."""
    from pydantic import TypeAdapter, ValidationError

    from experiments.design import designs_available
    from experiments.design.fleet import Name

    if folder.name in designs_available():
        raise InputError(
            str(folder),
            expected="a name that no design of Sparecraft's has",
            got=repr(folder.name),
            hint="Give another one: results and fleets are kept by name.",
        )
    try:
        return TypeAdapter[str](Name).validate_python(folder.name)
    except ValidationError:
        raise InputError(
            str(folder),
            expected="a name of at most 30 characters: a-z, 0-9 and inner hyphens, a letter first",
            got=repr(folder.name),
            hint="Give another one.",
        ) from None
