"""A tier whose arbiter follows its primary: the primary's name, and a load of writes and reads."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from machines import get

ARBITER = "198.18.241.140"
ClientT = TypeVar("ClientT", bound=threading.Thread)


def primary() -> str | None:
    stats = json.loads(get(f"http://{ARBITER}:9300/v1/stats").text)
    name: str | None = stats["primary"]["server"]
    return name


@contextmanager
def loaded(
    client: Callable[[Callable[[int], str], threading.Event], ClientT],
    write: Callable[[int], str],
    read: str,
) -> Iterator[tuple[ClientT, ClientT]]:
    """Run two clients, a writer and a reader, until the block ends; `write` is of a number."""
    stop = threading.Event()
    writer, reader = client(write, stop), client(lambda _: read, stop)
    for thread in (writer, reader):
        thread.start()
    try:
        yield writer, reader
    finally:
        stop.set()
        for thread in (writer, reader):
            thread.join()
