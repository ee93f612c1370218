"""The load worker that a design names: one that comes with Sparecraft, or a program of its own."""

from __future__ import annotations

import os
from pathlib import Path

from core.errors import EnvironmentMissing, InputError
from experiments.paths import ROOT
from experiments.program import program

DEFAULT = "native"
PYTHON = "locust"
PROGRAM = "loadworker"  # what `native` is
# Where it was built, and where a load machine has it from its bundle.
_PROGRAMS = (ROOT / "build" / "bin" / PROGRAM, Path("/opt/sparecraft/bin") / PROGRAM)
_PACKAGE = "experiments.load.workers"


def check_worker(worker: str, directory: Path) -> None:
    """Raises: InputError where `worker_command` would."""
    if worker != DEFAULT:
        worker_command(worker, directory)


def sent_by(worker: str, has_client: bool) -> str:
    """Return the load worker of a run on this host, in words: which, and why not the one
    asked for.
    """
    if worker == DEFAULT and has_client:
        return f"{PYTHON}: the workload has a client of its own, in Python"
    return worker


def worker_command(worker: str, directory: Path, *, in_python: bool = False) -> tuple[str, ...]:
    """Return the command that starts it, without its arguments.

    Parameters: worker, `native`, a folder of experiments/load/workers, or the path of an executable
    from a design's `directory`; in_python, whether the load is of the kind that only Python sends:
    by a client of the workload's own, or by workers on other machines. Then `locust` stands in for
    `native`. Raises: InputError if it is none of these; EnvironmentMissing where `native` is not
    built.
    """
    if worker == DEFAULT and not in_python:
        return (str(_native()),)
    folder = ROOT.joinpath(*_PACKAGE.split("."))
    built_in = sorted(path.parent.name for path in folder.glob("*/__main__.py"))
    if worker in (DEFAULT, *built_in):
        return tuple(program(f"{_PACKAGE}.{PYTHON if worker == DEFAULT else worker}"))
    path = directory / worker
    if path.is_file() and os.access(path, os.X_OK):
        return (str(path.resolve()),)
    raise InputError(
        "load.worker",
        expected=f"one of {', '.join((DEFAULT, *built_in))}, or the path of an executable "
        f"from {directory}",
        got=worker if not path.is_file() else f"{worker}, which is not executable",
        hint="experiments/load/workers/README.md has the contract of load workers.",
    )


def _native() -> Path:
    for path in _PROGRAMS:
        if path.is_file():
            return path
    raise EnvironmentMissing(
        "load worker",
        expected=f"the program {PROGRAM}",
        got=f"none at {_PROGRAMS[0]}",
        hint="Call `make build`.",
    )
