"""The planner's commands, called as `sparecraft` calls them."""

from __future__ import annotations

import json
from typing import Any

import typer
from typer.testing import CliRunner, Result

from optimizer.commands import availability, integrity, limplock, plan, prices, reproduce, simulate

_APP = typer.Typer()
for _function in (availability.availability, integrity.integrity, limplock.limplock, plan.plan,
                  simulate.simulate):  # fmt: skip
    _APP.command()(_function)
_APP.add_typer(prices.group, name="prices")
_APP.add_typer(reproduce.group, name="reproduce")


def invoke(*words: str, columns: int = 100) -> Result:
    """Run `sparecraft WORDS` on a terminal of `columns` columns; return output and exit code."""
    return CliRunner().invoke(_APP, words, env={"COLUMNS": str(columns)})


def output_of(*words: str, code: int = 0) -> str:
    """Return the output of a command that exits with `code`; re-raise its exception, if any."""
    result = invoke(*words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def json_of(*words: str, code: int = 0) -> Any:
    """Run the command with --json and return the parsed output."""
    return json.loads(output_of(*words, "--json", code=code))
