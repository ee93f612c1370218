"""A file that one process holds at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import EnvironmentMissing


@contextmanager
def exclusive_lock(path: Path, doing: str, expected: str, hint: str) -> Iterator[None]:
    """Hold the lock file `path`; the kernel releases it however the holder ends. Raises
    EnvironmentMissing, which says what its holder does, with the texts `expected` and `hint`.
    """
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise EnvironmentMissing(
                "this host", expected=expected, got=_holder(file.read()), hint=hint
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
