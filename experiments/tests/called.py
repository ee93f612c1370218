"""`sparecraft` as a user calls it, within this process and as one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from core.errors import SparecraftError
from experiments.cli import COMMANDS, app, command
from experiments.tests.started import executable

COMMAND = [sys.executable, "-m", "experiments.cli"]


def call(*arguments: str) -> Result:
    """Run `sparecraft` within this process."""
    return CliRunner().invoke(app, list(arguments))


def answer(*arguments: str) -> Any:
    """Call `sparecraft`, which has to succeed, and return the JSON that it prints."""
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def command_in(folder: Path) -> Path:
    """Write `sparecraft` as a program into a folder and return its path."""
    return executable(folder / "sparecraft", f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')


def refusal(*arguments: str) -> SparecraftError:
    """Call `sparecraft`, which has to refuse the call, and return the error."""
    result = call(*arguments)
    assert isinstance(result.exception, SparecraftError), result.output
    return result.exception


def all_commands() -> dict[tuple[str, ...], Any]:
    """Return every command and subcommand, by the words that call it."""
    return dict(entry for name in COMMANDS for entry in _commands((name,), command(name)))


def _commands(name: tuple[str, ...], group: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield name, group
    for below, inner in getattr(group, "commands", {}).items():
        yield from _commands((*name, below), inner)


def sparecraft(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `sparecraft` as a process until it ends; a traceback fails the test."""
    process = subprocess.run(
        [*COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert "Traceback" not in process.stdout + process.stderr, process.stderr
    return process
