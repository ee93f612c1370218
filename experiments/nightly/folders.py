"""Runs on disk: found, and after its nights removed."""

from __future__ import annotations

from pathlib import Path

from experiments.nightly.history import History
from experiments.nightly.suite import Suite


def run_folders(experiment: Path) -> list[Path]:
    """The folders of an experiment's runs, oldest first: RUN, and KIND/RUN."""
    found = {
        file.parent
        for pattern in ("*/manifest.json", "*/*/manifest.json")
        for file in experiment.glob(pattern)
        if not file.parent.is_symlink()
    }
    return sorted(found)


def prune(suite: Suite, history: History) -> None:
    """Remove tables of single requests, and logs, of nights that are long past."""
    oldest = history.last_night - suite.file.keep_parquet_nights + 1
    for folder in {run.folder for run in history.runs if run.night < oldest and run.folder}:
        for table in (suite.results / folder).glob("*.parquet"):
            table.unlink()
    for log in (suite.folder / "logs").glob("*.log"):
        if int(log.name.split("-", 1)[0]) < oldest:
            log.unlink()
