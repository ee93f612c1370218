"""Records of real text for the key-value roles, as the commands that load them.

The text is GCIDE's, as Debian's `dict-gcide` has it, cut into pieces of one size: the same
dictionary gives the same records everywhere. A record begins with its own key, so that a reader can
tell a mixed-up reply.

    records.py --dictionary gcide.dict.dz --format memcached entry:20000:1000 page:400:64000
"""

from __future__ import annotations

import gzip
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FIELDS = 10  # of a hash, as in YCSB


@dataclass(frozen=True)
class Records:
    """Records of one size, named `NAME:000000` and so on."""

    name: str
    count: int
    size: int

    @classmethod
    def parse(cls, text: str) -> Records:
        """`NAME:COUNT:BYTES`."""
        try:
            name, count, size = text.split(":")
            return cls(name, int(count), int(size))
        except ValueError as error:
            raise ArgumentTypeError(f"expected NAME:COUNT:BYTES, got {text!r}") from error

    def values(self, words: str) -> Iterator[tuple[str, str]]:
        """Keys and values, each value of `size` characters with its key at the beginning."""
        found = len(words) // self.size
        if found < self.count:
            raise SystemExit(f"records.py: expected text for {self.count} records, got {found}")
        for place in range(self.count):
            key = f"{self.name}:{place:06d}"
            text = words[place * self.size : (place + 1) * self.size]
            yield key, f"{key} {text}"[: self.size]


def memcached(key: str, value: str) -> bytes:
    """A `set` without a reply."""
    return f"set {key} 0 0 {len(value)} noreply\r\n{value}\r\n".encode()


def redis(key: str, value: str) -> bytes:
    """A hash of ten fields in RESP, as YCSB's binding for Redis keeps a record."""
    size = len(value) // FIELDS
    parts = ["HSET", key]
    for field in range(FIELDS):
        parts += [f"field{field}", value[field * size : (field + 1) * size]]
    return b"".join(
        [f"*{len(parts)}\r\n".encode(), *(f"${len(p)}\r\n{p}\r\n".encode() for p in parts)]
    )


def mysql(key: str, value: str) -> bytes:
    """An INSERT of a row of ten fields, as YCSB's binding for JDBC keeps a record, and a zero."""
    size = len(value) // FIELDS
    fields = [value[field * size : (field + 1) * size] for field in range(FIELDS)]
    values = ",".join(f"0x{text.encode().hex()}" for text in (key, *fields))
    return f"INSERT INTO usertable VALUES ({values},0);\n".encode()


FORMATS: dict[str, Callable[[str, str], bytes]] = {
    "memcached": memcached,
    "mysql": mysql,
    "redis": redis,
}


def main() -> None:
    parser = ArgumentParser(description="Records of real text, as commands that load them")
    parser.add_argument("--dictionary", type=Path, required=True)
    parser.add_argument("--format", choices=sorted(FORMATS), required=True)
    parser.add_argument("records", type=Records.parse, nargs="+", metavar="NAME:COUNT:BYTES")
    options = parser.parse_args()
    command = FORMATS[options.format]
    with gzip.open(options.dictionary, "rt", encoding="utf-8", errors="ignore") as file:
        text = file.read()
    # ASCII, so that characters are bytes; one space between words.
    words = " ".join(text.encode("ascii", "ignore").decode().split())
    for records in options.records:
        for key, value in records.values(words):
            sys.stdout.buffer.write(command(key, value))


if __name__ == "__main__":
    main()
