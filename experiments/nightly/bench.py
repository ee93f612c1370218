"""The bench page: how our programs compare with their peers, by day, in words.

Bench files name a ratio by its place in the file. Here is what each place means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, factor

_NEWEST = 5
_CPU = ", per second of the proxy's processor"
_TWO = ", two copies of each read"
_AWAKE = ", awake for a while after each request"
_KEPT = "ours over theirs, above 1 is better"


@dataclass(frozen=True)
class _Group:
    """A table: a row for each place that a pattern fits, in words; {0} is what its (...) found."""

    name: str
    caption: str
    rows: Mapping[str, str]


def _compared(place: str, words: str) -> dict[str, str]:
    """The cost of comparing the two copies' replies, over two copies that are not compared."""
    rows = {}
    for mode, what in (("count", "differences counted"), ("refuse", "differences refused")):
        over = f"{words}, {what}, over two copies not compared"
        rows[f"{place} ratio_{mode}"] = over
        rows[f"{place} ratio_cpu_{mode}"] = over + _CPU
    return rows


def _proxy(name: str, what: str) -> _Group:
    """Redis and memcached, which are measured alike."""
    each = {"1": "one request at a time", "16": "16 in a pipeline"}
    rows = {}
    for pipeline, words in each.items():
        rows[f"{name} {pipeline} ratio"] = words
        rows[f"{name} {pipeline} ratio_r2"] = words + _TWO
        rows[f"{name} {pipeline} ratio_cpu"] = words + _CPU
        rows[f"{name} {pipeline} ratio_busy"] = words + _AWAKE
        rows[f"{name} {pipeline} ratio_cpu_busy"] = words + _AWAKE + _CPU
        for how in ("epoll", "uring"):
            rows[f"{name} {pipeline} ratio_{how}"] = f"{words}, what only forwards, by {how}"
        rows |= _compared(f"{name} {pipeline}", words)
    return _Group(name, f"{what} arbiter beside twemproxy: requests a second, {_KEPT}", rows)


_POOL = "pf, {0} nodes, a pool of {1}{2}, beside"
GROUPS = (
    _Group(
        "http",
        f"HTTP arbiter beside HAProxy: requests a second, {_KEPT}",
        {
            r"http (\d+) ratio": "connections: {0}",
            r"http (\d+) ratio_r2": "connections: {0}" + _TWO,
            r"http (\d+) ratio_cpu": "connections: {0}" + _CPU,
            r"http (\d+) ratio_cpu_r2": "connections: {0}" + _TWO + _CPU,
            r"http (\d+) ratio_busy": "connections: {0}" + _AWAKE,
            r"http (\d+) ratio_cpu_busy": "connections: {0}" + _AWAKE + _CPU,
            **_compared(r"http (\d+)", "connections: {0}"),
        },
    ),
    _Group(
        "mysql",
        f"MySQL arbiter beside HAProxy: statements a second, {_KEPT}",
        {
            r"mysql connections (\d+) ratio_wall": "connections: {0}",
            r"mysql connections (\d+) ratio": "connections: {0}" + _CPU,
            r"mysql connections (\d+) ratio_r2": "connections: {0}" + _TWO + _CPU,
            r"mysql connections (\d+) ratio_wall_busy": "connections: {0}" + _AWAKE,
            r"mysql connections (\d+) ratio_busy": "connections: {0}" + _AWAKE + _CPU,
        },
    ),
    _proxy("redis", "Redis"),
    _proxy("memcached", "memcached"),
    _Group(
        "cooperative",
        f"PRESS beside nginx, and four nodes beside as many apart: pages a second, {_KEPT}",
        {
            r"cooperative one (\d+) ratio": "one node, connections: {0}",
            r"cooperative one (\d+) ratio_cpu": "one node, connections: {0}, per second of the "
            "server's processor",
            "cooperative four ratio": "four nodes that share their memory",
            "cooperative four ratio_reads": "the same: reads from disk, below 1 is better",
        },
    ),
    _Group(
        "load",
        f"Load worker, which sends on time: requests a second, {_KEPT}",
        {
            "load ratio_locust": "beside Locust, each user waiting for its answer",
            "load ratio_locust_cpu": "beside Locust, per second of the sender's processor",
            "load ratio_wrk": "beside wrk, each connection waiting for its answer",
        },
    ),
    _Group(
        "availability-models",
        "Availability models: the peer's seconds over ours, above 1 is better",
        {
            r"availability models pf (\d+) \+ (\d+)(.*) ratio": f"{_POOL} Storm",
            r"availability models pf (\d+) \+ (\d+)(.*) ratio_at_least": f"{_POOL} Storm, "
            "which was ended after 90 s: at least",
            r"availability models pf (\d+) \+ (\d+)(.*) ratio_dense": f"{_POOL} a dense matrix "
            "exponential",
            "availability ratio": _POOL.format(10, 18, "") + " a dense matrix exponential",
        },
    ),
    _Group(
        "simulator",
        f"Simulator, two stations of 10 cores: events a second, {_KEPT}",
        {"sim ratio_simpy": "beside SimPy", "sim ratio_ciw": "beside Ciw"},
    ),
    _Group(
        "provision",
        "Ten machines up: our seconds over theirs, below 1 is better",
        {"provision ratio": "terraform apply beside docker run of the same images"},
    ),
)
# The same figures once more, in the files for those who read only their first level.
_AGAIN = re.compile(r"mysql ratio|(redis|memcached) ratio \d+")


def bench_tables(folder: Path) -> list[Table]:
    """A table for each kind of bench, of the newest runs in a folder; none without any."""
    runs = list(_runs(folder))[-_NEWEST:]
    tables = [_table(group, runs) for group in (*GROUPS, _others(runs))]
    return [table for table in tables if table is not None]


def _runs(folder: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """When, and its ratios by place; a file that is torn is left out."""
    for file in sorted(folder.glob("*.json")):
        try:
            when = datetime.strptime(file.stem, "%Y%m%dT%H%M%SZ")
            body = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        yield f"{when:%Y-%m-%d %H:%M}", dict(_ratios(body))


def _ratios(value: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, float]]:
    for key, one in value.items():
        inner = f"{place} {key}".strip()
        if isinstance(one, Mapping):
            yield from _ratios(one, inner)
        elif "ratio" in inner and isinstance(one, int | float) and not _AGAIN.fullmatch(inner):
            yield inner, float(one)


def _others(runs: Sequence[tuple[str, Mapping[str, float]]]) -> _Group:
    """The values of a newer or older bench, by its place."""
    places = {place for _, ratios in runs for place in ratios}
    known = [pattern for group in GROUPS for pattern in group.rows]
    left = [one for one in sorted(places) if not any(re.fullmatch(p, one) for p in known)]
    return _Group(
        "others", "Others: ratios as their files name them", {re.escape(p): p for p in left}
    )


def _table(group: _Group, runs: Sequence[tuple[str, Mapping[str, float]]]) -> Table | None:
    places: dict[str, tuple[tuple[tuple[int, str], ...], int]] = {}
    found: dict[str, dict[str, float]] = {}
    for when, ratios in runs:
        for place, ratio in ratios.items():
            for order, (pattern, words) in enumerate(group.rows.items()):
                if fits := re.fullmatch(pattern, place):
                    sizes = tuple((int(one) if one.isdigit() else 0, one) for one in fits.groups())
                    name = words.format(*fits.groups())
                    found.setdefault(name, {})[when] = ratio
                    places[name] = max(places.get(name, ((), 0)), (sizes, order))
    if not found:
        return None
    rows = tuple(
        (
            named(words),
            *(Cell(factor(ratios[when]) if when in ratios else MISSING) for when, _ in runs),
        )
        for words, ratios in sorted(found.items(), key=lambda row: places[row[0]])
    )
    return Table(f"bench-{group.name}", group.caption, ("", *(when for when, _ in runs)), rows)
