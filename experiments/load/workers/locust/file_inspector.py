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


def found_in(path: Path) -> dict[str, object]:
    """Return all that is found in a Locust file, which is imported for it."""
    guard = TargetGuard()
    guard.watch()
    said: dict[str, object] = {"locust": locust.__version__}
    try:
        users, shapes = load_file(path)
    except (Exception, SystemExit) as error:
        line, text = error_place(path, error)
        text = _asked_words(guard) or text
        return {**said, "error": {"text": text[:_TEXT_MAX], "line": line}}
    if guard.asked:
        return {**said, "error": {"text": _asked_words(guard), "line": 0}}
    return {
        **said,
        "users": [_user(name, one) for name, one in users.items()],
        "shapes": [type(one).__name__ for one in shapes],
        "urls": list(_urls(path))[:_URLS_MAX],
    }


def _asked_words(guard: TargetGuard) -> str:
    return f"requests while it is imported, to {guard.words()}" if guard.asked else ""


def _user(name: str, one: type[User]) -> dict[str, object]:
    return {
        "name": name,
        "weight": float(one.weight),
        "fixed_count": int(one.fixed_count),
        "http": issubclass(one, HttpUser | FastHttpUser),
        "host": str(one.host)[:_TEXT_MAX] if one.host else None,
        "waits": sorted({*_waits(one, User), *_waits_of_sets(one.tasks)}),
        "tasks": _tasks(one.tasks),
    }


def _waits(one: type, base: type) -> Iterator[str]:
    """Yield the name of the function that made its wait_time: between, constant_pacing, its own."""
    made = one.__dict__.get("wait_time") or next(
        (kind.__dict__["wait_time"] for kind in one.__mro__ if "wait_time" in kind.__dict__), None
    )
    inherited = base.__dict__.get("wait_time")
    if made is not None and made is not inherited:
        yield str(getattr(made, "__qualname__", made)).split(".<locals>")[0]
    elif any(getattr(one, key, None) for key in ("min_wait", "max_wait", "wait_function")):
        yield "min_wait"


def _waits_of_sets(tasks: Any, depth: int = 0) -> Iterator[str]:
    for task in dict.fromkeys(tasks):
        if _is_set(task) and depth < _DEPTH_MAX:
            yield from _waits(task, TaskSet)
            yield from _waits_of_sets(task.tasks, depth + 1)


def _tasks(tasks: Any, depth: int = 0) -> list[dict[str, object]]:
    """Tasks with their weights: Locust keeps a task as often as its weight says."""
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
    """Requests whose URL names a host, as far as the text shows it."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr not in _METHODS or not _is_client(node.func.value):
            continue
        first = 1 if node.func.attr == "request" else 0
        given = [word.value for word in node.keywords if word.arg == "url"]
        given += node.args[first : first + 1]
        url = _literal(given[0]) if given else ""
        if url.startswith(("http://", "https://")) and urlsplit(url).netloc:
            yield {"url": url[:_TEXT_MAX], "line": node.lineno}


def _is_client(node: ast.expr) -> bool:
    name = str(getattr(node, "attr", "") or getattr(node, "id", ""))
    return name in ("requests", "httpx") or name.endswith(("client", "session"))


def _literal(node: ast.expr) -> str:
    """Return the text that a URL begins with; empty if its host is not in it whole."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp):
        return _begun(_literal(node.left))
    if isinstance(node, ast.JoinedStr) and node.values:
        first = _literal(node.values[0])
        return first if len(node.values) == 1 else _begun(first)
    return ""


def _begun(text: str) -> str:
    """Return the text of which more follows: its host is whole where its path has begun."""
    return text if "/" in text.partition("://")[2] else ""


def main() -> None:
    """Say it on the standard output; what the file prints goes to the standard error."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN_BYTES_MAX, WRITTEN_BYTES_MAX))
    json.dump(found_in(Path(sys.argv[1])), answer)
    answer.flush()
    os._exit(0)  # whatever threads the file has begun


if __name__ == "__main__":
    main()
