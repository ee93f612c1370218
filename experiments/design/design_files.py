"""Further files of a design: roles, a workload, a load worker, input files of a load."""

from __future__ import annotations

import shutil
from pathlib import Path

from experiments.design.experiment import Load
from experiments.design.operation_set import files_of
from experiments.design.workloads import MODULE

FOLDER = "design"  # the folder of these files within that of a run


def copy_design_files(source: Path, load: Load, target: Path) -> None:
    """Copy these files from one folder to another, except missing ones and those outside."""
    for name in ("roles", MODULE, load.worker, *files_of(load), *_locustfile(load)):
        path = (source / name).resolve()
        if not path.is_relative_to(source.resolve()):
            continue
        copy = target / path.relative_to(source.resolve())
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, copy, ignore=ignored, dirs_exist_ok=True)
        elif path.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)


def _locustfile(load: Load) -> list[str]:
    """Return the folder of a Locust file, with the files that it reads and imports.

    In the folder of the design itself it is the file alone.
    """
    if load.locustfile is None:
        return []
    path = Path(load.locustfile)
    return [str(path if path.parent == Path() else path.parent)]
