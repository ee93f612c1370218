"""Common tasks of the load generator's processes: settling, priority, CPU time."""

from __future__ import annotations

import gc
import json
import os
import socket
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NoReturn

import gevent

from core.json_object import JsonObject

_SAMPLE_EVERY_S = 1.0


def settle() -> str:
    """Prepare the process to send on time. Returns its priority.

    Garbage collection is off, because it is a pause, and the garbage of a block fits in memory.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    return _raise_priority()


def _raise_priority() -> str:
    """Ask for the processor before everyone else: a late generator measures itself.

    Every thread is raised, or one of low priority could be kept from giving the interpreter back.
    """
    try:
        for thread in os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(1))
        return "SCHED_RR 1"
    except OSError:
        pass
    try:
        return f"nice {os.nice(-10)}"
    except OSError:
        return "nice 0"


class CpuUse:
    """Shares of one core that all threads of this process took since this object was made."""

    def __init__(self) -> None:
        self._marks = [(time.monotonic(), time.process_time())]

    def sample_forever(self) -> NoReturn:
        """Run as a greenlet: add a mark each second."""
        while True:
            gevent.sleep(_SAMPLE_EVERY_S)
            self._marks.append((time.monotonic(), time.process_time()))

    def values(self) -> dict[str, float]:
        """Return the mean until now, and the maximum of any second."""
        marks = [*self._marks, (time.monotonic(), time.process_time())]
        shares = [
            (cpu_s - cpu_before_s) / (at_s - before_s)
            for (before_s, cpu_before_s), (at_s, cpu_s) in pairwise(marks)
            if at_s - before_s >= _SAMPLE_EVERY_S / 2
        ]
        (begin_s, cpu_begin_s), (end_s, cpu_end_s) = marks[0], marks[-1]
        mean = (cpu_end_s - cpu_begin_s) / max(end_s - begin_s, 1e-9)
        return {"cpu_share": round(mean, 4), "cpu_share_max": round(max([mean, *shares]), 4)}


class Control:
    """Lines of JSON between the runner and the generator; its end means that the runner is gone."""

    def __init__(self, number: int) -> None:
        self._socket = socket.socket(fileno=number) if number >= 0 else None
        self._lines = self._socket.makefile("r") if self._socket else None

    def say(self, **message: Any) -> None:
        """Send a message to the runner; `hear` notices if it is gone."""
        if self._socket:
            try:
                self._socket.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                self._socket = None

    def hear(self) -> JsonObject | None:
        """Return the next message, or None when the runner is gone."""
        assert self._lines is not None
        try:
            line = self._lines.readline()
        except OSError:
            return None
        return dict(json.loads(line)) if line else None

    def await_end(self, then: Callable[[], None]) -> None:
        """Run as a greenlet: call `then` when the runner is gone."""
        while self.hear() is not None:
            pass
        then()

    @property
    def attached(self) -> bool:
        """True when a runner started this process."""
        return self._lines is not None
