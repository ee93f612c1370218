"""Recorded requests, of a HAR file or an access log, as operations with their popularity.

Requests whose paths differ in identifiers only are one operation; the identifiers are in the
columns of a CSV file, as often as they occurred. Secrets are removed first (`secrets.py`).
"""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Any, get_args
from urllib.parse import parse_qsl, quote, unquote, unquote_plus

from experiments.design.arrival_rate import ARRIVALS_MAX
from experiments.design.http_request import Method
from experiments.design.operation_set import BODIES_BYTES_MAX, COLUMNS_MAX, CSV_BYTES_MAX
from experiments.importers.secrets import kept_segment, kept_value

METHODS = get_args(Method)
OPERATIONS_MOST = 200  # of an import; a reader is to understand them
ROWS_MOST = 10_000
TARGET_MOST = 2_048  # characters of path and query
DISTINCT_MOST = 200_000  # requests that are kept apart while reading
WORDS_MOST = 20  # names in one place of a path; more are values
PARAMETERS = "parameters.csv"
ARRIVALS = "arrivals.csv"

_IDENTIFIER = re.compile(
    r"\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}|(?=.*\d)[\w.~=-]{20,}", re.I
)
_NAME = re.compile(r"[^A-Za-z0-9_]+")
_ORIGIN = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_BYTES = "surrogateescape"  # bytes that are no UTF-8 stay as they are
_SAFE = "!$&'()*+,;=:@~"  # beside letters and digits, in a segment of a path


@dataclass(frozen=True)
class Request:
    """One request as it was seen; `target` is its path and query, without secrets."""

    method: Method
    target: str
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None


@dataclass
class Traffic:
    """Requests by how often they were seen, and what was left out or removed, by reason."""

    seen: Counter[Request] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    by_second: Counter[int] = field(default_factory=Counter)
    """Requests in each second since 1970, where the source has times."""

    def add(self, one: Request) -> None:
        """Counts it, or says why not."""
        why = _unusable(one)
        if not why and one not in self.seen and len(self.seen) >= DISTINCT_MOST:
            why = f"beyond {DISTINCT_MOST:,} different requests"
        if why:
            self.left_out[why] += 1
        else:
            self.seen[one] += 1

    def trace(self) -> list[float]:
        """Times of requests, ascending, from the second of the first on [s]; at most ARRIVALS_MAX.
        Within a second, which is all that a log says, each has a place drawn evenly."""
        rng, begin, found = Random(0), min(self.by_second, default=0), list[float]()
        for second in sorted(self.by_second):
            offsets_s = sorted(rng.random() for _ in range(self.by_second[second]))
            found += [second - begin + offset_s for offset_s in offsets_s]
            if len(found) >= ARRIVALS_MAX:
                break
        return found[:ARRIVALS_MAX]

    @property
    def rate_per_s(self) -> float | None:
        """Requests a second from the first to the last; None for less than ten seconds."""
        if not self.by_second:
            return None
        span = max(self.by_second) - min(self.by_second) + 1
        return sum(self.by_second.values()) / span if span >= 10 else None

    @property
    def busiest_per_s(self) -> float | None:
        """Requests a second in the busiest minute; None for less than a minute."""
        if not self.by_second or max(self.by_second) - min(self.by_second) < 60:
            return None
        minutes: Counter[int] = Counter()
        for second, count in self.by_second.items():
            minutes[second // 60] += count
        return max(minutes.values()) / 60


@dataclass(frozen=True)
class Operation:
    """An operation of the design: `path` has `${column}` where requests differ."""

    name: str
    weight: int
    method: Method
    path: str
    expect: str
    headers: tuple[tuple[str, str], ...]
    body: str | None


@dataclass(frozen=True)
class Imported:
    """Operations, most frequent first; `columns` are those of parameters.csv."""

    operations: tuple[Operation, ...]
    columns: Mapping[str, Sequence[str]]
    left_out: Mapping[str, int]
    removed: Mapping[str, int]
    rate_per_s: float | None
    busiest_per_s: float | None

    @property
    def requests(self) -> int:
        """Number of requests that the operations stand for."""
        return sum(one.weight for one in self.operations)

    def to_json(self) -> dict[str, object]:
        """Return JSON: the operations as in `experiment.toml`, and the parts left out."""
        return {
            "requests": self.requests,
            "operations": [
                {"name": one.name, "weight": one.weight, "method": one.method, "path": one.path}
                for one in self.operations
            ],
            "columns": sorted(self.columns),
            "left_out": dict(self.left_out),
            "removed": dict(self.removed),
            "rate_per_s": self.rate_per_s,
            "busiest_per_s": self.busiest_per_s,
        }


def operations_of(traffic: Traffic) -> Imported:
    """Return the operations of all requests, the most frequent ones first, within the
    limits above.
    """
    left_out = Counter(traffic.left_out)
    made: list[Operation] = []
    values: dict[str, list[tuple[str, int]]] = {}
    names: set[str] = set()
    bodies = 0
    for group in sorted(_groups(traffic.seen), key=_weight, reverse=True):
        one, own = _operation(group, names, values)
        if len(made) >= OPERATIONS_MOST or len(values) + len(own) > COLUMNS_MAX:
            left_out["of rarer operations"] += one.weight
            continue
        size = len((one.body or "").encode())
        if bodies + size > BODIES_BYTES_MAX:
            left_out[f"whose bodies exceed {BODIES_BYTES_MAX:,} bytes together"] += one.weight
            continue
        bodies += size
        names.add(one.name)
        values.update(own)
        made.append(one)
    rows = min(ROWS_MOST, max((sum(n for _, n in each) for each in values.values()), default=0))
    widest = sum(max(len(value.encode()) for value, _ in each) + 3 for each in values.values())
    rows = min(rows, CSV_BYTES_MAX // (2 * widest or 1) - 1)  # each letter may be a quote, twice
    most = max((len(each) for each in values.values()), default=0)
    if most > rows:
        left_out[f"with a value beyond the {rows:,} rows of {PARAMETERS}, at least"] = most - rows
    return Imported(
        tuple(made),
        {name: tuple(_spread(each, rows)) for name, each in values.items()},
        left_out,
        traffic.removed,
        traffic.rate_per_s,
        traffic.busiest_per_s,
    )


def parameters_csv(columns: Mapping[str, Sequence[str]]) -> str:
    """Return the columns as a CSV file with a heading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def without_secrets(url: str, removed: Counter[str]) -> str:
    """Path and query of a URL, with the values of secret parameters replaced, and counted."""
    url = _ORIGIN.sub("", url.encode("utf-8", "replace").decode()).partition("#")[0]
    path, _, query = url.partition("?")
    segments: list[str] = []
    before = ""
    for said in path.split("/"):
        one = unquote(said, errors=_BYTES)
        segments.append(quote(kept_segment(one, before, removed), safe=_SAFE, errors=_BYTES))
        before = one
    return ("/".join(segments) or "/") + _query(
        [
            (key, kept_value(key, value, "query value", removed))
            for key, value in parse_qsl(query, keep_blank_values=True, errors=_BYTES)
        ]
    )


def _unusable(one: Request) -> str:
    """Return the reason that it cannot be asked again; "" where it can."""
    if one.method not in METHODS:
        return f"method {one.method}"[:40]
    if not one.target.startswith("/") or len(one.target) > TARGET_MOST:
        return f"path and query that do not begin with / or exceed {TARGET_MOST} characters"
    if not _is_one_line(one.target):
        return "path and query that are not one line of text in UTF-8"
    if not 200 <= one.status < 500:
        return "no answer, or one of 1xx or 5xx"
    return ""


def _is_one_line(target: str) -> bool:
    """True if its values can stand in the parameters of a design."""
    try:
        text = unquote_plus(target, errors="strict")
    except UnicodeDecodeError:
        return False
    return not any(one in text for one in "\r\n\0")


@dataclass(frozen=True)
class _Group:
    """Requests of one operation: segments and queries of each, with its count."""

    first: Request
    segments: tuple[str | None, ...]  # None where they differ
    members: tuple[tuple[Request, int], ...]


def _weight(group: _Group) -> int:
    return sum(count for _, count in group.members)


def _groups(seen: Mapping[Request, int]) -> Iterator[_Group]:
    """Requests that differ in nothing but identifiers, words of a crowded place, query values."""
    alike: dict[Any, list[tuple[Request, tuple[str, ...], int]]] = defaultdict(list)
    for one, count in seen.items():
        segments = _segments(one.target)
        keys = tuple(key for key, _ in _pairs(one.target))
        alike[one.method, one.headers, one.body, keys, len(segments)].append((one, segments, count))
    for members in alike.values():
        yield from _split(members, ())


def _split(
    members: list[tuple[Request, tuple[str, ...], int]], before: tuple[str | None, ...]
) -> Iterator[_Group]:
    depth = len(before)
    if depth == len(members[0][1]):
        mixed = [(one, count) for one, _, count in members]
        Random(0).shuffle(mixed)  # every third of a log may be one page: see _spread
        yield _Group(mixed[0][0], before, tuple(mixed))
        return
    by_word: dict[str | None, list[tuple[Request, tuple[str, ...], int]]] = defaultdict(list)
    for member in members:
        said = member[1][depth]
        by_word[None if _IDENTIFIER.fullmatch(said) else said].append(member)
    if len(by_word) > WORDS_MOST:
        by_word = {None: members}
    for word, own in by_word.items():
        alike = len({member[1][depth] for member in own}) == 1
        yield from _split(own, (*before, own[0][1][depth] if alike else word))


def _operation(
    group: _Group, names: set[str], taken: Mapping[str, Any]
) -> tuple[Operation, dict[str, list[tuple[str, int]]]]:
    """Return the operation, and the columns that it needs."""
    own: dict[str, list[tuple[str, int]]] = {}

    def column(like: str, values: Iterable[tuple[str, int]]) -> str:
        base = _NAME.sub("_", like).strip("_")[:40] or "value"
        base = f"v_{base}" if base[0].isdigit() else base
        name, number = base, 1
        while name in taken or name in own:
            number += 1
            name = f"{base}_{number}"
        own[name] = list(values)
        return "${" + name + "}"

    path, label = "", ""
    split = [(_segments(one.target), count) for one, count in group.members]
    for index, word in enumerate(group.segments):
        if word is not None:
            path += f"/{literal(word)}"
            label += f"/{word}"
            continue
        like = next((one for one in reversed(group.segments[:index]) if one), "id")
        each = ((unquote(segments[index]), count) for segments, count in split)
        path += f"/{column(like, each)}"
        label += "/{}"
    query = [
        parse_qsl(one.target.partition("?")[2], keep_blank_values=True) for one in _ones(group)
    ]
    pairs = []
    for index, (key, value) in enumerate(query[0]):
        if len({pairs_of[index][1] for pairs_of in query}) == 1:
            pairs.append(f"{literal(quote(key))}={literal(quote(value, safe=''))}")
            continue
        each = (
            (pairs_of[index][1], count)
            for pairs_of, (_, count) in zip(query, group.members, strict=True)
        )
        pairs.append(f"{literal(quote(key))}={column(key, each)}")
    if pairs:
        path += "?" + "&".join(pairs)
        label += "?" + "&".join(key for key, _ in query[0])
    first = group.first
    one = Operation(
        _unique(f"{first.method} {label}", names),
        _weight(group),
        first.method,
        path,
        _expected(Counter(one.status for one in _ones(group))),
        tuple((name, literal(value)) for name, value in first.headers),
        None if first.body is None else literal(first.body),
    )
    return one, own


def _segments(target: str) -> tuple[str, ...]:
    return tuple(target.partition("?")[0].split("/")[1:])


def _pairs(target: str) -> list[tuple[str, str]]:
    return parse_qsl(target.partition("?")[2], keep_blank_values=True)


def _ones(group: _Group) -> list[Request]:
    return [one for one, _ in group.members]


def _unique(name: str, names: set[str]) -> str:
    name = re.sub(r"[\x00-\x1f\x7f]", "?", name)[:90]
    found, number = name, 1
    while found in names:
        number += 1
        found = f"{name} #{number}"
    return found


def _expected(statuses: Counter[int]) -> str:
    """Return the value of `expect`.

    304 counts as success, because it answers a cache, and a load worker has none.
    """
    found = {"2xx" if status < 300 or status == 304 else str(status) for status in statuses}
    listed = ", ".join(f'"{one}"' if one == "2xx" else one for one in sorted(found))
    return listed if len(found) == 1 else f"[{listed}]"


def literal(text: str) -> str:
    """Text in which nothing is replaced."""
    return text.replace("${", "$${")


def _query(pairs: Sequence[tuple[str, str]]) -> str:
    text = "&".join(
        f"{quote(key, safe='', errors=_BYTES)}={quote(value, safe='', errors=_BYTES)}"
        for key, value in pairs
    )
    return f"?{text}" if text else ""


def _spread(values: list[tuple[str, int]], rows: int) -> Iterator[str]:
    """Yield `rows` values in proportion to their counts."""
    ends = list(accumulate(count for _, count in values))
    total = ends[-1]
    for row in range(rows):
        yield values[bisect_right(ends, row * total // rows)][0]
