"""One run, and one night, at a time: two fleets would be each other's noisy neighbours, unasked."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.errors import EnvironmentMissing


@contextmanager
def run_lock(results: Path, experiment: str) -> Iterator[None]:
    """Hold `results/.lock`; the kernel releases it however the holder ends.

    Raises EnvironmentMissing at once, with the holder's process id, when another run holds it.
    """
    results.mkdir(parents=True, exist_ok=True)
    expected = "no other run, for they would disturb each other"
    do = "Wait for it, or end it with Ctrl-C (its fleet is then removed)."
    with only_one(results / ".lock", f"run of {experiment}", expected, do):
        yield


@contextmanager
def only_one(path: Path, doing: str, expected: str, do: str) -> Iterator[None]:
    """Hold the lock file `path`. Raises EnvironmentMissing, which says what its holder does, with
    what was `expected` and what to `do`."""
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise EnvironmentMissing(
                "this host", expected=expected, came=_holder(file.read()), do=do
            ) from None
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "doing": doing}))
        file.flush()
        yield
        file.truncate(0)


def _holder(text: str) -> str:
    try:
        holder = json.loads(text)
        return f"the active {holder['doing']} (process {holder['pid']})"
    except (json.JSONDecodeError, KeyError):  # just begun, or of another version
        return "another one that is active"
