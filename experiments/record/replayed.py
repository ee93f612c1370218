"""The points of a finished run, from its folder, in batches, as they were written during the run.

These are in no file, and so missing: an arbiter's failures, its latencies of the last minute, and
verdicts after each block. There is one verdict of each arm, and one of the run, at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import polars as pl

from core.errors import InputError
from core.json_object import JsonObject
from core.runfiles.events import read_events
from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import Result, read_result
from core.statistics.percentiles import OK
from experiments.design.schedule import Block
from experiments.record.cost import account_of
from experiments.record.metrics.looks import look_words
from experiments.record.records import RequestRecord
from experiments.record.telemetry import (
    Account,
    Annotations,
    Point,
    arbiter_points,
    look_point,
    request_point,
    verdict_point,
)
from experiments.record.telemetry.account import EVERY_S

_BATCH_ROWS = 5000


@dataclass(frozen=True)
class Replayed:
    """A run whose points can be written again."""

    folder: Path
    result: Result | None  # None of a run that was cut short
    manifest: Mapping[str, Any]
    account: Account

    @property
    def names(self) -> dict[str, str]:
        """The tags of every point."""
        return {name: str(self.manifest[name]) for name in ("experiment", "run")}

    def ns_at(self, since_s: float) -> int:
        """Return a time of the run's clock as Unix nanoseconds."""
        return self.span_ns()[0] + int(since_s * 1e9)

    def points(self) -> Iterator[Point]:
        """Yield all points; no more than a batch of a file is in memory."""
        yield from self._requests()
        events = self.folder / "events.jsonl"
        if events.is_file():
            annotations = Annotations(self.names, self.ns_at)
            with _refuse_damage(events):
                yield from map(annotations.point, read_events(events))
        yield from self._arbiters()
        yield from self._hosts()
        yield from self._verdicts()

    def _rows(self, file: str) -> Iterator[JsonObject]:
        """Yield the rows of a file of the run; none if it has no such file."""
        path = self.folder / file
        if path.is_file():
            with _refuse_damage(path):
                table = pl.scan_parquet(path)
                rows = int(table.select(pl.len()).collect().item())
                for begin in range(0, rows, _BATCH_ROWS):
                    yield from table.slice(begin, _BATCH_ROWS).collect().iter_rows(named=True)

    def span_ns(self) -> tuple[int, int]:
        """Return begin and end of the run [ns]."""
        begin = str(self.manifest["started_at"])
        end = str(self.manifest.get("ended_at") or begin)
        first, last = (
            int(datetime.fromisoformat(stamp).timestamp() * 1e6) for stamp in (begin, end)
        )
        return first * 1000, last * 1000

    def _requests(self) -> Iterator[Point]:
        """Yield each request; and in each block, every few seconds, the SLO and the fleet's cost.

        A block's rows are together in the file.
        """
        rows = self._rows("requests.parquet")
        for (repeat, arm), block in groupby(rows, key=lambda row: (row["repeat"], row["arm"])):
            load_block, t0_ns = Block(repeat, 0, arm, 0), self.ns_at(0.0)
            good_counts: Counter[int] = Counter()
            span_s: list[float] = []
            for row in block:
                at_s = row["done_s"] if row["done_s"] is not None else row["intended_s"]
                span_s = [min([*span_s[:1], row["intended_s"]]), max([*span_s[1:], at_s])]
                good_counts[int(at_s // EVERY_S)] += row["outcome"] == OK
                yield request_point(
                    cast(RequestRecord, row), load_block, self.account, t0_ns=t0_ns, **self.names
                )
            for part in range(int(span_s[0] // EVERY_S), int(span_s[1] // EVERY_S) + 1):
                begin_s, end_s = (
                    max(span_s[0], part * EVERY_S),
                    min(span_s[1], (part + 1) * EVERY_S),
                )
                time_ns = self.ns_at(end_s)
                yield from self.account.points(
                    self.names, arm, time_ns, end_s - begin_s, good_counts[part]
                )

    def _arbiters(self) -> Iterator[Point]:
        """Yield each poll. Its servers are together in the file."""
        previous: dict[str, Mapping[str, Any]] = {}
        rows = self._rows("arbiters.parquet")
        for (time_s, tier), servers in groupby(rows, key=lambda row: (row["time_s"], row["tier"])):
            stats = _stats(list(servers))
            yield from arbiter_points(
                stats, previous.get(tier), time_ns=self.ns_at(time_s), **self.names
            )
            previous[tier] = stats

    def _hosts(self) -> Iterator[Point]:
        tags = ("machine", "tier", "role")
        for row in self._rows("hosts.parquet"):
            fields = {key: value for key, value in row.items() if key not in (*tags, "time_s")}
            host_tags = {"experiment": self.names["experiment"], **{tag: row[tag] for tag in tags}}
            if any(value is not None for value in fields.values()):
                yield Point("host", host_tags, fields, self.ns_at(row["time_s"]))

    def _verdicts(self) -> Iterator[Point]:
        _, end_ns = self.span_ns()
        decided = self.manifest.get("decided") or {"looks": ()}
        for index, look in enumerate(decided["looks"]):
            yield look_point(self.names, *look_words(decided, index), self.ns_at(look["at_s"]))
        if self.result is None:
            return
        for arm, arm_slo in ((self.result["slo"] or {}).get("arms") or {}).items():
            yield verdict_point(self.names, arm, arm_slo["met"], arm_slo["reasons"], end_ns)
        reasons = [
            text for verdict in self.result["verdicts"].values() for text in verdict["reasons"]
        ]
        yield verdict_point(self.names, "run", bool(self.result["valid"]), reasons, end_ns)


def replayed(folder: Path) -> Replayed:
    """Return the run in a folder. Raises InputError if there is no run or no manifest."""
    manifest = manifest_if_any(folder)
    if missing := [key for key in ("experiment", "run", "started_at") if not manifest.get(key)]:
        raise InputError(
            str(folder / "manifest.json"),
            expected="a run's manifest, with its experiment and when it began",
            got=f"no {', '.join(missing)}",
            hint="Name a folder that `sparecraft list` shows.",
        )
    try:
        result = read_result(folder)
    except InputError:
        result = None
    with _refuse_damage(folder / "manifest.json"):
        for key in ("started_at", "ended_at"):
            datetime.fromisoformat(str(manifest.get(key) or manifest["started_at"]))
    spec, fleet = manifest.get("spec") or {}, manifest.get("fleet") or {}
    return Replayed(folder, result, manifest, account_of(spec, fleet))


@contextmanager
def _refuse_damage(file: Path) -> Iterator[None]:
    """Raise InputError for a damaged file, wherever the damage shows."""
    try:
        yield
    except (ValueError, KeyError, OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            str(file),
            expected="a whole file of a run",
            got=f"a damaged one ({str(error).partition(chr(10))[0]})",
            hint="Take another run: `sparecraft list` shows them.",
        ) from error


def _stats(servers: list[dict[str, object]]) -> dict[str, object]:
    """Return one poll's rows of arbiters.parquet in the form of the arbiter's statistics."""
    tier = servers[0]
    return {
        **tier,
        "requests": {"received": tier["received"], "answered": tier["answered"]},
        "tokens": {"total": tier["tokens_total"], "in_use": tier["tokens_in_use"]},
        "connections": {"client_accepted": tier["client_accepted"]},
        "servers": [
            {**row, "name": row["server"], "busy_us": row["server_busy_us"]} for row in servers
        ],
    }
