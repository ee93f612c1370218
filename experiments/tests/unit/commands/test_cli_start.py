"""`sparecraft --help` imports no command, and says of each what the command itself says."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from core.errors import EnvironmentMissing
from experiments.cli import COMMANDS, app, command, first_paragraph

HEAVY = ("altair", "boto3", "httpx", "numpy", "polars", "pydantic", "pyomo", "rich", "scipy")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_the_first_paragraph_of_each_command_s_help(name: str) -> None:
    first = command(name).help.split("\n\n")[0]
    assert first_paragraph(name) == " ".join(first.split())


def test_help_imports_nothing_that_takes_long() -> None:
    code = f"""
import sys
from experiments.cli import app
try:
    app(["--help"])
except SystemExit:
    print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == []
    assert all(name in done.stdout for name in COMMANDS)


def test_an_unknown_command_is_wrong_usage() -> None:
    assert CliRunner().invoke(app, ["fly"]).exit_code == 2


def test_a_message_has_one_full_stop_where_what_came_ends_with_one() -> None:
    said = str(EnvironmentMissing("port", expected="a free one", got="18080.", hint="Wait."))
    assert said == "port: expected a free one (got 18080). Wait."
