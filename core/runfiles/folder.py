"""A run by its folder, or by its experiment's name as other commands take it."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path("results")
_FILES = ("result.json", "manifest.json")


def run_folder(what: Path, results: Path = RESULTS) -> Path:
    """The folder of a run that is meant: itself, a run under `results`, or of an experiment (its
    name, or its folder of runs) the one that `latest` points to; `what` where there is none of
    these."""
    for one in (what, what / "latest", results / what, results / what / "latest"):
        if any((one / name).is_file() for name in _FILES):
            return one
    return what
