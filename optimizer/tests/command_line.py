"""The planner's commands, called as `sparecraft` calls them."""

from __future__ import annotations

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
    """The output and exit code of `sparecraft WORDS` on a terminal of so many columns."""
    return CliRunner().invoke(_APP, words, env={"COLUMNS": str(columns)})


def output_of(*words: str, code: int = 0) -> str:
    """The output if it ends with `code`. Raises what it ends with otherwise."""
    done = invoke(*words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout
