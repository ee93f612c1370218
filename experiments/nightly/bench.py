"""The bench page: our programs beside their peers, by day.

A bench file names a ratio by its path: the bench, its sizes, and `ratio` with words after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, factor

_NEWEST = 5
_OURS = "ours over theirs, above 1 is better"
_TWEMPROXY = "beside twemproxy, by requests in a pipeline: requests a second"
_BENCHES = {
    "http": f"HTTP arbiter beside HAProxy, by connections: requests a second, {_OURS}",
    "mysql": "MySQL arbiter beside HAProxy, by connections: statements per second of the "
    f"proxy's processor, {_OURS}",
    "redis": f"Redis arbiter {_TWEMPROXY}, {_OURS}",
    "memcached": f"memcached arbiter {_TWEMPROXY}, {_OURS}",
    "cooperative": "PRESS beside nginx, by connections, and four nodes beside as many apart: "
    f"pages a second, {_OURS}",
    "load": f"Load worker, which sends on time: requests a second, {_OURS}",
    "availability": "Availability models, by nodes and pool: the peer's seconds over ours, above "
    "1 is better; the peer is Storm where none is named",
    "sim": f"Simulator, two stations of 10 cores: events a second, {_OURS}",
    "provision": "Ten machines up, terraform apply beside docker run of the same images: our "
    "seconds over theirs, below 1 is better",
}
_WORDS = {
    "atleast": "at least, as the peer was ended after 90 s",
    "busy": "awake for a while after each request",
    "ciw": "beside Ciw",
    "connections": "",
    "count": "differences counted, over two copies not compared",
    "cpu": "per second of the program's processor",
    "dense": "beside a dense matrix exponential",
    "epoll": "what only forwards, by epoll",
    "four": "four nodes that share their memory",
    "locust": "beside Locust, each user waiting for its answer",
    "models": "",
    "one": "one node",
    "r2": "two copies of each read",
    "reads": "reads from disk, below 1 is better",
    "refuse": "differences refused, over two copies not compared",
    "simpy": "beside SimPy",
    "uring": "what only forwards, by uring",
    "wall": "by the clock",
    "wrk": "beside wrk, each connection waiting for its answer",
}
_AGAIN = ("mysql", "ratio")  # that of one of its sizes once more

KeyPath = tuple[str, ...]


def bench_tables(folder: Path) -> list[Table]:
    """Return a table for each bench, of the newest runs in a folder; none without any."""
    runs = list(_runs(folder))[-_NEWEST:]
    paths = {path for _, ratios in runs for path in ratios}
    benches = dict.fromkeys([*_BENCHES, *sorted({path[0] for path in paths})])
    bench_paths = {
        name: sorted((path for path in paths if path[0] == name), key=_order) for name in benches
    }
    return [_table(name, rows, runs) for name, rows in bench_paths.items() if rows]


def _runs(folder: Path) -> Iterator[tuple[str, dict[KeyPath, float]]]:
    """Yield time and ratios by path; skip an incomplete file."""
    for file in sorted(folder.glob("*.json")):
        try:
            time = datetime.strptime(file.stem, "%Y%m%dT%H%M%SZ")
            body = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        yield f"{time:%Y-%m-%d %H:%M}", dict(_ratios(body))


def _ratios(value: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, float]]:
    for key, entry in value.items():
        inner = (*path, key)
        if isinstance(entry, Mapping):
            yield from _ratios(entry, inner)
        elif key.startswith("ratio") and isinstance(entry, int | float) and inner != _AGAIN:
            yield inner, float(entry)


def _order(path: KeyPath) -> tuple[list[int], KeyPath]:
    return [int(digits) for digits in re.findall(r"\d+", " ".join(path[1:-1]))], path


def _row_name(path: KeyPath) -> str:
    """Return the sizes, then the words; a word that is not in `_WORDS` is not changed."""
    words = [*path[1:-1], *path[-1].replace("at_least", "atleast").split("_")[1:]]
    return ", ".join(filter(None, (_WORDS.get(word, word) for word in words))) or "in all"


def _table(
    bench: str, paths: Sequence[KeyPath], runs: Sequence[tuple[str, Mapping[KeyPath, float]]]
) -> Table:
    rows = tuple(
        (
            named(_row_name(path)),
            *(Cell(factor(ratios[path]) if path in ratios else MISSING) for _, ratios in runs),
        )
        for path in paths
    )
    head = ("", *(time for time, _ in runs))
    return Table(f"bench-{bench}", _BENCHES.get(bench, bench), head, rows)
