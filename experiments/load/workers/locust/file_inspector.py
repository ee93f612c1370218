"""The program that imports a Locust file and prints its content as JSON: users, tasks, weights.

    python -m experiments.load.workers.locust.file_inspector FILE

It sends nothing: the network is refused. `experiments/design/locustfile.py` starts it, with a time
limit, and has the model of its output.
"""

from __future__ import annotations

import ast
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import locust
from locust import FastHttpUser, HttpUser, SequentialTaskSet, TaskSet, User

from experiments.load.workers.locust.loaded_file import error_place, load_file
from experiments.load.workers.locust.target_guard import TargetGuard

WRITTEN_BYTES_MAX = 16 * 1024 * 1024  # by the file, into each file
_DEPTH_MAX = 8
_TASKS_MAX = 200  # of a user or TaskSet, by name
_URLS_MAX = 20
_TEXT_MAX = 500
_METHODS = {"get", "post", "put", "patch", "delete", "head", "options", "request"}


def inspect_file(path: Path) -> dict[str, object]:
    """Import a Locust file and return its content: users, shapes, URLs, or the error."""
    guard = TargetGuard()
    guard.watch()
    content: dict[str, object] = {"locust": locust.__version__}
    try:
        users, shapes = load_file(path)
    except (Exception, SystemExit) as error:
        line, text = error_place(path, error)
        text = _describe_requests(guard) or text
        return {**content, "error": {"text": text[:_TEXT_MAX], "line": line}}
    if guard.requests:
        return {**content, "error": {"text": _describe_requests(guard), "line": 0}}
    return {
        **content,
        "users": [_user(name, user) for name, user in users.items()],
        "shapes": [type(shape).__name__ for shape in shapes],
        "urls": list(_urls(path))[:_URLS_MAX],
    }


def _describe_requests(guard: TargetGuard) -> str:
    return f"requests while it is imported, to {guard.describe()}" if guard.requests else ""


def _user(name: str, user: type[User]) -> dict[str, object]:
    return {
        "name": name,
        "weight": float(user.weight),
        "fixed_count": int(user.fixed_count),
        "http": issubclass(user, HttpUser | FastHttpUser),
        "host": str(user.host)[:_TEXT_MAX] if user.host else None,
        "waits": sorted({*_waits(user, User), *_waits_of_sets(user.tasks)}),
        "tasks": _tasks(user.tasks),
    }


def _waits(kind: type, base: type) -> Iterator[str]:
    """Yield the name of the function that made the wait_time: between, constant_pacing, its own."""
    parents = (parent.__dict__ for parent in kind.__mro__ if "wait_time" in parent.__dict__)
    wait_time = kind.__dict__.get("wait_time") or next(
        (attributes["wait_time"] for attributes in parents), None
    )
    inherited = base.__dict__.get("wait_time")
    if wait_time is not None and wait_time is not inherited:
        yield str(getattr(wait_time, "__qualname__", wait_time)).split(".<locals>")[0]
    elif any(getattr(kind, key, None) for key in ("min_wait", "max_wait", "wait_function")):
        yield "min_wait"


def _waits_of_sets(tasks: Any, depth: int = 0) -> Iterator[str]:
    for task in dict.fromkeys(tasks):
        if _is_set(task) and depth < _DEPTH_MAX:
            yield from _waits(task, TaskSet)
            yield from _waits_of_sets(task.tasks, depth + 1)


def _tasks(tasks: Any, depth: int = 0) -> list[dict[str, object]]:
    """Return the tasks with their weights: Locust lists a task as often as its weight says."""
    if depth == _DEPTH_MAX:
        return []
    return [
        {
            "name": str(getattr(task, "__name__", task)),
            "weight": weight,
            "tags": sorted(map(str, getattr(task, "locust_tag_set", ()))),
            "sequential": _is_set(task) and issubclass(task, SequentialTaskSet),
            "tasks": _tasks(task.tasks, depth + 1) if _is_set(task) else [],
        }
        for task, weight in list(Counter(tasks).items())[:_TASKS_MAX]
    ]


def _is_set(task: Any) -> bool:
    return isinstance(task, type) and issubclass(task, TaskSet)


def _urls(path: Path) -> Iterator[dict[str, object]]:
    """Yield the requests whose URL names a host, as far as the source text shows it."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr not in _METHODS or not _is_client(node.func.value):
            continue
        first = 1 if node.func.attr == "request" else 0
        urls = [keyword.value for keyword in node.keywords if keyword.arg == "url"]
        urls += node.args[first : first + 1]
        url = _literal(urls[0]) if urls else ""
        if url.startswith(("http://", "https://")) and urlsplit(url).netloc:
            yield {"url": url[:_TEXT_MAX], "line": node.lineno}


def _is_client(node: ast.expr) -> bool:
    name = str(getattr(node, "attr", "") or getattr(node, "id", ""))
    return name in ("requests", "httpx") or name.endswith(("client", "session"))


def _literal(node: ast.expr) -> str:
    """Return the text that a URL begins with; empty if the host is not complete in it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp):
        return _if_host_complete(_literal(node.left))
    if isinstance(node, ast.JoinedStr) and node.values:
        first = _literal(node.values[0])
        return first if len(node.values) == 1 else _if_host_complete(first)
    return ""


def _if_host_complete(text: str) -> str:
    """Return a text that has a continuation if its path has begun, because then its host is
    complete; else "".
    """
    return text if "/" in text.partition("://")[2] else ""


def main() -> None:
    """Print the content on the standard output; prints of the file go to the standard error."""
    sys.dont_write_bytecode = True  # the folder is the user's
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN_BYTES_MAX, WRITTEN_BYTES_MAX))
    json.dump(inspect_file(Path(sys.argv[1])), answer)
    answer.flush()
    os._exit(0)  # whatever threads the file has begun


if __name__ == "__main__":
    main()
