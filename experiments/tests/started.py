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


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def free_port() -> int:
    """Return a port of loopback that no other process is given: it stays bound here.

    A server that sets SO_REUSEADDR, as servers do, can listen there all the same.
    """
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    _HELD.append(bound)
    return int(bound.getsockname()[1])


def until(label: str, condition: Callable[[], object]) -> None:
    """Wait until a condition holds, for two minutes at most."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"no {label} within {LIMIT_S:g} s"
        time.sleep(_POLL_S)


def told(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """Wait until the log matches `pattern`; return the text of its group."""
    match: re.Match[str] | None = None

    def is_told() -> bool:
        nonlocal match
        match = re.search(pattern, log.read_text())
        assert match or process.poll() is None, log.read_text()
        return match is not None

    until(f"{pattern!r} in {log}", is_told)
    assert match is not None
    return match.group(1)


def until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    with socket.socket() as probe:

        def is_listening() -> bool:
            assert process.poll() is None, f"{process.args!r} ended"
            return probe.connect_ex(("127.0.0.1", port)) == 0

        until(f"{process.args!r} that listens", is_listening)


@contextmanager
def disposition(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Set a signal's handler in the block; programs started in it inherit an ignored signal."""
    old_handler = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, old_handler)
