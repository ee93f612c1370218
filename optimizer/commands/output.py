"""How the planner's commands print: JSON for programs, tables for people."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
out = Console()


def print_json(value: Any) -> None:
    """Print `value` as JSON. Raises ValueError for inf or nan, which no answer may hold."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def say(line: str) -> None:
    """Print one line as it is, without markup or highlighting."""
    out.print(line, highlight=False, markup=False, soft_wrap=True)
