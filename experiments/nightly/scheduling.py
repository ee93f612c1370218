"""A night's runs, in order: designs that were left out, then the oldest, then the least certain.

A second run of a design comes after the first run of every other design.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.nightly.history import History, Run
from experiments.nightly.levels import night_gain
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
    """Return every run of a night, the most urgent first."""
    left_out = history.ends[-1].left_out if history.ends else ()
    ordered = sorted(
        members,
        key=lambda member: (
            member.name not in left_out,
            max((run.night for run in history.runs_of(member.name) if run.valid), default=0),
            -_uncertainty(history.runs_of(member.name)),
        ),
    )
    night_jobs = []
    for repeat in range(max((member.entry.repeats for member in members), default=0)):
        for member in ordered:
            if repeat < member.entry.repeats:
                runs = history.runs_of(member.name)
                seed = _seed(member, runs, repeat)
                night_jobs.append(Job(member, repeat, seed, expected_minutes(member, runs)))
    return night_jobs


def expected_minutes(member: Member, runs: Sequence[Run]) -> float:
    """Return the median of the runs of this version of the design, else the design's estimate."""
    durations = {
        (run.night, run.number): run.minutes
        for run in runs
        if run.run is not None and run.digest == member.digest and run.minutes is not None
    }
    return statistics.median(durations.values()) if durations else member.expected_minutes


def _seed(member: Member, runs: Sequence[Run], repeat: int) -> int:
    """Return this run's seed: the suite's, the design's if that states one, else a new one."""
    entry = member.entry
    past_seeds = {(run.night, run.number): run.seed for run in runs if run.run is not None}
    if entry.seeds is not None:
        last = {seed: index for index, seed in sorted(past_seeds.items())}
        turns = sorted(entry.seeds, key=lambda seed: last.get(seed, (0, 0)))
        return turns[repeat % len(turns)]
    if entry.seed is not None:
        return entry.seed + len(past_seeds) + repeat
    design = member.design.experiment.design
    return design.seed if design.seed_is_stated else design.seed + repeat


def _uncertainty(runs: Sequence[Run]) -> float:
    """Return the width of the interval of the design's gain over all its runs, for the widest arm.

    Infinite if no run has a gain.
    """
    arms = {run.arm for run in runs if run.valid and WATCHED in run.gains}
    widths = []
    for arm in arms:
        pooled = night_gain([run for run in runs if run.arm == arm], WATCHED)
        if pooled is not None:
            widths.append(pooled.high - pooled.low)
    return max(widths, default=math.inf)
