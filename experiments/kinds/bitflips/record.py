"""The file that tells a program what to flip, and that reports the flip (runtime/flips.c)."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_FORM = struct.Struct("<qQIIQQqIIIIII64s24s")
COUNT = -1  # as `at`: nothing is flipped, results are counted
_PAGE = 4096  # of a service's file the second page is its counter (runtime/flips.c)
_COUNTER = struct.Struct("<qq")
_NEVER = 2**63 - 1
STREAMS = ("master", "shadow", "check")


@dataclass(frozen=True)
class FlipOrder:
    """The flip: the result with number `at` of the run, the bits by `draw`; and limits."""

    at: int
    draw: int
    bits: int
    cpu_s: int
    memory_bytes: int
    output_bytes: int

    def write(self, path: Path, *, counter: bool = False) -> None:
        """Write a new file; `counter`: add the page of a service's counter, set to flip nothing."""
        limits = (self.cpu_s, self.memory_bytes, self.output_bytes)
        empty_report = (0, 0, 0, 0, 0, 0, 0, b"", b"")
        page = _FORM.pack(self.at, self.draw, self.bits, *limits, *empty_report)
        if counter:
            page = page.ljust(_PAGE, b"\0") + _COUNTER.pack(_NEVER, 0).ljust(_PAGE, b"\0")
        path.write_bytes(page)


@dataclass(frozen=True)
class FlipReport:
    counted: int  # results, if none was flipped
    fired: bool
    corrected: int  # transactions that were tried again after a difference
    bit: int
    line: int
    stream: str
    width: int  # of the result [bit]
    function: str
    opcode: str


def read(path: Path) -> FlipReport:
    """Return the content of the file after the program's end."""
    values = _FORM.unpack_from(path.read_bytes())
    counted, fired, corrected, bit, line, stream, width = values[6:13]
    function, opcode = (text.split(b"\0")[0].decode("utf-8", "replace") for text in values[13:])
    name = STREAMS[stream] if stream < len(STREAMS) else "unknown"
    return FlipReport(counted, bool(fired), corrected, bit, line, name, width, function, opcode)


class Counter:
    """Countdown of a service's results, from the begin of the load, at which its clock stops."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    def begin(self, at: int) -> None:
        """Flip the result `at`, counted from now; COUNT: flip none."""
        _COUNTER.pack_into(self._page, _PAGE, _NEVER if at == COUNT else at, 1)

    def end(self) -> int:
        """Stop flipping, and let the clock go. Returns the count of results if none was flipped."""
        remaining, _ = _COUNTER.unpack_from(self._page, _PAGE)
        _COUNTER.pack_into(self._page, _PAGE, _NEVER, 0)
        return int(_NEVER - remaining)


@contextmanager
def counter(path: Path) -> Iterator[Counter]:
    """Open the counter of a file that `FlipOrder.write` wrote with a counter."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 2 * _PAGE) as page:
        yield Counter(page)
