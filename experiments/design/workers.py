"""The load worker that a design names: one that comes with Sparecraft, or a program of its own."""

from __future__ import annotations

import os
from pathlib import Path

from core.errors import EnvironmentMissing, InputError
from experiments.paths import ROOT
from experiments.program import program

DEFAULT = "native"
PYTHON = "locust"
PROGRAM = "loadworker"  # of the worker `native`
# The paths after a build, and on a load machine, which gets it from its bundle.
_PROGRAMS = (ROOT / "build" / "bin" / PROGRAM, Path("/opt/sparecraft/bin") / PROGRAM)
_PACKAGE = "experiments.load.workers"


def check_worker(worker: str, directory: Path) -> None:
    """Raise InputError if `worker_command` would."""
    if worker != DEFAULT:
        worker_command(worker, directory)


def name_sender(worker: str, has_client: bool) -> str:
    """Return a text of the load worker of a run on this host, with the reason if it is not the
    requested one.
    """
    if worker == DEFAULT and has_client:
        return f"{PYTHON}: the workload has a client of its own, in Python"
    return worker


def worker_command(worker: str, directory: Path, *, in_python: bool = False) -> tuple[str, ...]:
    """Return the command that starts a load worker, without its arguments.

    Parameters: worker, `native`, a folder of experiments/load/workers, or the path of an executable
    from a design's `directory`; in_python, true if only Python can send the load: the workload has
    a client of its own, or the workers are on other machines. Then `locust` replaces `native`.
    Raises: InputError if the worker is none of these; EnvironmentMissing if `native` is not built.
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
