#!/usr/bin/env python3
"""Checked requests of a current Python client until standard input ends: CLIENT PORT.

Writes a line for each reply: `right`, `error CAUSE` or `wrong DESCRIPTION`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import closing
from hashlib import md5
from typing import Any

ACTS = 50  # of a session; those after the first 40 write
READS = 40
PAUSE_S = 0.1
RETRY_S = 0.5
ROWS = 999  # shares no divisor with ACTS, so that rows that were written are read later
ACCOUNT: dict[str, Any] = {
    "host": "127.0.0.1",
    "user": "wiki",
    "password": "wiki-read",
    "database": "wiki",
}


def write_line(line: str) -> None:
    sys.stdout.write(" ".join(line.split()) + "\n")
    sys.stdout.flush()


def text(name: str, number: int) -> str:
    """Return the text that belongs to a name and a number."""
    key = f"{name}={number}"
    digest = md5(key.encode(), usedforsecurity=False).hexdigest()
    return f"{key}=" + digest * (1 + number % 64)


def check(request: str, reply: object, *expected: object) -> None:
    write_line("right" if reply in expected else f"wrong {request}: {reply!r:.200}")


class RedisPy:
    """A client that goes on after an error."""

    lasts = True

    def __init__(self, port: int) -> None:
        import redis  # type: ignore[import-not-found]

        self._client = redis.Redis(port=port, decode_responses=True)

    def read(self, number: int) -> None:
        value = self._client.get(f"redis-py:{number}")
        check("GET", value, text("redis-py", number), None)

    def write(self, number: int) -> None:
        row = number % ROWS
        check("SET", self._client.set(f"redis-py:{row}", text("redis-py", row)), True)
        with self._client.pipeline(transaction=True) as pipe:
            replies = pipe.set("redis-py", text("write", number)).get("redis-py").execute()
        check("EXEC", replies, [True, text("write", number)])

    def close(self) -> None:
        self._client.close()

    @staticmethod
    def cause(error: Exception) -> str:
        from redis import exceptions

        match error:
            case exceptions.ConnectionError() | exceptions.TimeoutError():
                return f"connection: {type(error).__name__}"
            case exceptions.MasterDownError():
                return f"MASTERDOWN {error}"
            case _:
                return str(error)


class PyMySQL:
    """A connection that is closed after an error."""

    lasts = False

    def __init__(self, port: int) -> None:
        import pymysql  # type: ignore[import-untyped]

        self._connection = pymysql.connect(port=port, autocommit=True, **ACCOUNT)

    def _first(self, query: str, *arguments: object) -> str | None:
        with self._connection.cursor() as cursor:
            cursor.execute(query, arguments)
            row: tuple[str] | None = cursor.fetchone()
        return row and row[0]

    def read(self, number: int) -> None:
        page = self._first("SELECT text FROM article WHERE id = %s", number)
        check("SELECT", page, text("article", number))

    def write(self, number: int) -> None:
        query = "SELECT text FROM proposal WHERE client = %s AND id = %s"
        row = ("PyMySQL", number, text("PyMySQL", number))
        self._connection.begin()
        with self._connection.cursor() as cursor:
            check("INSERT", cursor.execute("INSERT INTO proposal VALUES (%s, %s, %s)", row), 1)
        check("SELECT after INSERT", self._first(query, *row[:2]), row[2])
        self._connection.rollback()
        check("SELECT after ROLLBACK", self._first(query, *row[:2]), None)

    def close(self) -> None:
        if self._connection.open:
            self._connection.close()

    @staticmethod
    def cause(error: Exception) -> str:
        code = error.args[0] if error.args else None
        if not isinstance(code, int):
            return f"{type(error).__name__}: {error}"
        # The client's own codes begin with 2000; that of a connection that it has closed is 0.
        return f"MySQL error {code}" if 1000 <= code < 2000 else f"connection: {code}"


CLIENTS: dict[str, type[RedisPy | PyMySQL]] = {"redis-py": RedisPy, "PyMySQL": PyMySQL}


def session(client: type[RedisPy | PyMySQL], port: int, first: int) -> None:
    """Let a client act until its session is over, from this number on."""
    try:
        with closing(client(port)) as connection:
            for number in range(first, first + ACTS):
                time.sleep(PAUSE_S)
                try:
                    if number - first < READS:
                        connection.read(number % ROWS)
                    else:
                        connection.write(number)
                except Exception as error:
                    if not client.lasts:
                        raise
                    write_line(f"error {client.cause(error)}")
                    time.sleep(RETRY_S)
    except Exception as error:
        write_line(f"error {client.cause(error)}")
        time.sleep(RETRY_S)


def end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    name, at = sys.argv[1:]
    threading.Thread(target=end_with_input, daemon=True).start()
    for first in range(0, sys.maxsize, ACTS):
        session(CLIENTS[name], int(at), first)
