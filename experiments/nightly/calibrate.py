"""How well `changes.py` finds what was planted, and how often it cries without cause.

python -m experiments.nightly.calibrate [SPREAD ...]

Made-up years of nights: each night's log gain is a level plus what runs differ by, with a host that
has a bad night now and then. Every night the series until then is looked at, as `nightly` does.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.nightly.changes import shifts

SPREADS = (0.1, 0.2, 0.4)  # standard deviation of a night's log gain
FACTORS = (1.25, 1.5, 2.0, 3.0)
DELAY_MAX = 14  # nights within which a change counts as found
_SAME = 3
_BAD_NIGHT = 0.05  # share of nights that are off
_BAD_SIZE = 3.0  # times the spread


@dataclass(frozen=True)
class Found:
    """What a year's looks came to: for each alarm the night of the look, and where it puts it."""

    alarms: tuple[tuple[int, int], ...]

    def planted(self, at: int) -> int | None:
        """How many nights after the change it was told; None if it was not, or not in time."""
        for looked, place in self.alarms:
            if abs(place - at) <= _SAME and looked - at <= DELAY_MAX:
                return looked - at
        return None


def year(
    rng: np.random.Generator, spread: float, nights: int = 365, at: int = 0, size: float = 0.0
) -> NDArray[np.float64]:
    """A night's log gain each, with a change of `size` from night `at` on.

    Student's t with 5 degrees of freedom, scaled to `spread`; one night in twenty is off by three
    times as much.
    """
    values = rng.standard_t(5, nights) * spread / math.sqrt(5 / 3)
    bad = rng.random(nights) < _BAD_NIGHT
    values[bad] += rng.choice([-1.0, 1.0], bad.sum()) * _BAD_SIZE * spread
    values[at:] += size
    return values


def looked_at(values: NDArray[np.float64], first: int = 2) -> Found:
    """A look each night from the `first` on; a change that was told is not told again."""
    alarms: list[tuple[int, int]] = []
    for night in range(first, len(values) + 1):
        for shift in shifts(values[:night].tolist()):
            if all(abs(shift.at - place) > _SAME for _, place in alarms):
                alarms.append((night, shift.at))
    return Found(tuple(alarms))


def false_alarms(rng: np.random.Generator, spread: float, years: int) -> float:
    """Alarms a year in years without any change."""
    return sum(len(looked_at(year(rng, spread)).alarms) for _ in range(years)) / years


def detection(
    rng: np.random.Generator, spread: float, factor: float, times: int, at: int = 30
) -> tuple[float, float]:
    """Share of planted changes that were found in time, and the median delay in nights."""
    nights = at + DELAY_MAX + 1
    delays = [
        looked_at(year(rng, spread, nights, at, math.log(factor)), at).planted(at)
        for _ in range(times)
    ]
    known = [delay for delay in delays if delay is not None]
    return len(known) / times, float(np.median(known)) if known else math.nan


def row(spread: float, years: int, times: int) -> str:
    """The figures of one spread as a line of a Markdown table."""
    rng = np.random.default_rng((20261123, round(spread * 1000)))
    cells = [f"{spread:g}", f"{false_alarms(rng, spread, years):.2f}"]
    for factor in FACTORS:
        share, delay = detection(rng, spread, factor, times)
        cells.append(f"{share:.0%}" + (f", {delay:.0f} nights" if share else ""))
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """The table, or the lines of the spreads that are given."""
    head = ["spread of a night", "false alarms a year", *(f"{f:g} ×" for f in FACTORS)]
    print(f"| {' | '.join(head)} |")
    print("|---" * len(head) + "|")
    for spread in [float(word) for word in sys.argv[1:]] or SPREADS:
        print(row(spread, years=40, times=400), flush=True)


if __name__ == "__main__":
    main()
