"""Requests of a service's users: `workload.py` in a role's folder, or in a design's.

Such a module has `WORKLOADS`, a dictionary of names to `Workload`; `[load] user` names one of them.
It is one file: it may import the standard library, installed packages and this project, but no file
beside it. Popularity follows Zipf's law: for pages and searches with the exponent of Breslau et al.
(Web caching and Zipf-like distributions, INFOCOM 1999), for key-value stores with YCSB's 0.99
(Cooper et al., SoCC 2010).
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from core.errors import InputError
from experiments.design.http_request import HttpRequest
from experiments.paths import ROOT

ROLES = ROOT / "infra" / "roles"
MODULE = "workload.py"
PAGE_ZIPF = 0.8  # between 0.64 and 0.83 in Breslau et al.
KEY_ZIPF = 0.99


@dataclass(frozen=True)
class Operation:
    """A kind of request: its name in the records, the request as its protocol's client takes it,
    the text that an answer must contain, and the entry tier (none: the first that fits).

    http: a request over HTTP, instead of a GET of the path `request`; `check` is ignored then.
    """

    name: str
    request: str
    check: str
    entry: str = ""
    http: HttpRequest | None = None


@dataclass(frozen=True)
class SessionStep:
    """A step of a session: the index of its operation, and the bounds of the wait before it [s],
    which is drawn uniformly.
    """

    operation: int
    think_s_min: float = 0.0
    think_s_max: float = 0.0


@dataclass(frozen=True)
class Session:
    """Steps of one user, each after the answer to the one before."""

    name: str
    weight: float
    steps: tuple[SessionStep, ...]


@dataclass(frozen=True)
class Table:
    """Values of arrivals by column; a row is drawn uniformly for each arrival or session."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Population:
    """All requests of users; `writes[k]` changes the data that `operations[k]` reads.

    weights: relative frequencies of the operations, to each other and to sessions, instead of
    Zipf's law.
    """

    operations: tuple[Operation, ...]
    zipf: float
    writes: tuple[Operation, ...] = ()
    write_share: float = 0.0
    weights: tuple[float, ...] = ()
    sessions: tuple[Session, ...] = ()
    table: Table | None = None

    def __post_init__(self) -> None:
        if not self.operations:
            raise ValueError("expected at least one operation (got none)")
        if len(self.writes) not in (0, len(self.operations)):
            raise ValueError(
                f"expected a write for each of {len(self.operations)} operations, or none; "
                f"came {len(self.writes)}"
            )
        if not (0.0 <= self.write_share <= 1.0 and self.zipf >= 0.0):
            raise ValueError(
                "expected a write_share from 0 to 1 and a zipf of at least 0; "
                f"came {self.write_share} and {self.zipf}"
            )


@dataclass(frozen=True)
class Workload:
    """The requests of one kind of user, and the roles of an entry tier that they can be sent to.

    client: a class of experiments/load/client.py that sends the requests to every entry, instead of
    the built-in client of its protocol. locustfile: a Locust file; the operations are its users.
    trace: the arrival times of a file [s].
    """

    population: Callable[[], Population]
    roles: tuple[str, ...]
    client: type[Any] | None = None
    locustfile: Path | None = None
    trace: tuple[float, ...] | None = None


def numbered(name: str, count: int) -> tuple[str, ...]:
    """Return the keys of `count` records, as infra/roles/records.py names them."""
    return tuple(f"{name}:{index:06d}" for index in range(count))


def lines_of(path: Path) -> tuple[str, ...]:
    """Return the lines of a list, stripped and without empty ones. Raises InputError if there is
    none.
    """
    lines = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    if not any(lines):
        raise InputError(str(path), expected="a word in each line", got="none", hint="Fill it.")
    return tuple(line for line in lines if line)


def find_workloads(directory: Path | None) -> Mapping[str, Workload]:
    """Return the workloads of the built-in roles and of a design's folder, which has precedence.

    Raises: InputError with file and line for a module that cannot be used.
    """
    own_modules = [directory / MODULE] if directory else []
    folders = [ROLES, *([directory / "roles"] if directory else [])]
    paths = [path for folder in folders for path in sorted(folder.glob(f"*/{MODULE}"))]
    workloads: dict[str, Workload] = {}
    for path in [*paths, *(path for path in own_modules if path.is_file())]:
        workloads.update(_load_workloads(path))
    return workloads


def population_of(workload: Workload) -> Population:
    """Return the operations of a workload.

    Raises: InputError with file and line if its module fails.
    """
    try:
        population = workload.population()
    except InputError:
        raise
    except Exception as error:
        raise _load_error(file_of(workload), error) from error
    if not isinstance(population, Population):
        raise InputError(
            str(file_of(workload)),
            expected="a population function that returns a Population",
            got=f"{type(population).__name__}",
            hint="Return Population(operations, zipf).",
        )
    return population


def reads_of(workloads: Mapping[str, Workload], user: str) -> float:
    """Return the share of a user's requests that only read, and so may be copied; 1 if there is no
    such user.
    """
    if user not in workloads:
        return 1.0
    population = population_of(workloads[user])
    if population.weights:
        return _weighted_reads(population)
    return 1.0 - population.write_share if population.writes else 1.0


def _weighted_reads(population: Population) -> float:
    weights_of_operations = list(enumerate(population.weights))
    weights_of_operations += [
        (step.operation, session.weight)
        for session in population.sessions
        for step in session.steps
    ]
    reads = sum(
        weight
        for index, weight in weights_of_operations
        if (http := population.operations[index].http) is None or http.only_reads
    )
    return reads / sum(weight for _, weight in weights_of_operations)


def file_of(workload: Workload) -> Path:
    """Return the module that has the workload."""
    return Path(str(sys.modules[workload.population.__module__].__file__))


@cache
def module_at(path: Path) -> ModuleType:
    """Import a Python file as a module with a private name, once for each path.

    Raises: InputError with file and line.
    """
    name = f"sparecraft_{path.stem}_{abs(hash(path)):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # for any path that ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _load_error(path, error) from error
    return module


def _load_workloads(path: Path) -> dict[str, Workload]:
    workloads: Any = getattr(module_at(path.resolve()), "WORKLOADS", None)
    is_valid = isinstance(workloads, dict) and all(
        isinstance(workload, Workload) for workload in workloads.values()
    )
    if not is_valid:
        lines = path.read_text(encoding="utf-8").splitlines()
        line = next(
            (number for number, text in enumerate(lines, 1) if text.startswith("WORKLOADS")), 1
        )
        raise InputError(
            f"{path}:{line}",
            expected="WORKLOADS, a dictionary of names to Workload",
            got="none" if workloads is None else repr(workloads)[:200],
            hint="Define it, as experiments/load/protocols/README.md shows.",
        )
    return dict(workloads)


def _load_error(path: Path, error: Exception) -> InputError:
    """Return the error of a module as an InputError with its line."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno
    else:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), 1)
    return InputError(
        f"{path}:{line}",
        expected="a Python module with the requests of users",
        got=f"{type(error).__name__}: {error}",
        hint="Correct it.",
    )
