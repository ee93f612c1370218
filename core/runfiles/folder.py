"""The folder of a run, from its path or its experiment's name."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path("results")
_FILES = ("result.json", "manifest.json")


def run_folder(run: Path, results: Path = RESULTS) -> Path:
    """Return the folder of a run: `run` itself, a run under `results`, or `latest` of an
    experiment (its name, or its folder of runs); `run` if none of these exists."""
    for folder in (run, run / "latest", results / run, results / run / "latest"):
        if any((folder / file).is_file() for file in _FILES):
            return folder
    return run
