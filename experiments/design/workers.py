"""The load worker that a design names: one that comes with Sparecraft, or a program of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from experiments.errors import InputError
from experiments.paths import ROOT

DEFAULT = "locust"
_PACKAGE = "experiments.load.workers"


def worker_command(worker: str, directory: Path) -> tuple[str, ...]:
    """The command that starts it, without its arguments.

    Parameters: worker, a folder of experiments/load/workers, or the path of an executable from a
    design's `directory`. Raises: InputError where it is neither.
    """
    folder = ROOT.joinpath(*_PACKAGE.split("."))
    built_in = sorted(path.parent.name for path in folder.glob("*/__main__.py"))
    if worker in built_in:
        return (sys.executable, "-m", f"{_PACKAGE}.{worker}")
    path = directory / worker
    if path.is_file() and os.access(path, os.X_OK):
        return (str(path.resolve()),)
    raise InputError(
        "load.worker",
        expected=f"one of {', '.join(built_in)}, or the path of an executable from {directory}",
        came=worker if not path.is_file() else f"{worker}, which is not executable",
        do="experiments/load/README.md says what a worker is told and what it tells.",
    )
