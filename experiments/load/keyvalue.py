"""Requests to memcached (text protocol) and Redis (RESP2): one command, one reply.

A plan names a request by its command, words with spaces between: `get entry:000017`,
`set entry:000017 1000`, `HGETALL entry:000017`, `HSET entry:000017 field3 100`; a write's last word
is the size of its value, which begins with the key. A record begins with its key
(`infra/roles/records.py`), so that a reply which belongs to another request is `bad_content`; so is
a miss. An error of the server is `bad_status`.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.load.client import REPLY_BYTES_MAX, Client, Cut, Garbled, Reply
from experiments.load.users import TITLES

_LINE_BYTES_MAX = 64 * 1024
_WORDS = " ".join(TITLES.read_text(encoding="utf-8").split()[:200])


class _Stream:
    """Lines and blocks out of the pieces as they come."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._data = bytearray()
        self.taken = 0

    def line(self) -> bytes:
        """Up to the next CR LF, which is not part of it."""
        while (end := self._data.find(b"\r\n")) < 0:
            if len(self._data) > _LINE_BYTES_MAX:
                raise Garbled
            self._more()
        return self._take(end, 2)

    def block(self, size: int) -> bytes:
        """So many bytes, and the CR LF after them."""
        if self.taken + size > REPLY_BYTES_MAX:
            raise Garbled
        while len(self._data) < size + 2:
            self._more()
        if self._data[size : size + 2] != b"\r\n":
            raise Garbled
        return self._take(size, 2)

    @property
    def is_empty(self) -> bool:
        """Nothing has come beyond what was taken."""
        return not self._data

    def _more(self) -> None:
        data = next(self._pieces)
        if not data:
            raise Cut
        self._data += data

    def _take(self, size: int, after: int) -> bytes:
        found = bytes(self._data[:size])
        del self._data[: size + after]
        self.taken += size + after
        return found


class MemcachedClient(Client):
    """Gets and sets of the text protocol."""

    def request(self, text: str) -> bytes:
        """The command `text`, in the protocol's form."""
        command, key, *size = text.split(" ")
        if not size:
            return f"{command} {key}\r\n".encode()
        value = _value_of(key, int(size[0]))
        return f"{command} {key} 0 0 {len(value)}\r\n".encode() + value + b"\r\n"

    def _read(self, pieces: Iterator[bytes], wanted: bytes, reply: Reply) -> None:
        stream = _Stream(pieces)
        content = b""
        line = stream.line()
        while line.startswith(b"VALUE "):
            fields = line.split(b" ")
            content += stream.block(_number(fields[3] if len(fields) > 3 else b""))
            line = stream.line()
        reply.bytes, reply.keep = len(content), stream.is_empty
        if line.startswith((b"SERVER_ERROR", b"CLIENT_ERROR", b"ERROR")):
            reply.outcome = "bad_status"
        elif line not in (b"END", b"STORED", b"NOT_STORED"):
            raise Garbled
        elif wanted not in (content or line):
            reply.outcome = "bad_content"


class RedisClient(Client):
    """Any command with one reply that is no subscription."""

    def request(self, text: str) -> bytes:
        """The command `text` as an array of bulk strings."""
        command, key, *rest = text.split(" ")
        words = [command.encode(), key.encode()]
        if rest:
            field, size = rest
            words += [field.encode(), _value_of(key, int(size))]
        parts = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        return b"*%d\r\n" % len(words) + parts

    def _read(self, pieces: Iterator[bytes], wanted: bytes, reply: Reply) -> None:
        stream = _Stream(pieces)
        first = stream.line()
        content = _value(stream, first, depth=0)
        reply.bytes, reply.keep = len(content), stream.is_empty
        if first.startswith(b"-"):
            reply.outcome = "bad_status"
        elif wanted not in content:
            reply.outcome = "bad_content"


def _value_of(key: str, size: int) -> bytes:
    """What a write stores: the key, and words of the dictionary up to the size."""
    text = key
    while len(text) < size:
        text += f" {_WORDS}"
    return text[:size].encode()


def _value(stream: _Stream, line: bytes, depth: int) -> bytes:
    kind, rest = line[:1], line[1:]
    if kind in (b"+", b"-", b":"):
        return rest
    if kind == b"$":
        size = _number(rest)
        return b"" if size < 0 else stream.block(size)
    if kind == b"*" and depth < 4:
        count = _number(rest)
        return b"".join(_value(stream, stream.line(), depth + 1) for _ in range(count))
    raise Garbled


def _number(text: bytes) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise Garbled from error
    if number > REPLY_BYTES_MAX or number < -1:
        raise Garbled
    return number
