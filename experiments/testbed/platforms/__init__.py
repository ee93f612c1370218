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
    """Return every platform that has a folder here."""
    return tuple(entry(name) for name in _platform_names())


def entry(name: str) -> PlatformEntry:
    """Return the platform called `name`. Raises InputError if there is none: no platform stands
    in for another, which may cost money.
    """
    if name not in _platform_names():
        raise InputError(
            "--platform",
            expected=f"one of {', '.join(_platform_names())}",
            got=repr(name),
            hint="A platform is a folder in experiments/testbed/platforms.",
        )
    platform_entry: PlatformEntry = import_module(f"{__name__}.{name}").PLATFORM
    return platform_entry


def _platform_names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
