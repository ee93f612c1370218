r"""The expected service to users over a year, from faults that were measured one by one.

A fault of kind f comes lambda_f times a year and passes through stages s of d_fs seconds each
(until it is noticed, degraded until it is repaired, recovering). Faults do not overlap, so that a
share w_fs = lambda_f d_fs / year of the time is spent in each stage, and the level of a request is

    X = (1 - sum w_fs) X_0 + sum w_fs X_fs,

with X_0 of the undisturbed service. Arrivals do not depend on faults (an open loop), so that shares
of time are shares of requests. X is the share of requests that were answered well (goodput), the
mean latency (punctuality is the ideal over it), and demerits a request.

Source: Nagaraja, Li, Bianchini, Martin and Nguyen, "Using Fault Injection and Modeling to Evaluate
the Performability of Cluster-Based Services", USITS 2003 (average throughput); Broadwell 2004,
section 2.1.4, for the metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import InputError
from core.units import YEAR_S


@dataclass(frozen=True)
class Level:
    """The level of a request, on average."""

    goodput: float  # share of requests that are answered well
    mean_ms: float
    demerits: float  # of a request


@dataclass(frozen=True)
class Stage:
    """A part of a fault's course: its duration, and the level of requests meanwhile."""

    seconds: float
    level: Level


@dataclass(frozen=True)
class Fault:
    """A kind of fault: its rate [1/year] over all machines, and its stages."""

    name: str
    per_year: float
    stages: tuple[Stage, ...]

    @property
    def hours(self) -> float:
        """Hours per year in which the fault disturbs the service."""
        return self.per_year * sum(stage.seconds for stage in self.stages) / 3600.0


@dataclass(frozen=True)
class Year:
    """The expectation over a year."""

    goodput: float
    mean_ms: float
    punctuality: float
    demerits: float
    hours: float  # in which a fault disturbs the service
    lost: float  # loss of goodput by faults, a share of requests
    demerits_added: float  # to a request, by faults
    lost_by_fault: tuple[tuple[str, float], ...]
    """The loss of goodput by each kind of fault, the largest first."""


def expected_year(normal: Level, faults: Sequence[Fault], ideal_ms: float) -> Year:
    """Return the expected year of a service.

    Parameters: normal, the level without a fault; faults with their rates [1/year] and stages;
    ideal_ms float [ms] > 0, the best-case mean latency.
    Raises: InputError if faults would fill more than a tenth of the year, because they then overlap
    and the sum above is wrong.
    """
    total = Level(normal.goodput, normal.mean_ms, normal.demerits)
    lost: dict[str, float] = {}
    for fault in faults:
        for stage in fault.stages:
            weight = fault.per_year * stage.seconds / YEAR_S
            change = stage.level
            total = Level(
                total.goodput + weight * (change.goodput - normal.goodput),
                total.mean_ms + weight * (change.mean_ms - normal.mean_ms),
                total.demerits + weight * (change.demerits - normal.demerits),
            )
            loss = weight * (normal.goodput - change.goodput)
            lost[fault.name] = lost.get(fault.name, 0.0) + loss
    hours = sum(fault.hours for fault in faults)
    if hours * 3600.0 > YEAR_S / 10:
        raise InputError(
            "faults a year",
            expected="less than a tenth of the year under faults, so that they do not overlap",
            got=f"{hours:.0f} hours",
            hint="State fewer faults, or a shorter repair.",
        )
    worst = sorted(lost.items(), key=lambda fault_loss: -fault_loss[1])
    return Year(
        total.goodput,
        total.mean_ms,
        ideal_ms / total.mean_ms,
        total.demerits,
        hours,
        sum(lost.values()),
        total.demerits - normal.demerits,
        tuple(worst),
    )
