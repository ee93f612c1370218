"""Ctrl-C, SIGTERM and SIGHUP: the first one ends the measurement, none ends the clean-up.

Ctrl-C works also if the caller of the command ignores it, as scripts do for background programs;
SIGHUP does not, because `nohup` promises that.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """After `shield`, signals only call `say`; otherwise they raise KeyboardInterrupt too, at once
    or at the end of `deferred`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._is_shielded = False
        self._is_deferred = False
        self._is_pending = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Run the body to its end; a signal that comes meanwhile interrupts after it.

        A signal mask would not do: Python handles another thread's signals in this thread too.
        """
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
            if self._is_pending:
                self._is_pending = False
                raise KeyboardInterrupt

    def shield(self) -> None:
        """Let work under way finish before a signal acts, from now on."""
        self._is_shielded = True

    def handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        name = signal.Signals(number).name
        with suppress(OSError):  # the terminal may be gone, which SIGHUP tells
            self._say(f"{name}: undoing faults and cleaning up, please wait")
        if self._is_shielded:
            return
        self._is_shielded = True
        if self._is_deferred:
            self._is_pending = True
            return
        raise KeyboardInterrupt


@contextmanager
def ending_signals(say: Callable[[str], None]) -> Iterator[Signals]:
    """Install the handler, and put the old ones back."""
    signals = Signals(say)
    before = {
        number: signal.signal(number, signals.handle)
        for number in _ENDING
        if (number, signal.getsignal(number)) != (signal.SIGHUP, signal.SIG_IGN)
    }
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
