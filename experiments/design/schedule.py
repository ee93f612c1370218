"""The timetable of a run, drawn in advance from a seed: blocks, arrivals, operations.

All functions are pure. Each use of randomness has its own stream, named by its purpose, so that a
further machine or a longer window does not shift the others. Both arms of a pair get the same
streams, so they meet the same arrivals, pages and neighbours.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from experiments.design.arrival_rate import Arrivals
from experiments.design.experiment import Experiment, Fault

CALIBRATION_S = 45.0  # approximate length of a calibration, without [phases] settle
GAP_S_MIN = 0.5  # between two occurrences of a fault: its undo and injection take a part of the gap

Phase = Literal["warm-up", "measure", "fault", "recovery"]


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random stream for one purpose: equal seed and names, equal numbers."""
    keys = [zlib.crc32(str(name).encode()) for name in names]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *keys])))


def arrivals(
    kind: Arrivals, rate_per_s: float, duration_s: float, seed: int
) -> NDArray[np.float64]:
    """Return the intended starts of requests, ascending, in [0, duration_s).

    poisson: exponential gaps of mean 1 / rate_per_s. constant: every 1 / rate_per_s, from 0 on.
    A longer duration extends the same sequence. Raises: ValueError for a trace.
    """
    if kind == "trace":
        raise ValueError("expected poisson or constant (got a trace)")
    if kind == "constant":
        starts = np.arange(np.ceil(duration_s * rate_per_s)) / rate_per_s
        return starts[starts < duration_s]
    rng = stream(seed, "arrivals")
    starts = np.empty(0)
    end_s = 0.0
    while end_s < duration_s:
        next_starts = end_s + np.cumsum(rng.exponential(1.0 / rate_per_s, size=1024))
        starts = np.concatenate([starts, next_starts])
        end_s = float(starts[-1])
    return starts[starts < duration_s]


def operation_choices(operations: int, count: int, seed: int, zipf: float) -> NDArray[np.int64]:
    """Return the operation of each of `count` arrivals.

    The operation of rank k has probability proportional to k ** -zipf. The ranks are drawn from the
    seed as well, because a list of titles is in alphabetical order.
    """
    rng = stream(seed, "pages")
    operation_of_rank = rng.permutation(operations)
    weights = np.arange(1, operations + 1, dtype=np.float64) ** -zipf
    edges = np.cumsum(weights / weights.sum())
    ranks = np.searchsorted(edges, rng.random(count), side="right").clip(max=operations - 1)
    return np.asarray(operation_of_rank[ranks], dtype=np.int64)


def writes(share: float, count: int, seed: int) -> NDArray[np.int64]:
    """Return 1 for each of `count` arrivals that writes, 0 for each that reads."""
    return np.asarray(stream(seed, "writes").random(count) < share, dtype=np.int64)


def crashes(
    machines: Sequence[str], mean_s: float, start_s: float, end_s: float, seed: int
) -> tuple[tuple[float, str], ...]:
    """Return crashes (time, machine) in [start_s, end_s), ascending: a Poisson stream per machine.

    Parameters: mean_s float [s], mean gap of a machine's stream; a later end extends the streams.
    """
    result = []
    for machine in machines:
        rng = stream(seed, "crashes", machine)
        at_s = start_s + rng.exponential(mean_s)
        while at_s < end_s:
            result.append((float(at_s), machine))
            at_s += rng.exponential(mean_s)
    return tuple(sorted(result))


def fault_begins(fault: Fault, number: int, end_s: float, seed: int) -> tuple[float, ...]:
    """Return the begins of a fault, ascending, on the clock of `at_s`, in [at_s, end_s).

    There is one begin, and with `repeat` as many as the gaps allow. Gaps by distribution: fixed,
    gap_s; poisson, exponential of that mean; gaussian, N(gap_s, spread_s); each at least GAP_S_MIN.
    A later end extends the sequence.

    Parameters: number, the fault's index in its design: each fault has its own random stream.
    """
    begins = [fault.at_s]
    repeat = fault.repeat
    if repeat is None or fault.for_s is None:
        return tuple(begins)
    rng = stream(seed, "again", number)
    while len(begins) < repeat.times_max:
        gap_s = {
            "fixed": lambda: repeat.gap_s,
            "poisson": lambda: rng.exponential(repeat.gap_s),
            "gaussian": lambda: rng.normal(repeat.gap_s, repeat.spread_s or 0.0),
        }[repeat.distribution]()
        at_s = begins[-1] + fault.for_s + max(float(gap_s), GAP_S_MIN)
        if at_s >= end_s:
            break
        begins.append(at_s)
    return tuple(begins)


def pair_seed(seed: int, pair: int) -> int:
    """Return the seed of everything that both arms of a pair share."""
    return int(stream(seed, "pair", pair).integers(2**63))


@dataclass(frozen=True)
class Block:
    """One arm for one warm-up and one measurement; `repeat` numbers the blocks of a run from 0."""

    repeat: int
    pair: int
    arm: str
    seed: int


def blocks(experiment: Experiment) -> tuple[Block, ...]:
    """Return the blocks of a run in order. In ABBA the k-th A and the k-th B are a pair and share
    their seed.
    """
    arms = tuple(experiment.arms)
    order = experiment.design.order * experiment.design.repeats
    result: list[Block] = []
    for repeat, letter in enumerate(order):
        pair = order[:repeat].count(letter)
        arm = arms[ord(letter) - ord("A")]
        result.append(Block(repeat, pair, arm, pair_seed(experiment.design.seed, pair)))
    return tuple(result)


@dataclass(frozen=True)
class PhaseWindow:
    """A phase of a block; seconds from the block's start."""

    phase: Phase
    start_s: float
    end_s: float


def phase_windows(experiment: Experiment) -> tuple[PhaseWindow, ...]:
    """Return the phases of every block, without gaps, in order.

    Without faults: warm-up, measure. With faults the measurement is `measure` until the first
    fault begins, `fault` until the last fault ends, then `recovery`. A fault with `repeat` counts
    until the end.
    """
    warm_up_s = experiment.phases.warm_up
    end_s = warm_up_s + experiment.phases.measure
    windows = [PhaseWindow("warm-up", 0.0, warm_up_s)]
    if not experiment.faults:
        windows.append(PhaseWindow("measure", warm_up_s, end_s))
    else:
        first_s = warm_up_s + min(fault.at_s for fault in experiment.faults)
        last_s = warm_up_s + max(
            experiment.phases.measure
            if fault.for_s is None or fault.repeat is not None
            else fault.at_s + fault.for_s
            for fault in experiment.faults
        )
        windows.append(PhaseWindow("measure", warm_up_s, first_s))
        windows.append(PhaseWindow("fault", first_s, last_s))
        windows.append(PhaseWindow("recovery", last_s, end_s))
    return tuple(window for window in windows if window.end_s > window.start_s)


def load_length_s(experiment: Experiment) -> float:
    """Return the length of all blocks, the calibration and the settling before them [s]."""
    calibration_s = 0.0 if experiment.load.utilisation is None else CALIBRATION_S
    blocks_s = len(blocks(experiment)) * block_length_s(experiment)
    return calibration_s + experiment.phases.settle + blocks_s


def block_length_s(experiment: Experiment) -> float:
    """Return the length of warm-up and measurement [s]."""
    return experiment.phases.warm_up + experiment.phases.measure
