"""A Locust file as a design's load: `[load] locustfile`.

The file is code of the user, and Locust changes the standard library of the process that imports
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
_OUTPUT_BYTES_MAX = 2000


class LocustTask(Written):
    """A task, or a TaskSet with tasks of its own; `weight` is relative to its neighbours."""

    name: str
    weight: int
    tags: tuple[str, ...] = ()
    sequential: bool = False
    tasks: tuple[LocustTask, ...] = ()


class LocustUser(Written):
    """A user class. `waits`: its wait_time and those of its TaskSets."""

    name: str
    weight: float
    fixed_count: int
    http: bool
    host: str | None
    waits: tuple[str, ...]
    tasks: tuple[LocustTask, ...]


class LocustUrl(Written):
    """A URL with a host in a request of the file."""

    url: str
    line: int


class LocustError(Written):
    """The reason why the file cannot be imported; line 0: the error is not in the file itself."""

    text: str
    line: int


class LocustFile(Written):
    """The content of a Locust file."""

    locust: str
    """The version of Locust that reads it."""
    users: tuple[LocustUser, ...] = ()
    shapes: tuple[str, ...] = ()
    """Classes of LoadTestShape."""
    urls: tuple[LocustUrl, ...] = ()
    error: LocustError | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the parts that an open loop ignores."""
        return tuple(code for code, _ in self.ignored_parts())

    def weights(self) -> tuple[float, ...]:
        """Return the relative shares of the user classes in the arrivals. An open loop has no
        number of users, so `fixed_count` counts as a weight.
        """
        return tuple(float(user.fixed_count or user.weight) for user in self.users)

    def ignored_parts(self) -> tuple[tuple[str, str], ...]:
        """Return the parts that an open loop ignores: a code, and a sentence with the reason."""
        parts = []
        waits = [f"{user.name} ({', '.join(user.waits)})" for user in self.users if user.waits]
        if waits:
            text = f"wait_time of {', '.join(waits)}: a task begins at its drawn arrival"
            parts.append(("wait_time", text))
        if self.shapes:
            text = f"LoadTestShape {', '.join(self.shapes)}: the design says how many arrivals"
            parts.append(("shape", text))
        fixed_users = [user.name for user in self.users if user.fixed_count]
        if fixed_users:
            text = f"fixed_count of {', '.join(fixed_users)}: it is taken for the class's weight"
            parts.append(("fixed_count", text))
        hosts = dict.fromkeys(user.host for user in self.users if user.host)
        if hosts:
            text = f"host {', '.join(map(str, hosts))}: the fleet's entry is asked"
            parts.append(("host", text))
        return tuple(parts)


_LOCUST_FILE: TypeAdapter[LocustFile] = TypeAdapter(LocustFile)


def read_locustfile(path: Path) -> LocustFile:
    """Import the file in a child process, and return its content.

    Raises: InputError with file and line if it cannot be imported within READ_S, has no user class,
    or names hosts of the network.
    """
    path = path.resolve()
    if not path.is_file():
        raise InputError(str(path), expected="a Locust file", got="no such file")
    state = path.stat()
    return _read_cached(path, state.st_mtime_ns, state.st_size)


@cache
def _read_cached(path: Path, _mtime_ns: int, _size: int) -> LocustFile:
    file = _parse(path, *_run_child(path))
    if file.error is not None:
        place = f"{path}:{file.error.line}" if file.error.line else str(path)
        raise InputError(
            place,
            expected="a Locust file that can be imported",
            got=file.error.text,
            hint=_import_hint(file),
        )
    if not file.users:
        raise InputError(
            str(path),
            expected="a Locust file with a user class (HttpUser, FastHttpUser, User)",
            got="none that is not abstract and has a weight",
            hint="Is it a module of another one? Give that one.",
        )
    idle = [user.name for user in file.users if not user.tasks]
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
                f"{path}:{url.line}",
                expected="requests to the fleet alone: a path, as /cart",
                got=url.url,
                hint="Give the path only: the user's host is the fleet's entry.",
            )
            for url in file.urls
        ]
    )
    return file


def _import_hint(file: LocustFile) -> str:
    text = file.error.text if file.error else ""
    if text.startswith("ModuleNotFoundError"):
        return "Install it beside Sparecraft, or put the module into the locustfile's folder."
    if text.startswith("ImportError") and "locust" in text:
        return f"It was written for another Locust; this is {file.locust}."
    return "Correct it."


def _run_child(path: Path) -> tuple[bytes, str]:
    """Return the answer of the child, and the output. End the process group of the child."""
    environment = {key: value for key, value in os.environ.items() if key[:7] != "LOCUST_"}
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            program(_INSPECTOR, str(path)),
            cwd=path.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
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
                with suppress(ProcessLookupError):  # if it left no process behind
                    os.killpg(child.pid, signal.SIGKILL)
        output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_BYTES_MAX))
        return answer, output.read().decode(errors="replace")


def _parse(path: Path, answer: bytes, output: str) -> LocustFile:
    try:
        return _LOCUST_FILE.validate_json(answer)
    except ValidationError as error:
        raise InputError(
            str(path),
            expected="a Locust file that can be imported",
            got="the end of the importing process, with the output: "
            + (" / ".join(output.splitlines()[-3:]) or "nothing"),
            hint="Correct it.",
        ) from error


def locustfile_problems(load: Load, directory: Path, fleet: Fleet, roles: Roles) -> list[Problem]:
    """Return the problems of `[load] locustfile` in the design. Raises: as `read_locustfile`."""
    if load.locustfile is None:
        return []
    key = ("load", "locustfile")
    path = (directory / load.locustfile).resolve()
    if not path.is_relative_to(directory.resolve()) or not path.is_file():
        expected = "a file within the design's folder"
        return [Problem(key, expected, repr(load.locustfile), "Copy it there.")]
    file = read_locustfile(path)
    if any(user.http for user in file.users) and not _http_roles(fleet, roles):
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
    entry_roles = _http_roles(fleet, roles) or [
        fleet.tiers[tier].role for tier in fleet.entry_tiers
    ]
    return {LOCUSTFILE: Workload(partial(_population, path), tuple(entry_roles), locustfile=path)}


def _http_roles(fleet: Fleet, roles: Roles) -> list[str]:
    entry_roles = [fleet.tiers[tier].role for tier in fleet.entry_tiers]
    return [role for role in entry_roles if roles[role].protocol == HTTP]


def _population(path: Path) -> Population:
    file = read_locustfile(path)
    classes = tuple(Operation(user.name, user.name, "") for user in file.users)
    return Population(classes, zipf=0.0, weights=file.weights())


def locustfile_rows(file: LocustFile) -> Iterator[tuple[str, str]]:
    """Yield users, tasks and ignored parts of a file for printing: a label, and a text."""
    total = sum(file.weights())
    for user, weight in zip(file.users, file.weights(), strict=True):
        tasks = ", ".join(_describe_tasks(user.tasks))
        yield f"user {user.name}", f"{weight / total:.0%} of the arrivals; {tasks or 'no tasks'}"
    for _, text in file.ignored_parts():
        yield "not honoured", text


def sender_words(file: LocustFile) -> str:
    """Return a text about the worker that runs the file."""
    return f"Locust {file.locust}, one process of Python; not by the native worker"


def locustfile_json(file: LocustFile) -> dict[str, object]:
    return file.model_dump(mode="json", exclude={"error", "urls"})


def locustfile_of(body: Mapping[str, Any]) -> LocustFile:
    return _LOCUST_FILE.validate_python(dict(body), strict=False)


def _describe_tasks(tasks: tuple[LocustTask, ...]) -> Iterator[str]:
    for task in tasks:
        text = task.name + (f" x{task.weight}" if task.weight != 1 else "")
        text += f" [{', '.join(task.tags)}]" if task.tags else ""
        subtasks = (" then " if task.sequential else ", ").join(_describe_tasks(task.tasks))
        yield f"{text} ({subtasks})" if subtasks else text
