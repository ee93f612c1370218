"""The text of --help is what was written: Rich would take `[rates]` for a style and drop it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from experiments.cli import COMMANDS, app, command


def _commands(name: tuple[str, ...], one: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command and those below it."""
    yield name, one
    for below, inner in getattr(one, "commands", {}).items():
        yield from _commands((*name, below), inner)


ALL = dict(found for name in COMMANDS for found in _commands((name,), command(name)))


def _words(text: str) -> str:
    """The text as it is, but for where lines break: also behind a hyphen."""
    return "".join(text.split())


@pytest.mark.parametrize("name", ALL, ids=" ".join)
def test_help_is_shown_as_it_was_written(name: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*name, "--help"], env={"COLUMNS": "100"})
    assert done.exit_code == 0
    shown = _words(done.output)
    for paragraph in ALL[name].help.split("\n\n"):
        assert _words(paragraph) in shown
    for parameter in ALL[name].params:
        written = getattr(parameter, "help", None)
        assert written, f"{parameter.name} has no help"
        assert _words(written) in shown


def test_some_help_has_what_rich_would_drop() -> None:
    assert any("[rates]" in one.help for name in ALL for one in ALL[name].params)


def test_the_commands_below_a_command_are_shown_with_what_they_do() -> None:
    for one in ALL["reproduce",].commands.values():
        assert len(one.get_short_help_str()) > 20
