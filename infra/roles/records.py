"""Records of real text for the key-value roles, as the commands that load them.

The text is GCIDE's, as Debian's `dict-gcide` has it, cut into pieces of one size: the same
dictionary gives the same records everywhere. A record begins with its own key, so that a reader can
tell a mixed-up reply.

    records.py --dictionary gcide.dict.dz --count 20000 --format memcached|redis > commands
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

VALUE_BYTES = 1000  # of a memcached value, and of YCSB's record: ten fields of 100 bytes
FIELDS = 10


def pieces(text: str, count: int, size: int) -> Iterator[str]:
    """The first `count` pieces of `size` characters; ASCII, one space between words."""
    words = " ".join(text.encode("ascii", "ignore").decode().split())
    found = len(words) // size
    if found < count:
        raise SystemExit(f"records.py: expected text for {count} records, it is enough for {found}")
    for place in range(count):
        yield words[place * size : (place + 1) * size]


def key(place: int) -> str:
    """The key of a record, as the load generator makes it too."""
    return f"entry:{place:06d}"


def memcached(place: int, text: str) -> bytes:
    """A `set` without a reply, of exactly VALUE_BYTES."""
    value = f"{key(place)} {text}"[:VALUE_BYTES]
    return f"set {key(place)} 0 0 {VALUE_BYTES} noreply\r\n{value}\r\n".encode()


def redis(place: int, text: str) -> bytes:
    """A hash of ten fields in RESP, as YCSB's binding for Redis keeps a record."""
    value = f"{key(place)} {text}"[:VALUE_BYTES]
    size = VALUE_BYTES // FIELDS
    parts = ["HSET", key(place)]
    for field in range(FIELDS):
        parts += [f"field{field}", value[field * size : (field + 1) * size]]
    return b"".join(
        [f"*{len(parts)}\r\n".encode(), *(f"${len(p)}\r\n{p}\r\n".encode() for p in parts)]
    )


FORMATS: dict[str, Callable[[int, str], bytes]] = {"memcached": memcached, "redis": redis}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="Records of real text, as commands that load them")
    parser.add_argument("--dictionary", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--format", choices=sorted(FORMATS), required=True)
    options = parser.parse_args()
    command = FORMATS[options.format]
    with gzip.open(options.dictionary, "rt", encoding="utf-8", errors="ignore") as file:
        text = file.read()
    for place, piece in enumerate(pieces(text, options.count, VALUE_BYTES)):
        sys.stdout.buffer.write(command(place, piece))


if __name__ == "__main__":
    main()
