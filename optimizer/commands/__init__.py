"""The planner's part of `sparecraft`: one module a command; `experiments.cli` adds them.

Each module says what it takes and prints, and leaves all thinking to the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

_NAMES = ("availability", "integrity", "plan", "prices", "reproduce", "simulate")


def add_to(app: typer.Typer) -> None:
    """Add the planner's commands to `app`."""
    from importlib import import_module

    for name in _NAMES:
        import_module(f"optimizer.commands.{name}").add_to(app)
