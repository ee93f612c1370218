"""The place of the project."""

from __future__ import annotations

from pathlib import Path

from core.errors import EnvironmentMissing

ROOT = Path(__file__).resolve().parents[1]
INSTALLED = ROOT.name == "rooms"  # of a wheel (`sparecraft/`), not a checkout or its bundle


def require_checkout(what: str) -> None:
    """Raises EnvironmentMissing in an installed wheel, which has neither agents nor a provider."""
    if INSTALLED:
        raise EnvironmentMissing(
            what,
            expected="a checkout of Sparecraft, whose agents, images and provider it needs",
            got="an installed wheel",
            hint="Clone the project, call `make setup` there, and use its .venv/bin/sparecraft.",
        )


def brief(path: Path) -> str:
    """Return a path as a person is told it: from where they are if it lies below, else from the
    project's root if it is in the project, else whole.
    """
    whole = path.resolve()
    for base in (Path.cwd(), ROOT):
        if whole.is_relative_to(base):
            return str(whole.relative_to(base))
    return str(whole)
