"""The file by which a program is told what to flip, and tells what it flipped (runtime/flips.c)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_FORM = struct.Struct("<qQIIQQqIIIIII64s24s")
COUNT = -1  # as `at`: nothing is flipped, results are counted
STREAMS = ("master", "shadow", "check")


@dataclass(frozen=True)
class Asked:
    """What to flip: the result with number `at` of the run, the bits by `draw`; and limits."""

    at: int
    draw: int
    bits: int
    cpu_s: int
    memory_bytes: int
    output_bytes: int

    def write(self, path: Path) -> None:
        """Anew."""
        limits = (self.cpu_s, self.memory_bytes, self.output_bytes)
        told = (0, 0, 0, 0, 0, 0, 0, b"", b"")
        path.write_bytes(_FORM.pack(self.at, self.draw, self.bits, *limits, *told))


@dataclass(frozen=True)
class Told:
    """What the program did."""

    counted: int  # results, where none was flipped
    fired: bool
    corrected: int  # transactions that were tried again after a difference
    bit: int
    line: int
    stream: str
    width: int  # of the result [bit]
    function: str
    opcode: str


def read(path: Path) -> Told:
    """What stands in the file after the program's end."""
    values = _FORM.unpack(path.read_bytes())
    counted, fired, corrected, bit, line, stream, width = values[6:13]
    function, opcode = (text.split(b"\0")[0].decode("utf-8", "replace") for text in values[13:])
    name = STREAMS[stream] if stream < len(STREAMS) else "unknown"
    return Told(counted, bool(fired), corrected, bit, line, name, width, function, opcode)
