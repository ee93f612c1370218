"""Real servers of the protocols that load speaks, and what they answer to whom."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.load.client import ByteClient
from experiments.tests.started import free_port, until_listening

MEMCACHED = ("memcached", "-l", "127.0.0.1", "-p", "{port}", "-U", "0", "-u", "nobody")
REDIS = ("redis-server", "--port", "{port}", "--save", "")

# Requests one after the other: what is asked, what the answer must contain, outcome and bytes.
Dialogue = list[tuple[str, str, str, int | None]]
MEMCACHED_DIALOGUE: Dialogue = [
    ("get entry:000001", "entry:000001", "bad_content", 0),
    ("set entry:000001 1000", "STORED", "ok", 0),
    ("get entry:000001", "entry:000001", "ok", 1000),
    ("get entry:000001", "entry:000002", "bad_content", 1000),
    ("set entry:000001 2000000", "STORED", "bad_status", None),  # too large an item
]
REDIS_DIALOGUE: Dialogue = [
    ("HGETALL entry:000001", "entry:000001", "bad_content", 0),
    ("HSET entry:000001 field0 100", "1", "ok", 1),
    ("HSET entry:000001 field0 100", "0", "ok", 1),
    ("HGETALL entry:000001", "entry:000001", "ok", 106),
    ("LPUSH entry:000001 field0 5", "0", "bad_status", None),  # the wrong type
]
MYSQL_DIALOGUE: Dialogue = [
    ("SELECT title FROM page WHERE id = 2", "Two", "ok", 4),
    ("SELECT title FROM page WHERE id = 2", "Three", "bad_content", 4),
    ("SELECT title FROM page WHERE id = 9", "Two", "bad_content", 0),
    ("UPDATE page SET title = 'Zwei' WHERE id = 2", "1", "ok", 1),
    ("SELECT title FROM page ORDER BY id", "Zwei", "ok", 15),
    ("SELECT title FROM gone", "Two", "bad_status", 0),
    ("SELECT REPEAT('x', 1000000)", "xxx", "ok", 1_000_004),
]

_INIT = """
CREATE DATABASE wiki;
CREATE TABLE wiki.page (id INT PRIMARY KEY, title VARCHAR(200));
INSERT INTO wiki.page VALUES (1, 'One'), (2, 'Two'), (3, 'Three');
CREATE USER wiki@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('wiki-read');
GRANT ALL ON wiki.* TO wiki@'%';
"""


def program(name: str) -> str:
    path = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin")
    assert path, f"{name} is missing: run `make setup`"
    return path


def client(kind: type[ByteClient], port: int = 0) -> ByteClient:
    """Return a client, of the kind that load uses, of a server on loopback."""
    return kind(
        ("127.0.0.1", port), connect_timeout_s=30.0, response_timeout_s=30.0, clock=time.monotonic
    )


@contextmanager
def started(name: str, *options: str) -> Iterator[int]:
    """Run a real server in the block; yields its port."""
    port = free_port()
    command = [program(name), *(option.format(port=port) for option in options)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            until_listening(process, port)
            yield port
        finally:
            process.kill()


@contextmanager
def mysql(folder: Path) -> Iterator[int]:
    """Run a real database in an empty folder, with a wiki's pages; yields its port."""
    data, init = folder / "data", folder / "init.sql"
    install = [
        *(program("mariadb-install-db"), "--no-defaults", "--skip-test-db", "--user=root"),
        *("--auth-root-authentication-method=normal", "--innodb-log-file-size=4M"),
        f"--datadir={data}",
    ]
    subprocess.run(install, check=True, capture_output=True)
    init.write_text(_INIT, encoding="utf-8")
    options = (
        *("--no-defaults", "--user=root", "--bind-address=127.0.0.1", "--skip-name-resolve"),
        *("--port={port}", f"--datadir={data}", f"--socket={folder / 'socket'}"),
        *(f"--init-file={init}", f"--log-error={folder / 'log'}", "--innodb-buffer-pool-size=8M"),
    )
    with started("mariadbd", *options) as port:
        yield port
