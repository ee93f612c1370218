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
    """While `shielded`, signals only call `said`; otherwise they raise KeyboardInterrupt too, at
    once or where `held` ends."""

    def __init__(self, said: Callable[[str], None]) -> None:
        self._said = said
        self._shielded = False
        self._held = False
        self._came = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Run the body whole: a signal that comes meanwhile interrupts behind it.

        The process's mask would not do: what another thread is given is handled in this one too.
        """
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._came:
                self._came = False
                raise KeyboardInterrupt

    def shield(self) -> None:
        """Let work under way finish before a signal acts, from now on."""
        self._shielded = True

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler of all of them."""
        del frame
        name = signal.Signals(number).name
        with suppress(OSError):  # the terminal may be gone, which SIGHUP tells
            self._said(f"{name}: undoing faults and cleaning up, please wait")
        if self._shielded:
            return
        self._shielded = True
        if self._held:
            self._came = True
            return
        raise KeyboardInterrupt


@contextmanager
def ending_signals(said: Callable[[str], None]) -> Iterator[Signals]:
    """Install the handler, and put the old ones back."""
    signals = Signals(said)
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
