"""Probes: small operations that are sent to every node again and again, and their outcomes.

A **stream** is one operation sent to one node. It has one of these needs:

- `limpware`: the limping part itself (a block that lies on the limping disk);
- `node`: the limping node, but nothing that limps there (data in its memory);
- `neither`: nothing of the limping node at all.

The last part of the fault counts, or of the time until the node went down. A stream that healed
by then (by a time-out or an election) shows a fail-over, not a limplock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from core.errors import InputError
from experiments.kinds.limplock.judge.slowdown import Duration, median

Needs = Literal["limpware", "node", "neither"]
Outcome = Literal["ok", "timeout", "error"]
SCHEMA = pl.Schema({
    "repeat": pl.Int64, "node": pl.String, "operation": pl.String, "needs": pl.String,
    "start_s": pl.Float64, "end_s": pl.Float64, "outcome": pl.String,
})  # fmt: skip
"""A row is a probe; times are seconds since its repeat's fault began, before it negative."""

_DOWN_LEAST = 3  # errors in a row at the end, from which on a node is down
Floats = NDArray[np.float64]


@dataclass(frozen=True, order=True)
class Stream:
    node: str
    operation: str
    needs: Needs


@dataclass(frozen=True)
class ProbeFinding:
    """A stream in one repeat."""

    base_s: float | None  # median without the fault
    halves_s: tuple[float, ...]  # medians of the base's two halves: they show its noise
    faulty: Duration | None  # median at the end; None: only errors
    down_s: float | None  # time from which on it only failed
    slow_s: tuple[float, float] | None  # interval in which it became slow for good


def probe_findings(
    probes: pl.DataFrame,
    fault_s: Mapping[int, float],
    down_s: Mapping[tuple[int, str], float],
    *,
    factor: float,
    judged_share: float,
) -> dict[Stream, tuple[ProbeFinding, ...]]:
    """Return every stream's findings, repeat by repeat.

    Parameters: probes as in SCHEMA; fault_s length of each repeat's fault [s]; down_s by repeat and
    node the time from which it was known to be down until the fault's end [s]; factor above which a
    probe is slow; judged_share the last part of the fault that counts, in (0, 1].
    Raises: InputError if the frame is not as SCHEMA says, or a repeat has no length.
    """
    _check(probes, fault_s)
    findings: dict[Stream, list[ProbeFinding]] = {}
    keys = ["node", "operation", "needs", "repeat"]
    for key, rows in probes.sort(*keys, "start_s").group_by(keys, maintain_order=True):
        node, operation, needs, repeat = key
        stream = Stream(str(node), str(operation), cast(Needs, needs))
        number = int(str(repeat))
        series = _Series(rows, fault_s[number], down_s.get((number, stream.node)))
        findings.setdefault(stream, []).append(series.finding(factor, judged_share))
    return {stream: tuple(repeats) for stream, repeats in findings.items()}


def _check(probes: pl.DataFrame, fault_s: Mapping[int, float]) -> None:
    def refuse(expected: str, got: object) -> InputError:
        return InputError("probes", expected=expected, got=str(got), hint="Correct the record.")

    if probes.schema != SCHEMA:
        raise refuse(f"the columns {SCHEMA}", probes.schema)
    for column, allowed in (("needs", get_args(Needs)), ("outcome", get_args(Outcome))):
        if unknown := set(probes[column].unique()) - set(allowed):
            raise refuse(f"{column} one of {', '.join(allowed)}", unknown)
    if lacking := set(probes["repeat"].unique()) - set(fault_s):
        raise refuse("the length of every repeat's fault", f"none of {lacking}")
    start, end = pl.col("start_s"), pl.col("end_s")
    good = start.is_finite() & end.is_finite() & (start <= end)
    if not probes.select(good.fill_null(False).all()).item():
        raise refuse("an end after every start", "one before it, or none")


class _Series:
    """The probes of one stream in one repeat, by their start."""

    def __init__(self, rows: pl.DataFrame, fault_s: float, down_s: float | None) -> None:
        self._start = rows["start_s"].to_numpy()
        self._end = rows["end_s"].to_numpy()
        self._error = (rows["outcome"] == "error").to_numpy()
        self._ok = (rows["outcome"] == "ok").to_numpy()
        self._fault_s = fault_s
        self._known_down_s = down_s

    def finding(self, factor: float, judged_share: float) -> ProbeFinding:
        base = self._base(-np.inf, 0.0)
        down_s = self._down_s()
        until = self._fault_s if down_s is None else down_s
        base_s = None if base is None or base.at_least else base.seconds
        faulty = self._faulty(until * (1.0 - judged_share), until)
        if down_s is not None and faulty is not None and faulty.at_least:
            # A probe cut short when the node went down says nothing, unless it had waited long.
            faulty = faulty if base_s is None or faulty.seconds > factor * base_s else None
        return ProbeFinding(
            base_s=base_s,
            halves_s=self._halves_s(),
            faulty=faulty,
            down_s=down_s,
            slow_s=None if base_s is None else self._slow_s(factor * base_s, until),
        )

    def _waits(self, mask: NDArray[np.bool_], until: float) -> list[Duration]:
        """Return the durations of these probes; "at least" if not over at `until`, or failed."""
        seconds = np.minimum(self._end, until) - self._start
        cut = ~self._ok | (self._end > until)
        return [Duration(*wait) for wait in zip(seconds[mask], cut[mask], strict=True)]

    def _base(self, start: float, end: float) -> Duration | None:
        mask = (self._start >= start) & (self._end <= end)
        return median(self._waits(mask, end)) if mask.any() else None

    def _halves_s(self) -> tuple[float, ...]:
        before = self._start[self._start < 0.0]
        if not before.size:
            return ()
        middle = float(before[0]) / 2.0
        halves = (self._base(-np.inf, middle), self._base(middle, 0.0))
        return tuple(half.seconds for half in halves if half is not None)

    def _faulty(self, start: float, end: float) -> Duration | None:
        """Return the median of all probes that were under way in that time."""
        mask = (self._start < end) & (self._end > start)
        return median(self._waits(mask, end)) if (mask & ~self._error).any() else None

    def _down_s(self) -> float | None:
        inside = np.flatnonzero((self._start >= 0.0) & (self._start < self._fault_s))
        good = inside[~self._error[inside]]
        last = inside[inside > good[-1]] if good.size else inside
        failing = [float(self._start[last[0]])] if last.size >= _DOWN_LEAST else []
        known = [] if self._known_down_s is None else [self._known_down_s]
        return min(failing + known, default=None)

    def _slow_s(self, limit_s: float, until: float) -> tuple[float, float] | None:
        """Return the interval in which quick probes turned into slow ones.

        The change is the place that misjudges the fewest probes. It lies after the begin of the
        last quick probe, and before the first slow probe exceeded the limit.
        """
        waited = np.minimum(self._end, until) - self._start
        slow = waited > limit_s
        is_decided = (
            (self._end > 0.0) & (self._start < until) & (slow | (self._ok & (self._end <= until)))
        )
        start, slow = self._start[is_decided], slow[is_decided]
        if not slow.any():
            return None
        errors = np.concatenate([[0], np.cumsum(slow)]) + np.concatenate([
            np.cumsum(~slow[::-1])[::-1], [0]
        ])  # fmt: skip
        change = int(np.argmin(errors))
        if change == slow.size:
            return None
        first = change + int(np.argmax(slow[change:]))
        low = max(0.0, float(start[change - 1])) if change else 0.0
        return low, max(low, min(float(start[first]) + limit_s, until))
