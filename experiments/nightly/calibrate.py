"""Calibration of `changes.py`: changes found of those planted, and false alarms.

python -m experiments.nightly.calibrate

Made-up years of nights: each night's logarithm is a level plus what runs differ by, with a host
that has a bad night now and then; in some rows a night hangs together with the night before. Every
night the series until then is looked at, as `nightly` does. Below: how often a further run measures
what was said of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.nightly.changes import Shift, Watch, shifts, shifts_of
from experiments.nightly.history import History
from experiments.nightly.levels import Series, all_series
from experiments.nightly.planted import PLANTED, made_up_nights
from experiments.record.metrics.pooled import pooled_log

# Standard deviation of a night's logarithm, and its correlation with the night before.
ROWS = ((0.1, 0.0), (0.2, 0.0), (0.4, 0.0), (0.2, 0.3), (0.2, 0.6))
FACTORS = (1.25, 1.5, 2.0, 4.5)
BETWEEN = (0.0, 0.1, 0.2, 0.4)  # standard deviation between runs
DESIGN_YEARS = 5
RUNS = (3, 5, 8, 12, 18, 30)
DELAY_MAX = 14  # nights within which a change counts as found
_SAME = 3
_BAD_NIGHT = 0.05  # share of nights that are off
_BAD_SIZE = 3.0  # times the spread


@dataclass(frozen=True)
class Alarms:
    """Alarms of a year's looks: for each the night of the look, and where it puts it."""

    alarms: tuple[tuple[int, int, bool], ...]  # and whether upwards

    def planted(self, at: int) -> int | None:
        """Return the nights from a change to its alarm; None if there was none, or none in time."""
        for looked, at_night, _ in self.alarms:
            if abs(at_night - at) <= _SAME and looked - at <= DELAY_MAX:
                return looked - at
        return None


def year(
    rng: np.random.Generator,
    spread: float,
    nights: int = 365,
    at: int = 0,
    size: float = 0.0,
    together: float = 0.0,
) -> NDArray[np.float64]:
    """Return a night's logarithm each, with a change of `size` from night `at` on.

    Student's t with 5 degrees of freedom, scaled to `spread`; one night in twenty is off by three
    times as much. `together`: rho of x_n = rho x_n-1 + noise, with the same spread.
    """
    values = rng.standard_t(5, nights) * spread / math.sqrt(5 / 3)
    for night in range(1, nights if together else 0):
        fresh = math.sqrt(1 - together**2) * values[night]
        values[night] = together * values[night - 1] + fresh
    bad = rng.random(nights) < _BAD_NIGHT
    values[bad] += rng.choice([-1.0, 1.0], bad.sum()) * _BAD_SIZE * spread
    values[at:] += size
    return values


def looked_at(values: NDArray[np.float64], first: int = 2) -> Alarms:
    """Return a look each night from the `first` on; a change that was told is not told again."""
    return Alarms(_alarms(len(values), first, lambda count: shifts(values[:count].tolist())))


def _alarms(
    nights: int, first: int, look: Callable[[int], list[Shift]]
) -> tuple[tuple[int, int, bool], ...]:
    alarms: list[tuple[int, int, bool]] = []
    for night in range(first, nights + 1):
        for shift in look(night):
            up = shift.size > 0
            if all(abs(shift.at - at) > _SAME or up != way for _, at, way in alarms):
                alarms.append((night, shift.at, up))
    return tuple(alarms)


def false_alarms(
    rng: np.random.Generator, spread: float, years: int, together: float = 0.0
) -> float:
    """Alarms a year in years without any change."""
    made = (year(rng, spread, together=together) for _ in range(years))
    return sum(len(looked_at(one).alarms) for one in made) / years


def design_alarms(seed: int) -> tuple[int, int]:
    """Alarms in a year of a whole design of two arms in which nothing changes, and its series."""
    runs = [run for night in made_up_nights(PLANTED[0], 365, seed=seed) for run in night]
    every, watch = list(all_series(History(runs=tuple(runs)))), Watch()
    found = 0
    for series in every:

        def look(count: int, series: Series = series) -> list[Shift]:
            return shifts_of(series.first(count), watch)

        found += len(_alarms(len(series.values), 2, look))
    return found, len(every)


def detection(
    rng: np.random.Generator,
    spread: float,
    factor: float,
    times: int,
    together: float = 0.0,
) -> tuple[float, float]:
    """Share of planted changes that were found in time, and the median delay in nights."""
    at = 30
    nights = at + DELAY_MAX + 1
    delays = [
        looked_at(year(rng, spread, nights, at, math.log(factor), together), at).planted(at)
        for _ in range(times)
    ]
    known = [delay for delay in delays if delay is not None]
    return len(known) / times, float(np.median(known)) if known else math.nan


def coverage(rng: np.random.Generator, between: float, runs: int, times: int) -> float:
    """Rate at which a further run measures what was said of it. Runs have errors of 0.1 to 0.4."""
    held = 0
    for _ in range(times):
        errors = rng.uniform(0.1, 0.4, runs + 1)
        logs = rng.normal(0.0, between, runs + 1) + rng.normal(0.0, errors)
        found = pooled_log(logs[:-1].tolist(), errors[:-1].tolist())
        assert found.next_low is not None
        assert found.next_high is not None
        held += found.next_low <= logs[-1] <= found.next_high
    return held / times


def row(spread: float, together: float, years: int, times: int) -> str:
    """Return the figures of one spread as a line of a Markdown table."""
    rng = np.random.default_rng((20261123, round(spread * 1000), round(together * 10)))
    alarms = false_alarms(rng, spread, years, together)
    cells = [f"{spread:g}", f"{together:g}", f"{alarms:.2f}"]
    for factor in FACTORS:
        share, delay = detection(rng, spread, factor, times, together=together)
        cells.append(f"{share:.0%}" + (f", {delay:.0f} nights" if share else ""))
    return _line(cells)


def covered(between: float, times: int) -> str:
    """Return the coverage of a spread between runs, for several numbers of runs."""
    shares = [
        coverage(np.random.default_rng((20261128, runs, round(10 * between))), between, runs, times)
        for runs in RUNS
    ]
    return _line([f"{between:g}", *(f"{share:.1%}" for share in shares)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Both tables."""
    head = ["spread of a night", "together", "false alarms a year", *(f"{f:g} ×" for f in FACTORS)]
    print(_line(head) + "\n" + "|---" * len(head) + "|")
    for spread, together in ROWS:
        print(row(spread, together, years=20, times=200), flush=True)
    made = [design_alarms(seed) for seed in range(1, DESIGN_YEARS + 1)]
    print(
        f"\nA design of two arms, {made[0][1]} series, {DESIGN_YEARS} years without a change: "
        f"{sum(alarms for alarms, _ in made) / DESIGN_YEARS:.1f} alarms a year",
        flush=True,
    )
    head = ["spread between runs", *(f"{runs} runs" for runs in RUNS)]
    print("\n" + _line(head) + "\n" + "|---" * len(head) + "|")
    for between in BETWEEN:
        print(covered(between, times=2000), flush=True)


if __name__ == "__main__":
    main()
