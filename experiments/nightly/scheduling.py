"""A night's runs, in order: first what was left out, then what is oldest, then what is
least certain. A second run of a design comes after the first of every other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.nightly.history import History, Run
from experiments.nightly.pooling import night_gain
from experiments.nightly.suite import Member

WATCHED = "p95"  # the percentile whose interval says how certain a design's gain is


@dataclass(frozen=True)
class Job:
    """A run that the suite asks for."""

    member: Member
    repeat: int  # of this night, from 0
    seed: int
    minutes: float  # how long it is expected to take

    @property
    def minutes_max(self) -> float:
        """The time at which it is ended."""
        return self.member.entry.minutes_max or 3 * self.minutes + 10


def jobs(members: Sequence[Member], history: History) -> list[Job]:
    """Every run of a night, the most wanted first."""
    left_out = history.ends[-1].left_out if history.ends else ()
    ordered = sorted(
        members,
        key=lambda one: (
            one.name not in left_out,
            _last_valid_night(history.of(one.name)),
            -_uncertainty(history.of(one.name)),
        ),
    )
    found = []
    for repeat in range(max((one.entry.repeats for one in members), default=0)):
        for member in ordered:
            if repeat < member.entry.repeats:
                runs = history.of(member.name)
                seed = _seed(member, runs, repeat)
                found.append(Job(member, repeat, seed, expected_minutes(member, runs)))
    return found


def expected_minutes(member: Member, runs: Sequence[Run]) -> float:
    """Return the median of this design's runs as it is now, else what the design says."""
    took = {
        (run.night, run.number): run.minutes
        for run in runs
        if run.run is not None and run.digest == member.digest and run.minutes is not None
    }
    return statistics.median(took.values()) if took else member.expected_minutes


def _seed(member: Member, runs: Sequence[Run], repeat: int) -> int:
    """Return this run's seed: the suite's, the design's if that states one, else a new one."""
    entry = member.entry
    made = {(run.night, run.number): run.seed for run in runs if run.run is not None}
    if entry.seeds is not None:
        last = {seed: index for index, seed in sorted(made.items())}
        turns = sorted(entry.seeds, key=lambda seed: last.get(seed, (0, 0)))
        return turns[repeat % len(turns)]
    if entry.seed is not None:
        return entry.seed + len(made) + repeat
    own = member.design.experiment.design
    return own.seed if own.seed_is_stated else own.seed + repeat


def _last_valid_night(runs: Sequence[Run]) -> int:
    """0 if no run was valid yet."""
    return max((run.night for run in runs if run.valid), default=0)


def _uncertainty(runs: Sequence[Run]) -> float:
    """Width of the interval of the design's gain over all its runs, of the arm where it is widest;
    infinite while nothing is known of it."""
    arms = {run.arm for run in runs if run.valid and WATCHED in run.gains}
    widths = []
    for arm in arms:
        pooled = night_gain([run for run in runs if run.arm == arm], WATCHED)
        if pooled is not None:
            widths.append(pooled.high - pooled.low)
    return max(widths, default=math.inf)
