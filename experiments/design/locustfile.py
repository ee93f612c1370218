"""A Locust file as a design's load: `[load] locustfile`.

The file is its user's own code, and Locust changes the standard library of the process that imports
it. So a child process reads it, with a time limit and no network
(`experiments/load/workers/locust/file_inspector.py`), and lists its users, tasks and weights.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError, computed_field

from core.config_file import Problem, Written, raise_all
from core.errors import InputError
from experiments.design.experiment import LOCUSTFILE, Load
from experiments.design.fleet import Fleet
from experiments.design.roles import Roles
from experiments.design.workloads import Operation, Population, Workload
from experiments.program import program

HTTP = "http"
READ_S = 30.0
_INSPECTOR = "experiments.load.workers.locust.file_inspector"
_SAID_BYTES_MAX = 2000


class FoundTask(Written):
    """A task, or a TaskSet with tasks of its own; `weight` is relative to its neighbours."""

    name: str
    weight: int
    tags: tuple[str, ...] = ()
    sequential: bool = False
    tasks: tuple[FoundTask, ...] = ()


class FoundUser(Written):
    """A user class. `waits`: its wait_time, and those of its TaskSets."""

    name: str
    weight: float
    fixed_count: int
    http: bool
    host: str | None
    waits: tuple[str, ...]
    tasks: tuple[FoundTask, ...]


class FoundUrl(Written):
    """A URL of a host that the file names, where it makes a request."""

    url: str
    line: int


class FoundError(Written):
    """The reason that it cannot be imported; line 0: not in the file itself."""

    text: str
    line: int


class LocustFile(Written):
    """All that is found in a Locust file."""

    locust: str
    """The version of Locust that reads it."""
    users: tuple[FoundUser, ...] = ()
    shapes: tuple[str, ...] = ()
    """Classes of LoadTestShape."""
    urls: tuple[FoundUrl, ...] = ()
    error: FoundError | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of what an open loop cannot honour."""
        return tuple(code for code, _ in self.not_honoured())

    def weights(self) -> tuple[float, ...]:
        """Shares of the arrivals by user class, relative to each other: `fixed_count` is a number
        of users, of which an open loop has none, so it is taken for a weight."""
        return tuple(float(one.fixed_count or one.weight) for one in self.users)

    def not_honoured(self) -> tuple[tuple[str, str], ...]:
        """Parts of the file that an open loop ignores: a code, and a sentence with the reason."""
        found = []
        waits = [f"{one.name} ({', '.join(one.waits)})" for one in self.users if one.waits]
        if waits:
            text = f"wait_time of {', '.join(waits)}: a task begins at its drawn arrival"
            found.append(("wait_time", text))
        if self.shapes:
            text = f"LoadTestShape {', '.join(self.shapes)}: the design says how many arrivals"
            found.append(("shape", text))
        fixed = [one.name for one in self.users if one.fixed_count]
        if fixed:
            text = f"fixed_count of {', '.join(fixed)}: it is taken for the class's weight"
            found.append(("fixed_count", text))
        hosts = dict.fromkeys(one.host for one in self.users if one.host)
        if hosts:
            text = f"host {', '.join(map(str, hosts))}: the fleet's entry is asked"
            found.append(("host", text))
        return tuple(found)


_FOUND: TypeAdapter[LocustFile] = TypeAdapter(LocustFile)


def read_locustfile(path: Path) -> LocustFile:
    """Import it in a child process and say what it has.

    Raises: InputError with file and line where it cannot be imported in READ_S, has no user class,
    or asks the network.
    """
    path = path.resolve()
    if not path.is_file():
        raise InputError(str(path), expected="a Locust file", got="no such file")
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@cache
def _read(path: Path, _mtime_ns: int, _size: int) -> LocustFile:
    found = _parse(path, *_run_child(path))
    if found.error is not None:
        place = f"{path}:{found.error.line}" if found.error.line else str(path)
        raise InputError(
            place,
            expected="a Locust file that can be imported",
            got=found.error.text,
            hint=_import_hint(found),
        )
    if not found.users:
        raise InputError(
            str(path),
            expected="a Locust file with a user class (HttpUser, FastHttpUser, User)",
            got="none that is not abstract and has a weight",
            hint="Is it a module of another one? Give that one.",
        )
    idle = [one.name for one in found.users if not one.tasks]
    if idle:
        raise InputError(
            str(path),
            expected="tasks of each user class",
            got=f"none of {', '.join(idle)}",
            hint="Give it a @task, or make it abstract = True if others only inherit from it.",
        )
    raise_all(
        [
            InputError(
                f"{path}:{one.line}",
                expected="requests to the fleet alone: a path, as /cart",
                got=one.url,
                hint="Give the path only: the user's host is the fleet's entry.",
            )
            for one in found.urls
        ]
    )
    return found


def _import_hint(found: LocustFile) -> str:
    text = found.error.text if found.error else ""
    if text.startswith("ModuleNotFoundError"):
        return "Install it beside Sparecraft, or put the module into the locustfile's folder."
    if text.startswith("ImportError") and "locust" in text:
        return f"It was written for another Locust; this is {found.locust}."
    return "Correct it."


def _run_child(path: Path) -> tuple[bytes, str]:
    """Return the answer of the child, and what it and the file said. Its process group is ended."""
    environment = {key: value for key, value in os.environ.items() if key[:7] != "LOCUST_"}
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(
            program(_INSPECTOR, str(path)),
            cwd=path.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        ) as child:
            try:
                answer, _ = child.communicate(timeout=READ_S)
            except subprocess.TimeoutExpired as error:
                raise InputError(
                    str(path),
                    expected=f"a Locust file that is imported within {READ_S:g} s",
                    got="one that takes longer",
                    hint="Wait and compute in on_start or in a task, not at the file's top.",
                ) from error
            finally:
                with suppress(ProcessLookupError):  # it has left no process behind
                    os.killpg(child.pid, signal.SIGKILL)
        said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_BYTES_MAX))
        return answer, said.read().decode(errors="replace")


def _parse(path: Path, answer: bytes, said: str) -> LocustFile:
    try:
        return _FOUND.validate_json(answer)
    except ValidationError as error:
        raise InputError(
            str(path),
            expected="a Locust file that can be imported",
            got="the end of the importing process, with the output: "
            + (" / ".join(said.splitlines()[-3:]) or "nothing"),
            hint="Correct it.",
        ) from error


def locustfile_problems(load: Load, directory: Path, fleet: Fleet, roles: Roles) -> list[Problem]:
    """Problems of `[load] locustfile` with the design. Raises: as `read_locustfile`."""
    if load.locustfile is None:
        return []
    key = ("load", "locustfile")
    path = (directory / load.locustfile).resolve()
    if not path.is_relative_to(directory.resolve()) or not path.is_file():
        expected = "a file within the design's folder"
        return [Problem(key, expected, repr(load.locustfile), "Copy it there.")]
    found = read_locustfile(path)
    if any(one.http for one in found.users) and not _http_roles(fleet, roles):
        expected = f"an entry tier whose role speaks {HTTP}, which its users ask"
        return [Problem(key, expected, ", ".join(fleet.entry_tiers))]
    return []


def locustfile_workload(
    load: Load, directory: Path, fleet: Fleet, roles: Roles
) -> Mapping[str, Workload]:
    """Return the workload of `[load] locustfile`, by its user; empty if there is none."""
    if load.locustfile is None:
        return {}
    path = (directory / load.locustfile).resolve()
    asked = _http_roles(fleet, roles) or [fleet.tiers[one].role for one in fleet.entry_tiers]
    return {LOCUSTFILE: Workload(partial(_population, path), tuple(asked), locustfile=path)}


def _http_roles(fleet: Fleet, roles: Roles) -> list[str]:
    asked = [fleet.tiers[tier].role for tier in fleet.entry_tiers]
    return [role for role in asked if roles[role].protocol == HTTP]


def _population(path: Path) -> Population:
    found = read_locustfile(path)
    classes = tuple(Operation(one.name, one.name, "") for one in found.users)
    return Population(classes, zipf=0.0, weights=found.weights())


def locustfile_rows(found: LocustFile) -> Iterator[tuple[str, str]]:
    """Yield users, tasks and ignored parts of a file for printing: a label, and a text."""
    total = sum(found.weights())
    for one, weight in zip(found.users, found.weights(), strict=True):
        tasks = ", ".join(_task_words(one.tasks))
        yield f"user {one.name}", f"{weight / total:.0%} of the arrivals; {tasks or 'no tasks'}"
    for _, text in found.not_honoured():
        yield "not honoured", text


def sender_words(found: LocustFile) -> str:
    """Return the worker that carries it out."""
    return f"Locust {found.locust}, one process of Python; not by the native worker"


def locustfile_json(found: LocustFile) -> dict[str, object]:
    """Return the same for a program."""
    return found.model_dump(mode="json", exclude={"error", "urls"})


def locustfile_of(body: Mapping[str, Any]) -> LocustFile:
    """Return the reverse of `locustfile_json`."""
    return _FOUND.validate_python(dict(body), strict=False)


def _task_words(tasks: tuple[FoundTask, ...]) -> Iterator[str]:
    for task in tasks:
        words = task.name + (f" x{task.weight}" if task.weight != 1 else "")
        words += f" [{', '.join(task.tags)}]" if task.tags else ""
        inner = (" then " if task.sequential else ", ").join(_task_words(task.tasks))
        yield f"{words} ({inner})" if inner else words
