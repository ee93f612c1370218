"""The services into which bits are flipped: their start, requests and stop.

A load is a list of batches, each sent at once on one connection. A batch ends with a request that
has a unique answer, so the end of the answers is known without parsing them.
"""

from __future__ import annotations

import os
import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from experiments.paths import ROOT

BATCH = 8  # requests that are sent at once
_KEYS = 32
_OPERATIONS = 320
_LENGTH_MAX = 300  # of a value [bytes]


@dataclass(frozen=True)
class Load:
    """Batches with what ends each: those under load, then those that read all data back."""

    under_load: tuple[bytes, ...]
    read_back: tuple[bytes, ...]
    requests: int


@dataclass(frozen=True)
class Service:
    """A service as Debian's sources have it, built by agents/harden/services/build."""

    arguments: tuple[str, ...]  # it listens on `socket` in its folder, or on TCP {port}
    end: bytes  # the request that ends a batch
    ended: bytes  # its answer
    stop: bytes | None  # the request that stops it; None: SIGTERM does
    errors: tuple[bytes, ...]  # the beginnings of answers that report a failure
    absent: bytes  # the beginning of an answer that reports a missing key
    compares: bool  # the arbiter can compare copies of it, because each has all data
    _requests: Callable[[random.Random], tuple[list[bytes], list[bytes]]]
    connections: int = 5  # the last one reads back; 1 if it serves one connection at a time
    clock_s: int | None = None  # the time that its answers contain, since 1970 [s]
    prepare: Callable[[Path], None] | None = None  # writes the files it needs to its folder
    ends: bool = True  # it ends well each time it is stopped; else it is killed after its answers
    varies: float = 0.0  # share by which the results of two undisturbed runs may differ

    @property
    def is_on_tcp(self) -> bool:
        """True if it listens on a port, and not on a socket in its folder."""
        return any("{port}" in argument for argument in self.arguments)

    def load(self) -> Load:
        """Return the load, which is always the same."""
        under_load, read_back = self._requests(random.Random(1))
        count = len(under_load) + len(read_back)
        return Load(self._batches(under_load), self._batches(read_back), count)

    def _batches(self, requests: Sequence[bytes]) -> tuple[bytes, ...]:
        firsts = range(0, len(requests), BATCH)
        return tuple(b"".join(requests[at : at + BATCH]) + self.end for at in firsts)


def _value(rng: random.Random) -> bytes:
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(1, _LENGTH_MAX))).encode()


def _store(command: str, key: str, value: bytes) -> bytes:
    return f"{command} {key} {len(key)} 0 {len(value)}\r\n".encode() + value + b"\r\n"


def _memcached_operation(rng: random.Random, keys: Sequence[str]) -> bytes:
    key, second_key = rng.choice(keys), rng.choice(keys)
    draw = rng.random()
    if draw < 0.5:
        return f"get {key}\r\n".encode()
    if draw < 0.6:
        return f"get {key} {second_key} {rng.choice(keys)}\r\n".encode()
    if draw < 0.85:
        command = rng.choice(("set", "set", "add", "replace", "append", "prepend"))
        return _store(command, key, _value(rng))
    if draw < 0.95:
        command = rng.choice(("incr", "decr"))
        return f"{command} n{rng.randrange(4)} {rng.randrange(99)}\r\n".encode()
    return f"delete {key}\r\n".encode()


def _memcached_requests(rng: random.Random) -> tuple[list[bytes], list[bytes]]:
    keys = [f"key:{number}" for number in range(_KEYS)]
    numbers = [f"n{number}" for number in range(4)]
    begin = [_store("set", key, _value(rng)) for key in keys]
    begin += [_store("set", key, b"1000") for key in numbers]
    under_load = begin + [_memcached_operation(rng, keys) for _ in range(_OPERATIONS)]
    return under_load, [f"get {key}\r\n".encode() for key in (*keys, *numbers)]


def _resp(*arguments: str | bytes | int) -> bytes:
    parts = [
        argument if isinstance(argument, bytes) else str(argument).encode()
        for argument in arguments
    ]
    bulk = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"*%d\r\n%s" % (len(parts), bulk)


def _redis_strings(rng: random.Random, keys: Sequence[str]) -> bytes:
    key = rng.choice(keys)
    return rng.choice((
        _resp("GET", key), _resp("GET", key), _resp("GET", key), _resp("STRLEN", key),
        _resp("MGET", key, rng.choice(keys), rng.choice(keys)),
        _resp("SET", key, _value(rng)), _resp("SET", key, _value(rng)),
        _resp("APPEND", key, _value(rng)), _resp("INCRBY", "n", rng.randrange(99)),
        _resp("DEL", key),
    ))  # fmt: skip


def _redis_structures(rng: random.Random) -> bytes:
    field = f"f{rng.randrange(20)}"
    return rng.choice((
        _resp("HSET", "hash", field, _value(rng)), _resp("HGET", "hash", field),
        _resp("LPUSH", "list", _value(rng)), _resp("RPOP", "list"),
        _resp("LRANGE", "list", 0, 4),
        _resp("SADD", "set", field), _resp("SISMEMBER", "set", field),
        _resp("ZADD", "sorted", rng.randrange(1000), field),
        _resp("ZRANGE", "sorted", 0, 5, "WITHSCORES"),
    ))  # fmt: skip


def _redis_requests(rng: random.Random) -> tuple[list[bytes], list[bytes]]:
    keys = [f"key:{number}" for number in range(_KEYS)]
    begin = [_resp("FLUSHALL"), *(_resp("SET", key, _value(rng)) for key in keys)]
    under_load = begin + [
        _redis_strings(rng, keys) if rng.random() < 0.7 else _redis_structures(rng)
        for _ in range(_OPERATIONS)
    ]
    read_back = [_resp("GET", key) for key in (*keys, "n")]
    read_back += [_resp("LRANGE", "list", 0, -1), _resp("HGETALL", "hash")]
    read_back += [_resp("ZRANGE", "sorted", 0, -1, "WITHSCORES"), _resp("SCARD", "set")]
    return under_load, read_back


_REDIS_SETTINGS = {
    "port": "0", "unixsocket": "socket", "save": "", "appendonly": "no", "hz": "1",
    "dynamic-hz": "no", "latency-tracking": "no", "crash-log-enabled": "no",
    "crash-memcheck-enabled": "no", "loglevel": "warning",
}  # fmt: skip

_CHANGED_S = 1_700_000_000  # when all pages were
_SINCE = "Tue, 14 Nov 2023 22:13:20 GMT"
_CONFIGURATION = """\
ServerRoot {folder}
ServerName localhost
DefaultRuntimeDir {folder}
PidFile {folder}/pid
ErrorLog /dev/null
User nobody
Group nogroup
TypesConfig /dev/null
AddType text/html .html
DocumentRoot {folder}/pages
DirectoryIndex page-0.html
KeepAlive On
KeepAliveTimeout 600
MaxKeepAliveRequests 0
FileETag MTime Size
<Directory />
  Require all granted
</Directory>
"""


@cache
def _pages() -> dict[str, bytes]:
    """Return pages by name: parts of the licence, 100 bytes to 8 kB."""
    rng, text = random.Random(2), (ROOT / "LICENSE").read_bytes()
    pages = {}
    for number in range(_KEYS):
        begin, length = rng.randrange(len(text) - 8000), round(100 * 80 ** rng.random())
        pages[f"page-{number}.html"] = text[begin : begin + length]
    return {**pages, "end.html": b"THE-END\n"}


def _prepare_httpd(folder: Path) -> None:
    """Write configuration and pages, with access for the user of the server."""
    for path in (folder, folder.parent):
        if path.stat().st_mode & 0o777 == 0o700:
            path.chmod(0o711)
    pages = folder / "pages"
    if pages.exists():
        return
    pages.mkdir(mode=0o755)
    for name, text in _pages().items():
        (pages / name).write_bytes(text)
        (pages / name).chmod(0o644)
        os.utime(pages / name, (_CHANGED_S, _CHANGED_S))
    (folder / "httpd.conf").write_text(_CONFIGURATION.format(folder=folder), encoding="utf-8")


def _http(method: str, path: str, *fields: str) -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: localhost", *fields, "", "")
    return "\r\n".join(lines).encode()


def _httpd_operation(rng: random.Random, names: Sequence[str]) -> bytes:
    path = f"/{rng.choice(names)}"  # not OPTIONS: a hash table by address orders its answer
    begin = rng.randrange(60)
    return rng.choice((
        _http("GET", path), _http("GET", path), _http("GET", path), _http("GET", path),
        _http("GET", path, "Accept: text/html", "User-Agent: Mozilla/5.0", "Cookie: a=b; c=d"),
        _http("HEAD", path), _http("GET", "/"), _http("GET", f"{path}?word={begin}"),
        _http("GET", path, f"Range: bytes={begin}-{begin + rng.randrange(1, 40)}"),
        _http("GET", path, f"If-Modified-Since: {_SINCE}"),
        _http("GET", f"/none-{begin}.html"), _http("TRACE", path),
        _http("GET", f"/here/..{path}"), _http("GET", path.replace("e", "%65")),
    ))  # fmt: skip


def _httpd_requests(rng: random.Random) -> tuple[list[bytes], list[bytes]]:
    names = [name for name in _pages() if name.startswith("page-")]
    under_load = [_httpd_operation(rng, names) for _ in range(_OPERATIONS)]
    return under_load, [_http("GET", f"/{name}") for name in names]


SERVICES = {
    "memcached": Service(
        arguments=(
            "-l", "127.0.0.1", "-p", "{port}", "-u", "root", "-m", "16", "-t", "1",
            "-o", "no_lru_crawler,no_lru_maintainer,no_slab_reassign",
        ),
        end=b"mn\r\n",
        ended=b"MN\r\n",
        stop=None,
        errors=(b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR"),
        absent=b"END",
        compares=True,
        _requests=_memcached_requests,
    ),
    "redis": Service(
        arguments=tuple(
            argument for key, value in _REDIS_SETTINGS.items() for argument in (f"--{key}", value)
        ),
        end=_resp("ECHO", "THE-END"),
        ended=b"$7\r\nTHE-END\r\n",
        stop=_resp("SHUTDOWN", "NOSAVE"),
        errors=(b"-",),
        absent=b"$-1",
        compares=False,  # a replica lags behind its primary by a random time
        _requests=_redis_requests,
    ),
    "apache2": Service(
        # one process that serves one connection at a time, so that a run does the same each time
        arguments=("-X", "-f", "{folder}/httpd.conf", "-c", "Listen 127.0.0.1:{port}"),
        end=_http("GET", "/end.html"),
        ended=b"THE-END\n",
        stop=None,
        errors=(b"HTTP/1.1 5", b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 408"),
        absent=b"HTTP/1.1 404",
        compares=False,  # our arbiter compares keys' values only
        _requests=_httpd_requests,
        connections=1,
        clock_s=1_790_000_000,
        prepare=_prepare_httpd,
        ends=False,  # in one of twenty undisturbed runs SIGTERM met no end, or a bad one
        varies=1e-4,  # it may see a request's bytes before it waits for them, or after
    ),
}  # fmt: skip
"""Services by name; agents/harden/services/sources has their versions."""
