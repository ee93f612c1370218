"""`sparecraft import locustfile`: make a design whose load is a Locust file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from core.errors import InputError
from core.terminal import JsonOption, print_json, say

POOL = 50  # users of a new design
_VALUES = "flags.csv"  # of the template's requests
_LOAD_MARKERS = ('parameters = "flags.csv"', "[phases]")  # the requests stand between them
_RATE = "# requests"
_OPERATIONS = "`[[load.operations]]` in `experiment.toml`"
_README = "| `flags.csv` | values of requests, a row for each |\n"


def locustfile(
    file: Annotated[Path, typer.Argument(help="The Locust file.")],
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Folder of the new design; its last part names the experiment."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a design whose load is a Locust file.

    The file is imported in a child process without network. Its users, tasks and weights are
    listed, and parts that an open loop cannot honour (wait_time, LoadTestShape). Without --to
    nothing is written.

    Example: sparecraft import locustfile locustfile.py --to my-shop
    """
    from experiments.design.locustfile import locustfile_json, locustfile_rows, read_locustfile

    content = read_locustfile(file)
    if to is not None:
        make_locust_design(file, to)
    if as_json:
        print_json({**locustfile_json(content), "design": str(to) if to else None})
        return
    for label, text in locustfile_rows(content):
        say(f"{label}: {text}")
    if to is None:
        return
    say(f"{to}: README.md says what each file is; roles/shop is where your service goes.")
    say(f"`sparecraft check {to}` reads it, `sparecraft run {to}` measures it.")


def make_locust_design(file: Path, folder: Path) -> None:
    """Make a design as `sparecraft init` does, with the Locust file `file` as its load.

    Raises: InputError.
    """
    from experiments.commands.init import TEMPLATE, make_design
    from experiments.importers.load_section import quote_toml

    if (TEMPLATE / file.name).exists():
        raise InputError(
            str(file),
            expected="a name that no file of a design has",
            got=file.name,
            hint="Rename it: locustfile.py.",
        )
    make_design(folder)
    try:
        (folder / _VALUES).unlink()
        shutil.copy2(file, folder / file.name)
    except OSError as error:
        raise InputError(
            str(folder),
            expected="a folder that can be written",
            got=str(error.strerror),
            hint="Give another place.",
        ) from error
    load = (
        f"locustfile = {quote_toml(file.name)} # each arrival starts a task of one of its users\n"
        f"max_in_flight = {POOL}            # that many users wait\n"
        "task_timeout_s = 30.0\n"
    )
    design = folder / "experiment.toml"
    text = design.read_text(encoding="utf-8")
    first, after = (text.index(marker) for marker in _LOAD_MARKERS)
    _replace(design, text[first:after], f"{load}\n")
    _replace(design, _RATE, "# tasks begun in a second")
    row = f"| `{file.name}` | the users and their tasks: your Locust file |\n"
    _replace(folder / "README.md", _README, row)
    _replace(folder / "README.md", _OPERATIONS, f"the tasks in `{file.name}`")


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    if old not in text:
        raise ValueError(f"{path.name} of the template has no line {old!r}")
    path.write_text(text.replace(old, new), encoding="utf-8")
