"""The parts of `sparecraft` that make, list and remove fleets; `experiments.cli` adds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

_NAMES = ("up", "down", "listing", "reap")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    from importlib import import_module

    for name in _NAMES:
        import_module(f"experiments.commands.{name}").add_to(app)
