"""Platforms of a fleet, a folder each. No other part may know how a machine was made.

README.md says how to add one.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from core.errors import InputError
from experiments.testbed.platforms.base import Option, Platform, PlatformEntry

__all__ = ["DEFAULT", "Option", "Platform", "PlatformEntry", "entries", "entry"]

DEFAULT = "local"


def entries() -> tuple[PlatformEntry, ...]:
    """Every platform that has a folder here."""
    return tuple(entry(name) for name in _names())


def entry(name: str) -> PlatformEntry:
    """Return the platform called `name`. Raises InputError if there is none: no platform stands
    in for another, which may cost money.
    """
    if name not in _names():
        raise InputError(
            "--platform",
            expected=f"one of {', '.join(_names())}",
            got=repr(name),
            hint="A platform is a folder in experiments/testbed/platforms.",
        )
    found: PlatformEntry = import_module(f"{__name__}.{name}").PLATFORM
    return found


def _names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
