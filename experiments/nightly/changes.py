r"""Changes of a design's metric from one night to the next, beyond the spread of nights.

Every series of `levels.py` is examined, on a scale on which nights differ by about as much at every
level (y_n: a logarithm, or a share as an angle). Three steps:

1. Where: the segmentation of y into constant parts that makes

       sum (y_n - mean of its part)^2 / s^2 + PENALTY log(N) (number of parts - 1)

   least, exactly (PELT, Killick et al. 2012, of the library ruptures). No part is shorter than two
   nights, so no change is reported before a second night confirms it. s is the spread of nights:
   the median absolute difference of neighbouring nights, which one change hardly moves; it is
   larger if nights are correlated. With rho, the correlation with the night before, a mean of n
   nights is as uncertain as one of n (1 - rho) / (1 + rho) independent nights (Bartlett 1946).
2. How sure: Student's t test of the parts on both sides. The change is at the place where it looks
   best, so p is too small; `p_max` makes up for that, by simulation.
3. Large enough: at least `size_min`. The change must also remain without the night farthest off, so
   that one bad night beside a good one is no change. A level that the host's speed moves must also
   change at the reference kernel's speed, in the same direction; the smaller size is reported.

`python -m experiments.nightly.calibrate` plants changes in made-up years, and counts false alarms
in years without a change. A changed design begins a new series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from ruptures.detection.kernelcpd import KernelCPD
from scipy import stats

from core.config_file import Strict
from experiments.nightly.history import History, Run
from experiments.nightly.levels import LOG_NOISE_MIN, Series, all_series

PENALTY = 8.0
_SAME = 3  # nights by which the place of one change may be told differently later
_RHO_MAX = 0.9
_HOST_SAME = math.log(1.25)  # of how far medians of the kernel's speed may lie apart
_CLIPPED = 0.9  # of all differences of neighbouring nights, those that are not clipped


class Watch(Strict):
    """Limits of the changes that are reported."""

    size_min: Annotated[float, Field(gt=1, le=10)] = 1.15
    """Least factor of a change."""
    p_max: Annotated[float, Field(gt=0, le=0.05)] = 0.0005
    """Largest p of the test of the nights before against those after; small, because every night
    and metric is tested."""
    nights_min: Annotated[int, Field(ge=3, le=365)] = 7
    """Least number of nights before a change."""


@dataclass(frozen=True)
class Shift:
    """A change in a series: the first value of the new level, by how much, and how surely."""

    begin: int  # of the part before
    at: int
    until: int  # where the next part begins
    size: float
    p: float


@dataclass(frozen=True)
class Change:
    """A change of a metric, as people read it."""

    entry: str
    arm: str | None  # None: of the whole run
    metric: str
    key: str  # of its series
    night: int  # the first on the new level
    when: datetime
    before: float
    after: float
    size: float  # log of how many times larger it became; at the kernel's speed if that is less
    p: float
    nights_before: int
    nights_after: int
    commits: tuple[str | None, str | None]  # before and after
    hosts: tuple[str, str]
    speeds: tuple[float | None, float | None]  # of the reference kernel, medians on both sides

    @property
    def direction(self) -> str:
        """`up` where the metric became larger, else `down`."""
        return "up" if self.size > 0 else "down"

    @property
    def identity(self) -> str:
        """Name in the history."""
        return f"{self.key}/{self.direction}@{self.night}"

    @property
    def factor(self) -> float:
        """The factor by which the metric became larger, or below 1, smaller."""
        return math.exp(self.size)

    @property
    def host_factor(self) -> float | None:
        """The factor by which the host became faster; None if it did not by more than a
        quarter.
        """
        before, after = self.speeds
        if before is None or after is None or abs(math.log(after / before)) < _HOST_SAME:
            return None
        return after / before


def shifts(values: Sequence[float]) -> list[Shift]:
    """Return the changes of level in a series of logarithms, oldest first."""
    watch = Watch()
    least_size = math.log(watch.size_min)
    candidates = _shifts(np.asarray(values, dtype=np.float64), LOG_NOISE_MIN, watch)
    return [shift for shift in candidates if abs(shift.size) >= least_size]


def _shifts(values: NDArray[np.float64], noise_min: float, watch: Watch) -> list[Shift]:
    """Find the shifts that are significant and last, of any size."""
    if values.size < watch.nights_min + 2:
        return []
    sigma, inflation = _noise(values, noise_min)
    search = KernelCPD(kernel="linear", min_size=2).fit((values / sigma / inflation)[:, None])
    edges = [0, *map(int, search.predict(pen=PENALTY * math.log(values.size)))]
    significant = []
    for begin, at, until in zip(edges, edges[1:], edges[2:], strict=False):
        before, after = values[begin:at], values[at:until]
        p = _p_value(before, after, max(sigma / 2, noise_min), inflation)
        if at >= watch.nights_min and p <= watch.p_max and _are_levels(before, after):
            significant.append(Shift(begin, at, until, float(after.mean() - before.mean()), p))
    return significant


def _are_levels(before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    return _is_level(before, after) and _is_level(after, before)


def _is_level(part: NDArray[np.float64], neighbour: NDArray[np.float64]) -> bool:
    """Return whether the part is a level also without its night farthest from the neighbour.

    Its mean then keeps at least half of its distance to the neighbour: one night is no level.
    """
    level, ordered = float(neighbour.mean()), np.sort(part)
    without = ordered[:-1] if part.mean() > level else ordered[1:]
    return abs(float(without.mean()) - level) >= abs(float(part.mean()) - level) / 2


def _noise(values: NDArray[np.float64], noise_min: float) -> tuple[float, float]:
    r"""Return the standard deviation of a night, and the factor by which correlation raises that of
    a mean of nights.

    With differences d of neighbouring nights, which a change moves once only, clipped so that it
    counts little: their own correlation is -(1 - rho) / 2, so rho = 1 + 2 corr(d_n, d_n+1). Only
    what exceeds its standard error, 1 / sqrt(N), counts. Var(d) = 2 sigma^2 (1 - rho).
    """
    steps = np.diff(values)
    limit = float(np.quantile(np.abs(steps), _CLIPPED))
    clipped = np.clip(steps, -limit, limit)
    squares = float(clipped @ clipped)
    if squares == 0.0:
        return noise_min, 1.0
    together = 1 + 2 * float(clipped[1:] @ clipped[:-1]) / squares
    rho = min(max(together - 1 / math.sqrt(values.size), 0.0), _RHO_MAX)
    spread = float(np.median(np.abs(steps))) / float(stats.norm.ppf(0.75))
    spread = spread or math.sqrt(squares / steps.size)  # most nights are the same, some are not
    sigma = max(spread / math.sqrt(2 * (1 - rho)), noise_min)
    return sigma, math.sqrt((1 + rho) / (1 - rho))


def _p_value(
    before: NDArray[np.float64], after: NDArray[np.float64], noise_min: float, inflation: float
) -> float:
    """Return the two-sided p of Student's t test with one variance for both parts.

    Two nights have no variance of their own. The spread of nights is at least `noise_min`.
    """
    freedom = before.size + after.size - 2
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in (before, after))
    variance = max(squares / freedom, noise_min**2) * inflation**2
    error = math.sqrt(variance * (1 / before.size + 1 / after.size))
    return float(2 * stats.t.sf(abs(float(after.mean() - before.mean())) / error, freedom))


def changes(history: History, watch: Watch | None = None) -> list[Change]:
    """Return every change in the history, newest first."""
    watch = watch or Watch()
    all_changes = [
        _change(series, shift)
        for series in all_series(history)
        for shift in shifts_of(series, watch)
    ]
    return sorted(all_changes, key=lambda change: -change.night)


def shifts_of(series: Series, watch: Watch) -> list[Shift]:
    """Return the changes of level in a series that are large enough, and not only the host's."""
    return [
        replace(shift, size=size)
        for shift in _shifts(series.scaled, series.noise_min, watch)
        if (size := _size(series, shift, watch)) is not None
    ]


def _size(series: Series, shift: Shift, watch: Watch) -> float | None:
    """Return the size of a shift; None if it is too small, or caused by the host alone."""
    size = series.size(shift.begin, shift.at, shift.until)
    if series.speeds is not None:
        at_kernel_speed = np.asarray(series.scaled) + np.asarray(series.speeds)
        before, after = (
            at_kernel_speed[shift.begin : shift.at],
            at_kernel_speed[shift.at : shift.until],
        )
        sigma, inflation = _noise(at_kernel_speed, series.noise_min)
        at_speed = float(after.mean() - before.mean())
        is_significant = (
            _p_value(before, after, max(sigma / 2, series.noise_min), inflation) <= watch.p_max
        )
        if not is_significant or not _are_levels(before, after) or at_speed * size <= 0:
            return None
        size = min(size, at_speed, key=abs)
    return size if abs(size) >= math.log(watch.size_min) else None


def new_changes(history: History, watch: Watch | None = None) -> list[Change]:
    """Return the changes that no night has reported."""
    reported = [_parse_identity(identity) for end in history.ends for identity in end.changes]
    return [
        change
        for change in changes(history, watch)
        if not any(
            key == change.key
            and direction == change.direction
            and abs(night - change.night) <= _SAME
            for key, direction, night in reported
        )
    ]


def _parse_identity(identity: str) -> tuple[str, str, int]:
    """Return series, direction and night."""
    name, _, night = identity.rpartition("@")
    key, _, direction = name.rpartition("/")
    return key, direction, int(night)


def _change(series: Series, shift: Shift) -> Change:
    before, after = series.nights[shift.at - 1][-1], series.nights[shift.at][0]
    return Change(
        entry=series.entry,
        arm=series.arm,
        metric=series.metric,
        key=series.key,
        night=after.night,
        when=after.at,
        before=series.level(shift.begin, shift.at),
        after=series.level(shift.at, shift.until),
        size=shift.size,
        p=shift.p,
        nights_before=shift.at - shift.begin,
        nights_after=shift.until - shift.at,
        commits=(before.commit, after.commit),
        hosts=(host_words(before), host_words(after)),
        speeds=(
            _speed(series.nights[shift.begin : shift.at]),
            _speed(series.nights[shift.at : shift.until]),
        ),
    )


def _speed(nights: Sequence[Sequence[Run]]) -> float | None:
    rates = [run.reference_per_s for runs in nights for run in runs if run.reference_per_s]
    return float(np.median(rates)) if rates else None


def host_words(run: Run) -> str:
    host = run.host
    return f"{host.get('cores')} x {host.get('cpu')}, Linux {host.get('kernel')}" if host else "?"
