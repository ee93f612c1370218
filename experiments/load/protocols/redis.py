"""Redis (RESP2): any command with one reply that is no subscription.

A request is a command with spaces between: `HGETALL entry:000017`, `HSET entry:000017 field3 100`;
a write's last word is the size of its value, which begins with the key. Checks are as in
`memcached.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.load.client import ByteClient, Garbled, Reply
from experiments.load.stream import Stream, size_in, value_of


class RedisClient(ByteClient):
    """Commands of two words, or of four with a field and the size of its value."""

    def request(self, text: str) -> bytes:
        """Return the command `text` as an array of bulk strings."""
        command, key, *rest = text.split(" ")
        arguments = [command.encode(), key.encode()]
        if rest:
            field, size = rest
            arguments += [field.encode(), value_of(key, int(size))]
        strings = b"".join(b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in arguments)
        return b"*%d\r\n" % len(arguments) + strings

    def read_reply(self, pieces: Iterator[bytes], expected: bytes, reply: Reply) -> None:
        stream = Stream(pieces)
        first = stream.line()
        content = _read_value(stream, first, depth=0)
        reply.bytes, reply.keep = len(content), stream.is_empty
        if first.startswith(b"-"):
            reply.outcome = "bad_status"
        elif expected not in content:
            reply.outcome = "bad_content"


def _read_value(stream: Stream, line: bytes, depth: int) -> bytes:
    kind, rest = line[:1], line[1:]
    if kind in (b"+", b"-", b":"):
        return rest
    if kind == b"$":
        size = size_in(rest)
        return b"" if size < 0 else stream.block(size)
    if kind == b"*" and depth < 4:
        count = size_in(rest)
        return b"".join(_read_value(stream, stream.line(), depth + 1) for _ in range(count))
    raise Garbled


CLIENT = RedisClient
