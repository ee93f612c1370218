"""Python's key-value clients against real servers, and streams that no server should send."""

from __future__ import annotations

import time

import pytest

from experiments.load.client import ByteClient, Cut, Garbled, Reply
from experiments.load.protocols.memcached import MemcachedClient
from experiments.load.protocols.redis import RedisClient


def client(kind: type[ByteClient], port: int = 0) -> ByteClient:
    return kind(
        ("127.0.0.1", port), connect_timeout_s=30.0, response_timeout_s=30.0, clock=time.monotonic
    )


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (MemcachedClient, b"VALUE k 0 3\r\nabc\r\nEND\r\n", "ok"),
        (MemcachedClient, b"END\r\n", "bad_content"),
        (MemcachedClient, b"SERVER_ERROR out of memory\r\n", "bad_status"),
        (MemcachedClient, b"VALUE k 0 x\r\nabc\r\nEND\r\n", Garbled),
        (MemcachedClient, b"VALUE k 0 3\r\nabcd\r\nEND\r\n", Garbled),
        (MemcachedClient, b"VALUE k 0 99999999999\r\n", Garbled),
        (MemcachedClient, b"hello\r\n", Garbled),
        (MemcachedClient, b"VALUE k 0 3\r\nab", Cut),
        (MemcachedClient, b"x" * 70_000, Garbled),
        (RedisClient, b"$3\r\nabc\r\n", "ok"),
        (RedisClient, b"*2\r\n$1\r\nk\r\n$3\r\nabc\r\n", "ok"),
        (RedisClient, b"$-1\r\n", "bad_content"),
        (RedisClient, b"-ERR no\r\n", "bad_status"),
        (RedisClient, b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+abc\r\n", Garbled),
        (RedisClient, b"!3\r\nabc\r\n", Garbled),
        (RedisClient, b"$3\r\nabcd\r\n", Garbled),
        (RedisClient, b"*2\r\n$3\r\nabc\r\n", Cut),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 100_000])
def test_a_reply_in_any_pieces(
    kind: type[ByteClient], data: bytes, expected: str | type[Exception], size: int
) -> None:
    pieces = iter([*(data[at : at + size] for at in range(0, len(data), size)), b""])
    reply = Reply()
    if isinstance(expected, str):
        client(kind).read_reply(pieces, b"abc", reply)
        assert reply.outcome == expected
        assert reply.keep
    else:
        with pytest.raises(expected):
            client(kind).read_reply(pieces, b"abc", reply)
