"""Files of a design beside its two: roles, a workload, a load worker."""

from __future__ import annotations

import shutil
from pathlib import Path

from experiments.design.workloads import MODULE

FOLDER = "design"  # of a run's folder, where these are kept


def copy_design_files(source: Path, worker: str, target: Path) -> None:
    """Copy these from one folder to another; what is not there, or not within, stays behind."""
    for name in ("roles", MODULE, worker):
        path = (source / name).resolve()
        if not path.is_relative_to(source.resolve()):
            continue
        place = target / path.relative_to(source.resolve())
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, place, ignore=ignored, dirs_exist_ok=True)
        elif path.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
