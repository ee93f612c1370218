"""Calibration of `changes.py`: changes found of those planted, and false alarms.

python -m experiments.nightly.calibrate

It makes up years of nights. Each night's logarithm is a level plus the difference between runs, and
the host has a bad night now and then. In some rows a night is correlated with the night before.
Every night the series until then is examined, as `nightly` does. The second table shows how often a
further run lies in its predicted interval.
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
    """Alarms of a year's looks."""

    # Night of the look, night of the change, and True for a change upwards.
    alarms: tuple[tuple[int, int, bool], ...]

    def delay_after(self, at: int) -> int | None:
        """Return the nights from a change to its alarm; None if there was none, or none in time."""
        for look_night, at_night, _ in self.alarms:
            if abs(at_night - at) <= _SAME and look_night - at <= DELAY_MAX:
                return look_night - at
        return None


def year(
    rng: np.random.Generator,
    spread: float,
    nights: int = 365,
    at: int = 0,
    size: float = 0.0,
    correlation: float = 0.0,
) -> NDArray[np.float64]:
    """Return a night's logarithm each, with a change of `size` from night `at` on.

    Student's t with 5 degrees of freedom, scaled to `spread`; one night in twenty is off by three
    times as much. `correlation`: rho of x_n = rho x_n-1 + noise, with the same spread.
    """
    values = rng.standard_t(5, nights) * spread / math.sqrt(5 / 3)
    for night in range(1, nights if correlation else 0):
        fresh = math.sqrt(1 - correlation**2) * values[night]
        values[night] = correlation * values[night - 1] + fresh
    is_bad = rng.random(nights) < _BAD_NIGHT
    values[is_bad] += rng.choice([-1.0, 1.0], is_bad.sum()) * _BAD_SIZE * spread
    values[at:] += size
    return values


def find_alarms(values: NDArray[np.float64], first: int = 2) -> Alarms:
    """Return the alarms of a look each night from the `first` on; no change is reported twice."""
    return Alarms(_alarms(len(values), first, lambda count: shifts(values[:count].tolist())))


def _alarms(
    nights: int, first: int, look: Callable[[int], list[Shift]]
) -> tuple[tuple[int, int, bool], ...]:
    alarms: list[tuple[int, int, bool]] = []
    for night in range(first, nights + 1):
        for shift in look(night):
            up = shift.size > 0
            if all(abs(shift.at - at) > _SAME or up != was_up for _, at, was_up in alarms):
                alarms.append((night, shift.at, up))
    return tuple(alarms)


def false_alarms(
    rng: np.random.Generator, spread: float, years: int, correlation: float = 0.0
) -> float:
    """Return the alarms a year in years without any change."""
    years_values = (year(rng, spread, correlation=correlation) for _ in range(years))
    return sum(len(find_alarms(values).alarms) for values in years_values) / years


def design_alarms(seed: int) -> tuple[int, int]:
    """Count the alarms in a year of a design of two arms that does not change, and its series."""
    runs = [run for night in made_up_nights(PLANTED[0], 365, seed=seed) for run in night]
    all_of_design, watch = list(all_series(History(runs=tuple(runs)))), Watch()
    alarms = 0
    for series in all_of_design:

        def look(count: int, series: Series = series) -> list[Shift]:
            return shifts_of(series.first(count), watch)

        alarms += len(_alarms(len(series.values), 2, look))
    return alarms, len(all_of_design)


def detection(
    rng: np.random.Generator,
    spread: float,
    factor: float,
    times: int,
    correlation: float = 0.0,
) -> tuple[float, float]:
    """Return the share of planted changes found in time, and the median delay in nights."""
    at = 30
    nights = at + DELAY_MAX + 1
    delays = [
        find_alarms(year(rng, spread, nights, at, math.log(factor), correlation), at).delay_after(
            at
        )
        for _ in range(times)
    ]
    found_delays = [delay for delay in delays if delay is not None]
    return len(found_delays) / times, float(np.median(found_delays)) if found_delays else math.nan


def coverage(rng: np.random.Generator, between: float, runs: int, times: int) -> float:
    """Return the share of further runs within their predicted interval.

    Runs have errors of 0.1 to 0.4.
    """
    hits = 0
    for _ in range(times):
        errors = rng.uniform(0.1, 0.4, runs + 1)
        logs = rng.normal(0.0, between, runs + 1) + rng.normal(0.0, errors)
        pooled = pooled_log(logs[:-1].tolist(), errors[:-1].tolist())
        assert pooled.next_low is not None
        assert pooled.next_high is not None
        hits += pooled.next_low <= logs[-1] <= pooled.next_high
    return hits / times


def detection_row(spread: float, correlation: float, years: int, times: int) -> str:
    """Return the figures of one spread as a line of a Markdown table."""
    rng = np.random.default_rng((20261123, round(spread * 1000), round(correlation * 10)))
    alarms = false_alarms(rng, spread, years, correlation)
    cells = [f"{spread:g}", f"{correlation:g}", f"{alarms:.2f}"]
    for factor in FACTORS:
        share, delay = detection(rng, spread, factor, times, correlation=correlation)
        cells.append(f"{share:.0%}" + (f", {delay:.0f} nights" if share else ""))
    return _table_line(cells)


def coverage_row(between: float, times: int) -> str:
    """Return the coverage of a spread between runs, for several numbers of runs."""
    shares = [
        coverage(np.random.default_rng((20261128, runs, round(10 * between))), between, runs, times)
        for runs in RUNS
    ]
    return _table_line([f"{between:g}", *(f"{share:.1%}" for share in shares)])


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    head = ["spread of a night", "together", "false alarms a year", *(f"{f:g} ×" for f in FACTORS)]
    print(_table_line(head) + "\n" + "|---" * len(head) + "|")
    for spread, correlation in ROWS:
        print(detection_row(spread, correlation, years=20, times=200), flush=True)
    yearly_alarms = [design_alarms(seed) for seed in range(1, DESIGN_YEARS + 1)]
    print(
        f"\nA design of two arms, {yearly_alarms[0][1]} series, "
        f"{DESIGN_YEARS} years without a change: "
        f"{sum(alarms for alarms, _ in yearly_alarms) / DESIGN_YEARS:.1f} alarms a year",
        flush=True,
    )
    head = ["spread between runs", *(f"{runs} runs" for runs in RUNS)]
    print("\n" + _table_line(head) + "\n" + "|---" * len(head) + "|")
    for between in BETWEEN:
        print(coverage_row(between, times=2000), flush=True)


if __name__ == "__main__":
    main()
