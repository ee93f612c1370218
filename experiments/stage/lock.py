"""One run at a time on a host: two fleets would be each other's noisy neighbours, unasked."""

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
    path = results / ".lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise EnvironmentMissing(
                "this host",
                expected="no other run, for they would disturb each other",
                came=_holder(file.read()),
                do="Wait for it, or end it with Ctrl-C (its fleet is then removed).",
            ) from None
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "experiment": experiment}))
        file.flush()
        yield
        file.truncate(0)


def _holder(text: str) -> str:
    try:
        holder = json.loads(text)
    except json.JSONDecodeError:
        return "another run that is active"
    return f"the active run of {holder['experiment']} (process {holder['pid']})"
