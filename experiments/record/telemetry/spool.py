"""A file of points that InfluxDB has not accepted yet, first in first out.

The file has plain line protocol. It stays until all of it is delivered. After a crash the next
writer delivers it again from its start, which does no harm, because a point with the same series
and time overwrites itself.
"""

from __future__ import annotations

import os
from pathlib import Path


class Spool:
    """A bounded file of lines with a reading position. Used by one thread."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._position = 0
        content = path.read_bytes() if path.exists() else b""
        self._size = content.rfind(b"\n") + 1
        self.lines = content.count(b"\n")
        if self._size < len(content):  # a crash cut the last line
            os.truncate(path, self._size)

    def append(self, lines: list[bytes]) -> None:
        """Add lines at the end. Raises OSError when the file is full or the disk is."""
        data = b"".join(line + b"\n" for line in lines)
        if self._size + len(data) > self._bytes_max:
            raise OSError(f"the spool's limit of {self._bytes_max} bytes is reached")
        with self.path.open("ab", buffering=0) as file:
            try:
                written = 0
                while written < len(data):
                    written += file.write(data[written:])
            except OSError:
                file.truncate(self._size)
                raise
        self._size += len(data)
        self.lines += len(lines)

    def head(self, lines_max: int) -> list[bytes]:
        """Return the oldest lines; they stay until `advance`."""
        result: list[bytes] = []
        if not self.lines:
            return result
        with self.path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n") or len(result) == lines_max:
                    break
                result.append(line[:-1])
        return result

    def advance(self, lines: list[bytes]) -> None:
        """Forget the oldest lines, which `head` gave; an empty spool has no file."""
        self._position += sum(len(line) + 1 for line in lines)
        self.lines -= len(lines)
        if self.lines == 0:
            self.path.unlink(missing_ok=True)
            self._position = 0
            self._size = 0
