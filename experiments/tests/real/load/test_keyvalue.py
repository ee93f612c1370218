"""Python's key-value clients against real servers, and streams that no server should send."""

from __future__ import annotations

import time

import pytest

from experiments.load.client import ByteClient
from experiments.load.protocols.memcached import MemcachedClient
from experiments.load.protocols.redis import RedisClient
from experiments.tests.stores import (
    MEMCACHED,
    MEMCACHED_DIALOGUE,
    REDIS,
    REDIS_DIALOGUE,
    client,
    started,
)


@pytest.mark.parametrize(
    ("kind", "server", "dialogue"),
    [(MemcachedClient, MEMCACHED, MEMCACHED_DIALOGUE), (RedisClient, REDIS, REDIS_DIALOGUE)],
)
def test_a_server_s_answers_have_their_outcome_and_size(
    kind: type[ByteClient],
    server: tuple[str, ...],
    dialogue: list[tuple[str, str, str, int | None]],
) -> None:
    with started(*server) as port:
        connection = client(kind, port)
        for command, check, outcome, size in dialogue:
            answer = connection.fetch(connection.request(command), check.encode(), time.monotonic())
            assert answer.outcome == outcome, command
            assert size in (None, answer.bytes), command
        connection.close()
