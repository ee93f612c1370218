r"""Arrivals whose rate varies in a block: stages, as k6 calls them, and traces of arrival times.

With a rate lambda(t) and its integral Lambda(t), the times Lambda^-1(S_k) of a Poisson process S_k
of rate 1 are those of the process of rate lambda(t) (time change: Cinlar 1975, Introduction to
Stochastic Processes, section 4.7; Lewis and Shedler 1979). In a stage lambda is a straight line,
so the inverse is a root.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from core.config_file import Strict
from core.errors import InputError

STAGES_MAX = 100
TRACE_BYTES_MAX = 64 * 1024 * 1024
ARRIVALS_MAX = 1_000_000
Arrivals = Literal["poisson", "constant", "trace"]
COLUMN = "at_s"  # of a trace
_BROKEN_MAX = 5  # lines that an error names


class Stage(Strict):
    """A part of the measurement in which the rate goes to another."""

    duration: Annotated[float, Field(gt=0, le=3600)]
    """Length [s]."""
    target: Annotated[float, Field(ge=0)]
    """Requests a second at its end."""
    ramp: Literal["linear", "step"] = "linear"
    """Change linearly from the rate before, or at once."""


@dataclass(frozen=True)
class Piece:
    """A stretch of a block in which the rate is a straight line."""

    length_s: float
    begin_per_s: float
    end_per_s: float

    @property
    def arrivals(self) -> float:
        """The mean number of arrivals."""
        return self.length_s * (self.begin_per_s + self.end_per_s) / 2.0


def pieces(warm_up_s: float, rate_per_s: float, stages: Sequence[Stage]) -> tuple[Piece, ...]:
    """Return the pieces of a block: the warm-up at `rate_per_s`, then the stages."""
    block = [Piece(warm_up_s, rate_per_s, rate_per_s)] if warm_up_s > 0.0 else []
    before = rate_per_s
    for stage in stages:
        begin = stage.target if stage.ramp == "step" else before
        block.append(Piece(stage.duration, begin, stage.target))
        before = stage.target
    return tuple(block)


def varying_arrivals(
    arrivals: Arrivals,
    parts: Sequence[Piece],
    share: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the intended starts, ascending, in [0, the parts' length).

    poisson: a Poisson process of the parts' rate; constant: arrival k comes when the mean number of
    arrivals before it is k.

    Parameters: share, above 0, of the rate that these arrivals have: a session counts as its steps.
    """
    total = share * sum(piece.arrivals for piece in parts)
    if arrivals == "constant":
        counts = np.arange(np.ceil(total), dtype=np.float64)
    else:
        counts = np.empty(0)
        while not counts.size or counts[-1] < total:
            last = counts[-1] if counts.size else 0.0
            counts = np.concatenate([counts, last + np.cumsum(rng.exponential(1.0, size=1024))])
    return _times_at(counts[counts < total] / share, parts)


def _times_at(counts: NDArray[np.float64], parts: Sequence[Piece]) -> NDArray[np.float64]:
    """Return the time at which the mean number of arrivals is each of `counts`, ascending."""
    begins_s = np.cumsum([0.0, *(piece.length_s for piece in parts)])
    before = np.cumsum([0.0, *(piece.arrivals for piece in parts)])
    index = np.searchsorted(before, counts, side="right").clip(min=1, max=len(parts)) - 1
    rate = np.asarray([piece.begin_per_s for piece in parts])[index]
    slopes = [(piece.end_per_s - piece.begin_per_s) / piece.length_s for piece in parts]
    slope = np.asarray(slopes)[index]
    more = counts - before[index]
    root = rate + np.sqrt(np.maximum(rate**2 + 2.0 * slope * more, 0.0))
    within_s = np.divide(2.0 * more, root, out=np.zeros_like(more), where=root > 0.0)
    return np.asarray(begins_s[index] + within_s, dtype=np.float64)


def read_trace(path: Path) -> tuple[float, ...]:
    """Return the arrival times of a CSV file with a column `at_s` [s], ascending, from 0 on.

    Raises: InputError with the file and its first broken lines.
    """
    times: list[float] = []
    broken: list[int] = []
    for line, text in _read_column(path):
        try:
            at_s = float(text)
        except ValueError:
            at_s = -1.0
        if not (times[-1] if times else 0.0) <= at_s < 1e9:
            broken.append(line)
        elif len(times) == ARRIVALS_MAX:
            raise InputError(
                f"{path}:{line}",
                expected=f"at most {ARRIVALS_MAX:,} arrivals",
                got="more",
                hint="Cut the trace: a block takes only as much as it is long.",
            )
        else:
            times.append(at_s)
    if broken or not times:
        first = ", ".join(map(str, broken[:_BROKEN_MAX]))
        raise InputError(
            f"{path}:{broken[0]}" if broken else str(path),
            expected=f"seconds of at least 0 in the column {COLUMN}, none before the one above it",
            got=f"{len(broken):,} lines of another kind (lines {first})" if broken else "no line",
            hint="Correct these lines, or take them out.",
        )
    return tuple(times)


def _read_column(path: Path) -> Iterator[tuple[int, str]]:
    try:
        if path.stat().st_size > TRACE_BYTES_MAX:
            raise InputError(
                str(path),
                expected=f"a trace of at most {TRACE_BYTES_MAX:,} bytes",
                got=f"{path.stat().st_size:,}",
                hint="Cut it: a block takes only as much as it is long.",
            )
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            rows = csv.reader(file)
            head = next(rows, [])
            if COLUMN not in head:
                raise InputError(
                    f"{path}:1",
                    expected=f"a line with the names of the columns, {COLUMN} among them",
                    got=", ".join(head)[:80] or "nothing",
                    hint=f"Write {COLUMN} into the first line.",
                )
            index = head.index(COLUMN)
            for row in rows:
                if row:
                    yield rows.line_num, row[index] if len(row) > index else ""
    except csv.Error as error:
        raise InputError(
            str(path), expected="CSV", got=str(error), hint="Correct that line."
        ) from error
    except OSError as error:
        raise InputError(
            str(path),
            expected="a file of the design's folder",
            got=str(error.strerror),
            hint="Write it, or correct `trace`.",
        ) from error


def at_rate(times_s: Sequence[float], rate_per_s: float) -> NDArray[np.float64]:
    """Return a trace with its clock stretched to another mean rate; unchanged at its own rate."""
    times = np.asarray(times_s, dtype=np.float64)
    mean_per_s = mean_rate_per_s(times_s)
    return times if mean_per_s == rate_per_s else np.asarray(times * (mean_per_s / rate_per_s))


def mean_rate_per_s(times_s: Sequence[float]) -> float:
    """Return the arrivals per second up to the last one; a trace of arrivals at 0 s counts each as
    one per second.
    """
    return len(times_s) / times_s[-1] if times_s[-1] > 0.0 else float(len(times_s))
