"""The place of the project."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def brief(path: Path) -> str:
    """A path as a person is told it: from where they are if it lies below, else from the project's
    root if it is in the project, else whole."""
    whole = path.resolve()
    for base in (Path.cwd(), ROOT):
        if whole.is_relative_to(base):
            return str(whole.relative_to(base))
    return str(whole)
