"""The folder of a run, from its path or its experiment's name."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path("results")
_FILES = ("result.json", "manifest.json")


def run_folder(what: Path, results: Path = RESULTS) -> Path:
    """Return the folder of a run: `what` itself, a run under `results`, or `latest` of an
    experiment (its name, or its folder of runs); `what` if none of these exists."""
    for one in (what, what / "latest", results / what, results / what / "latest"):
        if any((one / name).is_file() for name in _FILES):
            return one
    return what
