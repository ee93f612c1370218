"""Operations and times of a block's arrivals, drawn in advance from its seed.

By rank (a `workload.py`) each arrival asks one operation. With weights (`[[load.operations]]`) an
arrival asks a single one or begins a session. Each step of a session has its own place, at its
earliest possible time: the session's begin and the waits before it. Its actual time depends on the
answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.design.arrival_rate import Piece, at_rate, varying_arrivals
from experiments.design.experiment import SentLoad
from experiments.design.schedule import arrivals, operation_choices, stream, writes
from experiments.design.workloads import Population

ALONE = -1  # instead of a session's number, or of the step before


@dataclass(frozen=True)
class DrawnArrivals:
    """Arrivals in the order of their offsets; empty where no population has such a thing.

    session_of: the session that each is a step of, or ALONE; after: the place of the step before,
    or ALONE; think_s: the wait between its answer and this step; row_of: the row of the table.
    """

    offsets_s: tuple[float, ...]
    operation_of: tuple[int, ...]
    session_of: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    think_s: tuple[float, ...] = ()
    row_of: tuple[int, ...] = ()


@dataclass(frozen=True)
class Timing:
    """Times of arrivals [s]: at the load's rate, at that of `parts`, or from a `trace`."""

    load: SentLoad
    length_s: float
    seed: int
    parts: tuple[Piece, ...] = ()
    trace: tuple[float, ...] | None = None

    def begins_s(self, per_arrival: float = 1.0) -> NDArray[np.float64]:
        """Return the intended starts in the block [s], ascending.

        Parameters: per_arrival, the mean number of requests of an arrival; of no effect on a trace.
        """
        kind, rate_per_s = self.load.arrivals, self.load.rate_per_s
        if self.trace is not None:
            times_s = at_rate(self.trace, rate_per_s)
        elif self.parts:
            rng = stream(self.seed, "arrivals")
            times_s = varying_arrivals(kind, self.parts, 1.0 / per_arrival, rng)
        else:
            return arrivals(kind, rate_per_s / per_arrival, self.length_s, self.seed)
        return times_s[times_s < self.length_s]


def draw(population: Population, timing: Timing) -> DrawnArrivals:
    """Return all arrivals of a block, without those that would begin after its end."""
    seed = timing.seed
    if population.weights:
        return _draw_weighted(population, timing)
    offsets_s = timing.begins_s()
    count = len(population.operations)
    choices = operation_choices(count, len(offsets_s), seed, population.zipf)
    if population.writes:
        choices = choices + count * writes(population.write_share, len(offsets_s), seed)
    return DrawnArrivals(tuple(offsets_s.tolist()), tuple(choices.tolist()))


def requests_per_arrival(population: Population) -> float:
    """Return the mean number of requests of an arrival: one for a single operation, the number of
    steps for a session.
    """
    weights = [*population.weights, *(session.weight for session in population.sessions)]
    steps = [len(session.steps) for session in population.sessions]
    sizes = [*(1 for _ in population.weights), *steps]
    return float(np.dot(weights, sizes) / np.sum(weights))


def _draw_weighted(population: Population, timing: Timing) -> DrawnArrivals:
    seed = timing.seed
    begins_s = timing.begins_s(requests_per_arrival(population))
    weights = [*population.weights, *(session.weight for session in population.sessions)]
    choices = _choices(np.asarray(weights), len(begins_s), seed)
    if not population.sessions:
        rows = _rows(population, len(begins_s), seed)
        return DrawnArrivals(
            tuple(begins_s.tolist()), tuple(choices.tolist()), row_of=tuple(rows.tolist())
        )
    return _expand_sessions(population, begins_s, choices, timing.length_s, seed)


def _expand_sessions(
    population: Population,
    begins_s: NDArray[np.float64],
    choices: NDArray[np.int64],
    length_s: float,
    seed: int,
) -> DrawnArrivals:
    """Return the arrivals with each session as its steps, in the order of their offsets."""
    rows = _rows(population, len(begins_s), seed)
    waits = stream(seed, "think")
    count = len(population.operations)
    arrival_rows: list[tuple[float, int, int, int, float, int]] = []
    for number, (begin_s, choice) in enumerate(
        zip(begins_s.tolist(), choices.tolist(), strict=True)
    ):
        row = int(rows[number]) if rows.size else ALONE
        if choice < count:
            arrival_rows.append((begin_s, choice, ALONE, ALONE, 0.0, row))
            continue
        before, at_s = ALONE, begin_s
        for step in population.sessions[choice - count].steps:
            think_s = float(waits.uniform(step.think_s_min, step.think_s_max))
            at_s += think_s
            if at_s < length_s:
                arrival_rows.append((at_s, step.operation, choice - count, before, think_s, row))
                before = len(arrival_rows) - 1
    order = sorted(range(len(arrival_rows)), key=lambda index: (arrival_rows[index][0], index))
    new_index = {old_index: index for index, old_index in enumerate(order)}
    columns = list(zip(*(arrival_rows[old_index] for old_index in order), strict=True)) or [()] * 6
    return DrawnArrivals(
        columns[0],
        columns[1],
        columns[2],
        tuple(ALONE if before == ALONE else new_index[before] for before in columns[3]),
        columns[4],
        columns[5] if rows.size else (),
    )


def _choices(weights: NDArray[np.float64], count: int, seed: int) -> NDArray[np.int64]:
    edges = np.cumsum(weights / weights.sum())
    points = stream(seed, "pages").random(count)
    return np.searchsorted(edges, points, side="right").clip(max=len(weights) - 1)


def _rows(population: Population, count: int, seed: int) -> NDArray[np.int64]:
    """Return a row of the table for each; empty without a table."""
    if population.table is None:
        return np.empty(0, dtype=np.int64)
    return stream(seed, "rows").integers(len(population.table.rows), size=count)
