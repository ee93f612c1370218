"""memcached's text protocol: one command, one reply.

A request is a command with spaces between: `get entry:000017`, `set entry:000017 1000`; a write's
last word is the size of its value, which begins with the key. A record begins with its key
(`infra/roles/records.py`), so a reply to another request is `bad_content`, as is a miss. An error
of the server is `bad_status`.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.load.client import ByteClient, Garbled, Reply
from experiments.load.stream import Stream, size_in, value_of


class MemcachedClient(ByteClient):
    """Gets and sets of the text protocol."""

    def request(self, text: str) -> bytes:
        """Return the command `text`, in the protocol's form."""
        command, key, *size = text.split(" ")
        if not size:
            return f"{command} {key}\r\n".encode()
        value = value_of(key, int(size[0]))
        return f"{command} {key} 0 0 {len(value)}\r\n".encode() + value + b"\r\n"

    def read_reply(self, pieces: Iterator[bytes], expected: bytes, reply: Reply) -> None:
        stream = Stream(pieces)
        content = b""
        line = stream.line()
        while line.startswith(b"VALUE "):
            fields = line.split(b" ")
            content += stream.block(size_in(fields[3] if len(fields) > 3 else b""))
            line = stream.line()
        reply.bytes, reply.keep = len(content), stream.is_empty
        if line.startswith((b"SERVER_ERROR", b"CLIENT_ERROR", b"ERROR")):
            reply.outcome = "bad_status"
        elif line not in (b"END", b"STORED", b"NOT_STORED"):
            raise Garbled
        elif expected not in (content or line):
            reply.outcome = "bad_content"


CLIENT = MemcachedClient
