"""An ordinary user of a current Python client: CLIENT PORT READS.

Prints the version of the client; fails where a reply is wrong.
"""

import sys
from collections.abc import Callable
from importlib.metadata import version


def redis(port: int, reads: int) -> str:
    import redis  # type: ignore[import-not-found]

    client = redis.Redis(port=port)
    assert client.set("key", "value")
    for number in range(reads):
        assert client.get("key") == b"value"
        if number % 10 == 0:
            with client.pipeline(transaction=True) as pipe:
                assert len(pipe.incr("number").get("number").execute()) == 2
    return version("redis")


def pymysql(port: int, reads: int) -> str:
    import pymysql  # type: ignore[import-untyped]

    connection = pymysql.connect(port=port, **ACCOUNT)
    with connection.cursor() as cursor:
        for _ in range(reads):
            cursor.execute("SELECT title FROM page WHERE id = %s", (2,))
            assert cursor.fetchall() == (("Two",),)
            connection.commit()
    return version("PyMySQL")


def mysql_connector(port: int, reads: int) -> str:
    import mysql.connector  # type: ignore[import-not-found]

    connection = mysql.connector.connect(port=port, use_pure=True, ssl_disabled=True, **ACCOUNT)
    for prepared in (False, True):
        cursor = connection.cursor(prepared=prepared)
        for _ in range(reads // 2):
            cursor.execute("SELECT title FROM page WHERE id = %s", (2,))
            assert cursor.fetchall() == [("Two",)]
        connection.commit()
    return version("mysql-connector-python")


def pymemcache(port: int, reads: int) -> str:
    from pymemcache.client.base import Client  # type: ignore[import-not-found]

    client = Client(("127.0.0.1", port))
    assert client.set("key", "value", noreply=False)
    for _ in range(reads):
        assert client.get("key") == b"value"
    many = [f"key-{number:040}" for number in range(2_000)]
    assert client.get_many([*many, "key"]) == {"key": b"value"}
    return version("pymemcache")


ACCOUNT = {
    "host": "127.0.0.1",
    "user": "wiki",
    "password": "wiki-read",
    "database": "wiki",
}
CLIENTS: dict[str, Callable[[int, int], str]] = {
    "redis-py": redis,
    "PyMySQL": pymysql,
    "mysql-connector-python": mysql_connector,
    "pymemcache": pymemcache,
}

if __name__ == "__main__":
    name, at, count = sys.argv[1:]
    sys.stdout.write(CLIENTS[name](int(at), int(count)) + "\n")
