"""The dose of a row: the amount that a run's operations put into the mechanism by which the row
locks up, over the amount that fills it: the memory of a leader, the slots of a cluster, the time
that a detector waits.

The dose is the requested amount, not the level that was reached, because a release that mends the
mechanism never fills it. Operations that request less than `share_least` of the bound end before
the mechanism can act, and decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from core.config_file import Positive, Strict
from experiments.kinds.limplock.windows import Window

Class = Literal["operation", "node", "cluster"]
MEMORY = "memory_mb"


class Mechanism(Strict):
    """The `[mechanism]` of a row."""

    what: Annotated[str, Field(min_length=1)]
    """Description of the resource that has to be full."""
    put: Literal["megabytes", "operations", "seconds"]
    """Unit of the amount: bytes or number of the run's operations, or length of the fault."""
    bound: Positive | Annotated[str, Field(pattern=r"^[a-z][a-z_]*$")]
    """Capacity: a number, `memory_mb` of a machine in the design, or a white-box metric."""
    at: str | None = None
    """The part on whose machine the metric is measured."""
    per_node: bool = False
    """True: each healthy node that gets operations has this capacity."""
    share_least: Positive = 1.0
    """Least share of the bound at which the mechanism can act."""
    verdicts: Annotated[list[Class], Field(min_length=1)]
    """Verdicts that depend on it."""
    places: Annotated[list[str], Field(min_length=1)]
    """Places in the paper."""


@dataclass(frozen=True)
class Dose:
    """The amount that a run put into a mechanism, and its bound; None if the bound is unknown."""

    what: str
    unit: str
    put: float
    bound: float | None
    share_least: float
    verdicts: tuple[Class, ...]

    @property
    def share(self) -> float | None:
        return None if self.bound is None else self.put / self.bound

    @property
    def words(self) -> str:
        if self.share is None:
            return f"how much fills {self.what} is not known"
        return (
            f"{self.put:.3g} of {self.bound:.3g} {self.unit} that fill {self.what}: "
            f"{self.share:.2g} times, and {self.share_least:.2g} are asked for"
        )


def dose_of(
    mechanism: Mechanism,
    count: int,
    size_kb: float | None,
    faulty: Sequence[Window],
    nodes: int,
    fleet: Mapping[str, Any],
    role: str,
    whitebox: pl.DataFrame,
) -> Dose:
    """Return the dose of a scenario.

    Parameters: count and size_kb of the row's operations; nodes, number of healthy nodes that get
    operations; fleet, of the manifest's spec; role of the tier whose machines have the memory;
    whitebox, as WHITEBOX.
    """
    put = {
        "operations": float(count),
        "megabytes": count * (size_kb or 0.0) / 1000.0,
        "seconds": float(np.median([window.length_s for window in faulty])),
    }[mechanism.put]
    bound: float | None
    if isinstance(mechanism.bound, float):
        bound = mechanism.bound
    elif mechanism.bound == MEMORY:
        tiers = fleet.get("tiers", {}).values()
        bound = next((float(tier[MEMORY]) for tier in tiers if tier["role"] == role), None)
    else:
        bound = _metric_max(mechanism.bound, mechanism.at or "", faulty, whitebox)
    if bound is not None and mechanism.per_node:
        bound *= max(1, nodes)
    unit = {"megabytes": "MB", "seconds": "s"}.get(mechanism.put, mechanism.put)
    return Dose(mechanism.what, unit, put, bound, mechanism.share_least, tuple(mechanism.verdicts))


def _metric_max(
    metric: str, part: str, faulty: Sequence[Window], whitebox: pl.DataFrame
) -> float | None:
    """Return the largest value of the metric on machines with this part while the part limped."""
    values = [
        float(value)
        for window in faulty
        for machine, label in window.labels.items()
        if label == part or label.startswith(f"{part}-")
        for value in whitebox.filter(
            (pl.col("machine") == machine)
            & (pl.col("metric") == metric)
            & pl.col("time_s").is_between(window.start_s, window.end_s)
        )["value"]
    ]
    highest = max(values, default=0.0)
    return highest if highest > 0.0 else None  # a JVM without a limit says -1
