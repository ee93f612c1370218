"""The key-value clients against real servers, and against streams that no server should send."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.load.client import ByteClient, Cut, Garbled, Reply
from experiments.load.protocols.memcached import MemcachedClient
from experiments.load.protocols.redis import RedisClient
from experiments.tests.load_fixture import free_port


def client(kind: type[ByteClient], port: int = 0) -> ByteClient:
    return kind(
        ("127.0.0.1", port),
        connect_timeout_s=2.0,
        response_timeout_s=2.0,
        clock=time.monotonic,
    )


def started(command: list[str], port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.05)
    process.kill()
    raise AssertionError(f"expected {command[0]} to listen within 15 s")


@pytest.fixture
def memcached() -> Iterator[int]:
    port = free_port()
    program = shutil.which("memcached")
    assert program, "memcached is missing: run `make setup`"
    command = [program, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-u", "nobody"]
    process = started(command, port)
    yield port
    process.kill()
    process.wait()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[int]:
    port = free_port()
    program = shutil.which("redis-server")
    assert program, "redis-server is missing: run `make setup`"
    command = [program, "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    process = started(command, port)
    yield port
    process.kill()
    process.wait()


@pytest.mark.real
def test_memcached_gets_what_was_set_and_a_miss_is_no_answer(memcached: int) -> None:
    one = client(MemcachedClient, memcached)

    def ask(command: str, wanted: str) -> tuple[str, int]:
        answer = one.fetch(one.request(command), wanted.encode(), time.monotonic())
        return answer.outcome, answer.bytes

    assert ask("get entry:000001", "entry:000001") == ("bad_content", 0)
    assert ask("set entry:000001 1000", "STORED") == ("ok", 0)
    assert ask("get entry:000001", "entry:000001") == ("ok", 1000)
    assert ask("get entry:000001", "entry:000002") == ("bad_content", 1000)
    assert ask("set entry:000001 2000000", "STORED")[0] == "bad_status", "too large an item"
    one.close()


@pytest.mark.real
def test_redis_reads_a_record_and_updates_a_field(redis: int) -> None:
    one = client(RedisClient, redis)

    def ask(command: str, wanted: str) -> tuple[str, int]:
        answer = one.fetch(one.request(command), wanted.encode(), time.monotonic())
        return answer.outcome, answer.bytes

    assert ask("HGETALL entry:000001", "entry:000001") == ("bad_content", 0)
    assert ask("HSET entry:000001 field0 100", "1") == ("ok", 1)
    assert ask("HSET entry:000001 field0 100", "0") == ("ok", 1)
    assert ask("HGETALL entry:000001", "entry:000001") == ("ok", 106)
    assert ask("LPUSH entry:000001 field0 5", "0")[0] == "bad_status", "the wrong type"
    one.close()


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
