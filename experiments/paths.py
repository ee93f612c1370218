"""The place of the project."""

from __future__ import annotations

from pathlib import Path

from core.errors import EnvironmentMissing

ROOT = Path(__file__).resolve().parents[1]
# True in a wheel, below its sparecraft/; false in a checkout or its bundle, whatever its name is.
INSTALLED = ROOT.name == "rooms" and (ROOT.parent / "__init__.py").is_file()


def require_checkout(place: str) -> None:
    """Raise EnvironmentMissing in an installed wheel, which has neither agents nor a provider."""
    if INSTALLED:
        raise EnvironmentMissing(
            place,
            expected="a checkout of Sparecraft, whose agents, images and provider it needs",
            got="an installed wheel",
            hint="Clone the project, call `make setup` there, and use its .venv/bin/sparecraft.",
        )


def brief(path: Path) -> str:
    """Return a path for a person: relative to the working directory or else to the project's root,
    if it lies below, else absolute.
    """
    absolute = path.resolve()
    for base in (Path.cwd(), ROOT):
        if absolute.is_relative_to(base):
            return str(absolute.relative_to(base))
    return str(absolute)
