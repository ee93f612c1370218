"""Run folders on disk: listed, and removed after their number of nights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.design.prediction import PLANNED_FOLDER, REFUSED_FOLDER
from experiments.nightly.history import History
from experiments.nightly.suite import Suite


def run_folders(experiment: Path) -> list[Path]:
    """Return the folders of an experiment's runs, oldest first: RUN, and KIND/RUN."""
    folders = {
        file.parent
        for pattern in ("*/manifest.json", "*/*/manifest.json")
        for file in experiment.glob(pattern)
        if not file.parent.is_symlink()
    }
    return sorted(folders)


def newest_runs(folders: Sequence[Path]) -> tuple[Path | None, Path | None]:
    """Return the newest run of a design, and of the fleet planned from it; each may be None."""
    planned = [folder for folder in folders if folder.parent.name == PLANNED_FOLDER]
    ends = (PLANNED_FOLDER, REFUSED_FOLDER)
    designed = [folder for folder in folders if folder.parent.name not in ends]
    return (designed[-1] if designed else None, planned[-1] if planned else None)


def prune(suite: Suite, history: History) -> None:
    """Remove tables of single requests, and logs, of nights that are long past."""
    oldest = history.last_night - suite.file.keep_parquet_nights + 1
    for folder in [name for name, night in history.folders.items() if night < oldest]:
        for table in (suite.results / folder).glob("*.parquet"):
            table.unlink()
    for log in (suite.folder / "logs").glob("*.log"):
        if int(log.name.split("-", 1)[0]) < oldest:
            log.unlink()
