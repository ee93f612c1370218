"""Programs that are started, what they are started with, and what is waited for."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIMIT_S = 120.0
_POLL_S = 0.02
_HELD: list[socket.socket] = []


def free_port() -> int:
    """A port of loopback that nobody else is given: it stays bound here, and a server that sets
    SO_REUSEADDR, as servers do, listens there all the same."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    _HELD.append(held)
    return int(held.getsockname()[1])


def until(what: str, condition: Callable[[], object]) -> None:
    """Wait for something, for two minutes at most."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {LIMIT_S:g} s"
        time.sleep(_POLL_S)


def told(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """The log's text in the group of `pattern`, once it is there."""
    found: re.Match[str] | None = None

    def is_told() -> bool:
        nonlocal found
        found = re.search(pattern, log.read_text())
        assert found or process.poll() is None, log.read_text()
        return found is not None

    until(f"{pattern!r} in {log}", is_told)
    assert found is not None
    return found.group(1)


def until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a program listens at the port."""
    with socket.socket() as probe:

        def is_listening() -> bool:
            assert process.poll() is None, f"{process.args!r} ended"
            return probe.connect_ex(("127.0.0.1", port)) == 0

        until(f"{process.args!r} that listens", is_listening)


@contextmanager
def disposition(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Set a signal's handler; one that is ignored is ignored in programs started meanwhile too."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
