"""Recorded requests, of a HAR file or an access log, as operations with their popularity.

Requests whose paths differ in identifiers only are one operation. The identifiers become columns of
a CSV file, each as often as it occurred. Secrets are removed first (`secrets.py`).
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
from experiments.importers.secrets import clean_segment, clean_value

METHODS = get_args(Method)
OPERATIONS_MOST = 200  # of an import: a reader has to understand them
ROWS_MOST = 10_000
TARGET_MOST = 2_048  # characters of path and query
DISTINCT_MOST = 200_000  # requests that are distinguished while reading
WORDS_MOST = 20  # names at one depth of a path; if there are more, they are values
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
    """A recorded request; `target` is its path and query, without secrets."""

    method: Method
    target: str
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None


@dataclass
class Traffic:
    """Requests with their counts, and the numbers of those left out or with removals, by reason."""

    counts: Counter[Request] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    by_second: Counter[int] = field(default_factory=Counter)
    """Requests in each second since 1970, where the source has times."""

    def add(self, request: Request) -> None:
        """Count a request, or the reason to leave it out."""
        obstacle = _find_obstacle(request)
        if not obstacle and request not in self.counts and len(self.counts) >= DISTINCT_MOST:
            obstacle = f"beyond {DISTINCT_MOST:,} different requests"
        if obstacle:
            self.left_out[obstacle] += 1
        else:
            self.counts[request] += 1

    def trace(self) -> list[float]:
        """Return ascending times of requests, from the first request's second on [s]; at most
        ARRIVALS_MAX. Sources give whole seconds; the time within a second is drawn uniformly.
        """
        rng, begin, times_s = Random(0), min(self.by_second, default=0), list[float]()
        for second in sorted(self.by_second):
            offsets_s = sorted(rng.random() for _ in range(self.by_second[second]))
            times_s += [second - begin + offset_s for offset_s in offsets_s]
            if len(times_s) >= ARRIVALS_MAX:
                break
        return times_s[:ARRIVALS_MAX]

    @property
    def rate_per_s(self) -> float | None:
        """Requests per second from the first to the last; None for less than ten seconds."""
        if not self.by_second:
            return None
        span = max(self.by_second) - min(self.by_second) + 1
        return sum(self.by_second.values()) / span if span >= 10 else None

    @property
    def busiest_per_s(self) -> float | None:
        """Requests per second in the busiest minute; None for less than a minute."""
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
        return sum(operation.weight for operation in self.operations)

    def to_json(self) -> dict[str, object]:
        """Return JSON: the operations as in `experiment.toml`, and the counts of omitted parts."""
        return {
            "requests": self.requests,
            "operations": [
                {
                    "name": operation.name,
                    "weight": operation.weight,
                    "method": operation.method,
                    "path": operation.path,
                }
                for operation in self.operations
            ],
            "columns": sorted(self.columns),
            "left_out": dict(self.left_out),
            "removed": dict(self.removed),
            "rate_per_s": self.rate_per_s,
            "busiest_per_s": self.busiest_per_s,
        }


def format_counts(reasons: Counter[str]) -> str:
    """Return the most common reasons or names with their counts; "" without any."""
    return ", ".join(f"{name} ({count})" for name, count in reasons.most_common(5))


def operations_of(traffic: Traffic) -> Imported:
    """Return the operations of all requests, most frequent first, within this module's limits."""
    left_out = Counter(traffic.left_out)
    operations: list[Operation] = []
    values_of: dict[str, list[tuple[str, int]]] = {}
    names: set[str] = set()
    bodies = 0
    for group in sorted(_find_groups(traffic.counts), key=_weight, reverse=True):
        operation, own_columns = _make_operation(group, names, values_of)
        if len(operations) >= OPERATIONS_MOST or len(values_of) + len(own_columns) > COLUMNS_MAX:
            left_out["of rarer operations"] += operation.weight
            continue
        size = len((operation.body or "").encode())
        if bodies + size > BODIES_BYTES_MAX:
            left_out[f"whose bodies exceed {BODIES_BYTES_MAX:,} bytes together"] += operation.weight
            continue
        bodies += size
        names.add(operation.name)
        values_of.update(own_columns)
        operations.append(operation)
    rows = min(
        ROWS_MOST, max((sum(n for _, n in values) for values in values_of.values()), default=0)
    )
    widest = sum(
        max(len(value.encode()) for value, _ in values) + 3 for values in values_of.values()
    )
    rows = min(rows, CSV_BYTES_MAX // (2 * widest or 1) - 1)  # each letter may be a quote, twice
    most = max((len(values) for values in values_of.values()), default=0)
    if most > rows:
        left_out[f"with a value beyond the {rows:,} rows of {PARAMETERS}, at least"] = most - rows
    return Imported(
        tuple(operations),
        {name: tuple(_spread(values, rows)) for name, values in values_of.items()},
        left_out,
        traffic.removed,
        traffic.rate_per_s,
        traffic.busiest_per_s,
    )


def parameters_csv(columns: Mapping[str, Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def without_secrets(url: str, removed: Counter[str]) -> str:
    """Return path and query of a URL; secrets in them are replaced, and counted in `removed`."""
    url = _ORIGIN.sub("", url.encode("utf-8", "replace").decode()).partition("#")[0]
    path, _, query = url.partition("?")
    segments: list[str] = []
    before = ""
    for part in path.split("/"):
        segment = unquote(part, errors=_BYTES)
        segments.append(quote(clean_segment(segment, before, removed), safe=_SAFE, errors=_BYTES))
        before = segment
    return ("/".join(segments) or "/") + _format_query(
        [
            (key, clean_value(key, value, "query value", removed))
            for key, value in parse_qsl(query, keep_blank_values=True, errors=_BYTES)
        ]
    )


def _find_obstacle(request: Request) -> str:
    """Return the reason why a request cannot be repeated; "" if it can."""
    if request.method not in METHODS:
        return f"method {request.method}"[:40]
    if not request.target.startswith("/") or len(request.target) > TARGET_MOST:
        return f"path and query that do not begin with / or exceed {TARGET_MOST} characters"
    if not _is_one_line(request.target):
        return "path and query that are not one line of text in UTF-8"
    if not 200 <= request.status < 500:
        return "no answer, or one of 1xx or 5xx"
    return ""


def _is_one_line(target: str) -> bool:
    """True if its values can stand in the parameters of a design."""
    try:
        text = unquote_plus(target, errors="strict")
    except UnicodeDecodeError:
        return False
    return not any(letter in text for letter in "\r\n\0")


@dataclass(frozen=True)
class _Group:
    """Requests of one operation, each with its count, and the segments of their paths."""

    first: Request
    segments: tuple[str | None, ...]  # None where they differ
    members: tuple[tuple[Request, int], ...]


def _weight(group: _Group) -> int:
    return sum(count for _, count in group.members)


def _find_groups(counts: Mapping[Request, int]) -> Iterator[_Group]:
    """Yield groups of requests that differ only in identifiers, in words at a depth of a path where
    there are many words, or in values of the query.
    """
    similar: dict[Any, list[tuple[Request, tuple[str, ...], int]]] = defaultdict(list)
    for request, count in counts.items():
        segments = _segments_of(request.target)
        keys = tuple(key for key, _ in _query_pairs(request.target))
        similar[request.method, request.headers, request.body, keys, len(segments)].append(
            (request, segments, count)
        )
    for members in similar.values():
        yield from _split(members, ())


def _split(
    members: list[tuple[Request, tuple[str, ...], int]], before: tuple[str | None, ...]
) -> Iterator[_Group]:
    depth = len(before)
    if depth == len(members[0][1]):
        shuffled = [(request, count) for request, _, count in members]
        Random(0).shuffle(shuffled)  # every third of a log may be one page: see _spread
        yield _Group(shuffled[0][0], before, tuple(shuffled))
        return
    by_word: dict[str | None, list[tuple[Request, tuple[str, ...], int]]] = defaultdict(list)
    for member in members:
        segment = member[1][depth]
        by_word[None if _IDENTIFIER.fullmatch(segment) else segment].append(member)
    if len(by_word) > WORDS_MOST:
        by_word = {None: members}
    for word, group in by_word.items():
        is_constant = len({member[1][depth] for member in group}) == 1
        yield from _split(group, (*before, group[0][1][depth] if is_constant else word))


def _make_operation(
    group: _Group, names: set[str], names_taken: Mapping[str, Any]
) -> tuple[Operation, dict[str, list[tuple[str, int]]]]:
    """Return the operation, and the columns that it needs."""
    columns: dict[str, list[tuple[str, int]]] = {}

    def add_column(column_stem: str, values: Iterable[tuple[str, int]]) -> str:
        base = _NAME.sub("_", column_stem).strip("_")[:40] or "value"
        base = f"v_{base}" if base[0].isdigit() else base
        name, number = base, 1
        while name in names_taken or name in columns:
            number += 1
            name = f"{base}_{number}"
        columns[name] = list(values)
        return "${" + name + "}"

    path, label = "", ""
    member_segments = [(_segments_of(request.target), count) for request, count in group.members]
    for index, word in enumerate(group.segments):
        if word is not None:
            path += f"/{escape(word)}"
            label += f"/{word}"
            continue
        column_stem = next(
            (segment for segment in reversed(group.segments[:index]) if segment), "id"
        )
        column_values = ((unquote(segments[index]), count) for segments, count in member_segments)
        path += f"/{add_column(column_stem, column_values)}"
        label += "/{}"
    query = [_query_pairs(request.target) for request in _requests_of(group)]
    pairs = []
    for index, (key, value) in enumerate(query[0]):
        if len({member_pairs[index][1] for member_pairs in query}) == 1:
            pairs.append(f"{escape(quote(key))}={escape(quote(value, safe=''))}")
            continue
        column_values = (
            (member_pairs[index][1], count)
            for member_pairs, (_, count) in zip(query, group.members, strict=True)
        )
        pairs.append(f"{escape(quote(key))}={add_column(key, column_values)}")
    if pairs:
        path += "?" + "&".join(pairs)
        label += "?" + "&".join(key for key, _ in query[0])
    first = group.first
    operation = Operation(
        _make_unique(f"{first.method} {label}", names),
        _weight(group),
        first.method,
        path,
        _format_expect(Counter(request.status for request in _requests_of(group))),
        tuple((name, escape(value)) for name, value in first.headers),
        None if first.body is None else escape(first.body),
    )
    return operation, columns


def _segments_of(target: str) -> tuple[str, ...]:
    return tuple(target.partition("?")[0].split("/")[1:])


def _query_pairs(target: str) -> list[tuple[str, str]]:
    return parse_qsl(target.partition("?")[2], keep_blank_values=True)


def _requests_of(group: _Group) -> list[Request]:
    return [request for request, _ in group.members]


def _make_unique(name: str, names: set[str]) -> str:
    name = re.sub(r"[\x00-\x1f\x7f]", "?", name)[:90]
    unique, number = name, 1
    while unique in names:
        number += 1
        unique = f"{name} #{number}"
    return unique


def _format_expect(statuses: Counter[int]) -> str:
    """Return the value of `expect`.

    304 counts as success, because it answers a cache, and a load worker has none.
    """
    expected = {"2xx" if status < 300 or status == 304 else str(status) for status in statuses}
    items = ", ".join(f'"{item}"' if item == "2xx" else item for item in sorted(expected))
    return items if len(expected) == 1 else f"[{items}]"


def escape(text: str) -> str:
    """Return the text in a form in which no `${column}` is replaced."""
    return text.replace("${", "$${")


def _format_query(pairs: Sequence[tuple[str, str]]) -> str:
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
