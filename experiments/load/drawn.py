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

ALONE = -1  # in place of a session, or of the step before


@dataclass(frozen=True)
class Drawn:
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
        """Intended starts in the block, ascending; an arrival counts as `per_arrival` requests, of
        a trace as one."""
        kind, rate_per_s = self.load.arrivals, self.load.rate_per_s
        if self.trace is not None:
            times_s = at_rate(self.trace, rate_per_s)
        elif self.parts:
            rng = stream(self.seed, "arrivals")
            times_s = varying_arrivals(kind, self.parts, 1.0 / per_arrival, rng)
        else:
            return arrivals(kind, rate_per_s / per_arrival, self.length_s, self.seed)
        return times_s[times_s < self.length_s]


def draw(population: Population, timing: Timing) -> Drawn:
    """Return all of a block; what would leave later than it ends is left out."""
    seed = timing.seed
    if population.weights:
        return _weighted(population, timing)
    offsets_s = timing.begins_s()
    count = len(population.operations)
    chosen = operation_choices(count, len(offsets_s), seed, population.zipf)
    if population.writes:
        chosen = chosen + count * writes(population.write_share, len(offsets_s), seed)
    return Drawn(tuple(offsets_s.tolist()), tuple(chosen.tolist()))


def requests_per_arrival(population: Population) -> float:
    """Return the mean over arrivals: one for an operation by itself, the steps of a session for
    that.
    """
    weights = [*population.weights, *(one.weight for one in population.sessions)]
    sizes = [*(1 for _ in population.weights), *(len(one.steps) for one in population.sessions)]
    return float(np.dot(weights, sizes) / np.sum(weights))


def _weighted(population: Population, timing: Timing) -> Drawn:
    seed = timing.seed
    begins_s = timing.begins_s(requests_per_arrival(population))
    weights = [*population.weights, *(one.weight for one in population.sessions)]
    chosen = _choices(np.asarray(weights), len(begins_s), seed)
    if not population.sessions:
        rows = _rows(population, len(begins_s), seed)
        return Drawn(tuple(begins_s.tolist()), tuple(chosen.tolist()), row_of=tuple(rows.tolist()))
    return _expanded(population, begins_s, chosen, timing.length_s, seed)


def _expanded(
    population: Population,
    begins_s: NDArray[np.float64],
    chosen: NDArray[np.int64],
    length_s: float,
    seed: int,
) -> Drawn:
    """Return each session as its steps, all in the order of their offsets."""
    rows = _rows(population, len(begins_s), seed)
    waits = stream(seed, "think")
    count = len(population.operations)
    found: list[tuple[float, int, int, int, float, int]] = []
    for number, (begin_s, choice) in enumerate(
        zip(begins_s.tolist(), chosen.tolist(), strict=True)
    ):
        row = int(rows[number]) if rows.size else ALONE
        if choice < count:
            found.append((begin_s, choice, ALONE, ALONE, 0.0, row))
            continue
        before, at_s = ALONE, begin_s
        for step in population.sessions[choice - count].steps:
            think_s = float(waits.uniform(step.think_s_min, step.think_s_max))
            at_s += think_s
            if at_s < length_s:
                found.append((at_s, step.operation, choice - count, before, think_s, row))
                before = len(found) - 1
    order = sorted(range(len(found)), key=lambda index: (found[index][0], index))
    new = {old: index for index, old in enumerate(order)}
    columns = list(zip(*(found[old] for old in order), strict=True)) or [()] * 6
    return Drawn(
        columns[0],
        columns[1],
        columns[2],
        tuple(ALONE if before == ALONE else new[before] for before in columns[3]),
        columns[4],
        columns[5] if rows.size else (),
    )


def _choices(weights: NDArray[np.float64], count: int, seed: int) -> NDArray[np.int64]:
    edges = np.cumsum(weights / weights.sum())
    drawn = stream(seed, "pages").random(count)
    return np.searchsorted(edges, drawn, side="right").clip(max=len(weights) - 1)


def _rows(population: Population, count: int, seed: int) -> NDArray[np.int64]:
    """Return a row of the table for each; empty without a table."""
    if population.table is None:
        return np.empty(0, dtype=np.int64)
    return stream(seed, "rows").integers(len(population.table.rows), size=count)
