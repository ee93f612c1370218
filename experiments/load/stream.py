"""Lines and blocks of a text protocol, and the values that key-value loads write."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.load.client import REPLY_BYTES_MAX, Cut, Garbled

_LINE_BYTES_MAX = 64 * 1024


class Stream:
    """Lines and blocks out of the pieces as they come."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._data = bytearray()
        self.bytes_taken = 0

    def line(self) -> bytes:
        """Read up to the next CR LF, and return the line without it."""
        while (end := self._data.find(b"\r\n")) < 0:
            if len(self._data) > _LINE_BYTES_MAX:
                raise Garbled
            self._receive()
        return self._take(end, 2)

    def block(self, size: int) -> bytes:
        """Read `size` bytes and the CR LF after them; return the bytes."""
        if self.bytes_taken + size > REPLY_BYTES_MAX:
            raise Garbled
        while len(self._data) < size + 2:
            self._receive()
        if self._data[size : size + 2] != b"\r\n":
            raise Garbled
        return self._take(size, 2)

    @property
    def is_empty(self) -> bool:
        """True if all received bytes have been taken."""
        return not self._data

    def _receive(self) -> None:
        data = next(self._pieces)
        if not data:
            raise Cut
        self._data += data

    def _take(self, size: int, after: int) -> bytes:
        data = bytes(self._data[:size])
        del self._data[: size + after]
        self.bytes_taken += size + after
        return data


def size_in(text: bytes) -> int:
    """Return a size that a server stated; -1 means that there is no value."""
    try:
        number = int(text)
    except ValueError as error:
        raise Garbled from error
    if number > REPLY_BYTES_MAX or number < -1:
        raise Garbled
    return number


def value_of(key: str, size: int) -> bytes:
    """Return the value of a write: the key again and again, with spaces between, up to the size."""
    return (f"{key} " * (size // (len(key) + 1) + 1))[:size].encode()
