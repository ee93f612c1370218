"""Run folders on disk: listed, and removed after their number of nights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.design.prediction import PLANNED_FOLDER
from experiments.nightly.history import History
from experiments.nightly.suite import Suite


def run_folders(experiment: Path) -> list[Path]:
    """Return the folders of an experiment's runs, oldest first: RUN, and KIND/RUN."""
    found = {
        file.parent
        for pattern in ("*/manifest.json", "*/*/manifest.json")
        for file in experiment.glob(pattern)
        if not file.parent.is_symlink()
    }
    return sorted(found)


def told_apart(folders: Sequence[Path]) -> tuple[Path | None, Path | None]:
    """Return the newest run of a design, and of the fleet that was planned from it; None where
    there is none.
    """
    planned = [one for one in folders if one.parent.name == PLANNED_FOLDER]
    own = [one for one in folders if one.parent.name != PLANNED_FOLDER]
    return (own[-1] if own else None, planned[-1] if planned else None)


def prune(suite: Suite, history: History) -> None:
    """Remove tables of single requests, and logs, of nights that are long past."""
    oldest = history.last_night - suite.file.keep_parquet_nights + 1
    for folder in [name for name, night in history.folders.items() if night < oldest]:
        for table in (suite.results / folder).glob("*.parquet"):
            table.unlink()
    for log in (suite.folder / "logs").glob("*.log"):
        if int(log.name.split("-", 1)[0]) < oldest:
            log.unlink()
