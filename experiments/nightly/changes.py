r"""Where a design's gain changed from one night to the next, beyond what nights differ by.

Looked at is y_n, the logarithm of baseline / arm of night n: both arms had the same night's host,
so a slower host alone is no change. Three steps:

1. Where: the segmentation of y into constant parts that makes

       sum (y_n - mean of its part)^2 / sigma^2 + PENALTY log(N) (number of parts - 1)

   least, exactly (PELT, Killick et al. 2012, of the library ruptures). No part is shorter than two
   nights: so a change is never seen before a second night confirms it. sigma is what nights differ
   by: the median absolute difference of neighbouring nights, which one change hardly moves.
2. How sure: Student's t test of the parts on both sides. p is of one change looked for where it
   looks best, so it is too small; P_MAX makes up for that, by simulation.
3. Large enough to care: at least `SIZE_MIN`; and there without the night farthest off, so that one
   bad night beside a good one is no change.

`python -m experiments.nightly.calibrate` plants changes in made-up years, and in years without any
counts false alarms. A changed design begins a new series.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from ruptures.detection.kernelcpd import KernelCPD
from scipy import stats

from experiments.nightly.history import History, Run
from experiments.nightly.pooling import night_gain

WATCHED = ("p95", "p99")
PENALTY = 8.0
P_MAX = 0.0005
SIZE_MIN = math.log(1.15)
BEFORE_MIN = 7  # nights before a change, to know what nights differ by
_SAME = 3  # nights by which the place of one change may be told differently later


@dataclass(frozen=True)
class Shift:
    """A change in a series: the first value of the new level, by how much, and how surely."""

    at: int
    size: float
    p: float
    until: int  # where the next part begins


@dataclass(frozen=True)
class Series:
    """A gain over nights, of one version of a design."""

    entry: str
    arm: str
    statistic: str
    runs: tuple[tuple[Run, ...], ...]  # of each night
    logs: tuple[float, ...]

    @property
    def nights(self) -> list[int]:
        """The nights' numbers."""
        return [runs[0].night for runs in self.runs]


@dataclass(frozen=True)
class Change:
    """A change of a gain, as people read it."""

    entry: str
    arm: str
    statistic: str
    night: int  # the first on the new level
    when: datetime
    size: float  # of the log gain: below 0, the arm lost
    p: float
    nights_before: int
    nights_after: int
    commits: tuple[str | None, str | None]  # before and after
    hosts: tuple[str, str]
    speeds: tuple[float | None, float | None]  # of a core, medians of the nights on both sides

    @property
    def identity(self) -> str:
        """Its name in the history."""
        return f"{self.entry}/{self.arm}/{self.statistic}@{self.night}"

    @property
    def factor(self) -> float:
        """By how much the gain became larger, or below 1, smaller."""
        return math.exp(self.size)


def shifts(logs: Sequence[float]) -> list[Shift]:
    """Where a series of logarithms changes its level, oldest first."""
    values = np.asarray(logs, dtype=np.float64)
    if values.size < BEFORE_MIN + 2:
        return []
    sigma = _noise(values)
    if sigma == 0.0:
        return []
    search = KernelCPD(kernel="linear", min_size=2).fit((values / sigma).reshape(-1, 1))
    ends = [0, *map(int, search.predict(pen=PENALTY * math.log(values.size)))]
    found = []
    for begin, at, until in zip(ends, ends[1:], ends[2:], strict=False):
        before, after = values[begin:at], values[at:until]
        size = float(after.mean() - before.mean())
        p = _p_value(before, after, sigma)
        large = at >= BEFORE_MIN and abs(size) >= SIZE_MIN
        if large and p <= P_MAX and _lasts(before, after) and _lasts(after, before):
            found.append(Shift(at, size, p, until))
    return found


def _lasts(part: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """The part is still nearer to itself than to the other without its night farthest off: one
    night is no level."""
    level, rest = float(other.mean()), np.sort(part)
    without = rest[:-1] if part.mean() > level else rest[1:]
    return abs(float(without.mean()) - level) >= abs(float(part.mean()) - level) / 2


def _noise(values: NDArray[np.float64]) -> float:
    """Standard deviation of a night, from neighbouring nights; from all where that is 0."""
    steps = np.diff(values)
    spread = float(np.median(np.abs(steps))) / float(stats.norm.ppf(0.75)) / math.sqrt(2)
    return spread or float(values.std(ddof=1))


def _p_value(before: NDArray[np.float64], after: NDArray[np.float64], sigma: float) -> float:
    """Two-sided, of Student's t test with one variance for both parts: two nights have none of
    their own. It is not taken for less than half of what nights differ by."""
    freedom = before.size + after.size - 2
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in (before, after))
    variance = max(squares / freedom, (sigma / 2) ** 2)
    error = math.sqrt(variance * (1 / before.size + 1 / after.size))
    return float(2 * stats.t.sf(abs(float(after.mean() - before.mean())) / error, freedom))


def all_series(history: History) -> Iterator[Series]:
    """Every gain that is watched, design by design and version by version."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in history.runs:
        if run.valid and run.arm is not None and run.arm != run.baseline:
            groups.setdefault((run.entry, run.arm), []).append(run)
    for (entry, arm), runs in groups.items():
        for version in _versions(runs):
            for statistic in WATCHED:
                yield _series(entry, arm, statistic, version)


def _versions(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Stretches of runs with the same design, by night."""
    part: list[Run] = []
    for run in sorted(runs, key=lambda one: (one.night, one.number)):
        if part and run.digest != part[-1].digest:
            yield part
            part = []
        part.append(run)
    if part:
        yield part


def _series(entry: str, arm: str, statistic: str, runs: Sequence[Run]) -> Series:
    nights: dict[int, list[Run]] = {}
    for run in runs:
        nights.setdefault(run.night, []).append(run)
    told = [(tuple(group), night_gain(group, statistic)) for group in nights.values()]
    known = [(group, gain.log) for group, gain in told if gain is not None]
    groups, logs = tuple(one for one, _ in known), tuple(log for _, log in known)
    return Series(entry, arm, statistic, groups, logs)


def changes(history: History) -> list[Change]:
    """Every change in the history, newest first."""
    found = [
        _change(series, shift) for series in all_series(history) for shift in shifts(series.logs)
    ]
    return sorted(found, key=lambda change: -change.night)


def new_changes(history: History) -> list[Change]:
    """Those that no night has told of yet."""
    told = [_parts(identity) for end in history.ends for identity in end.changes]
    return [
        change
        for change in changes(history)
        if not any(
            series == _parts(change.identity)[0] and abs(night - change.night) <= _SAME
            for series, night in told
        )
    ]


def _parts(identity: str) -> tuple[str, int]:
    series, _, night = identity.rpartition("@")
    return series, int(night)


def _change(series: Series, shift: Shift) -> Change:
    before, after = series.runs[shift.at - 1][-1], series.runs[shift.at][0]
    return Change(
        entry=series.entry,
        arm=series.arm,
        statistic=series.statistic,
        night=after.night,
        when=after.at,
        size=shift.size,
        p=shift.p,
        nights_before=shift.at,
        nights_after=shift.until - shift.at,
        commits=(before.commit, after.commit),
        hosts=(host_words(before), host_words(after)),
        speeds=(_speed(series.runs[: shift.at]), _speed(series.runs[shift.at : shift.until])),
    )


def _speed(nights: Sequence[Sequence[Run]]) -> float | None:
    known = [run.core_speed for runs in nights for run in runs if run.core_speed is not None]
    return float(np.median(known)) if known else None


def host_words(run: Run) -> str:
    """The machine that carried a run."""
    host = run.host
    return f"{host.get('cores')} x {host.get('cpu')}, Linux {host.get('kernel')}" if host else "?"
