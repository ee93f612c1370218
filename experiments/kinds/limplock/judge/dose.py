"""The dose of a row: how much a run's operations put into the mechanism by which the row locks up,
beside how much fills it: the memory of a leader, the places of a cluster, a detector's patience.

What is compared is what was asked for, not how full it got: a release that mends the mechanism
never fills it. An operation that asks for less than `share_least` of the bound ends before the
mechanism can act, and decides nothing.
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
    """The store that has to be full, in words."""
    put: Literal["megabytes", "operations", "seconds"]
    """The unit of what a run puts in: its operations' bytes or number, or the fault's length."""
    bound: Positive | Annotated[str, Field(pattern=r"^[a-z][a-z_]*$")]
    """How much it holds: a number, `memory_mb` of a machine as designed, or a white-box metric."""
    at: str | None = None
    """The part on whose machine the metric is told."""
    per_node: bool = False
    """True: each healthy node that is asked holds so much."""
    share_least: Positive = 1.0
    """How much of the bound has to be put in before the mechanism can act."""
    verdicts: Annotated[list[Class], Field(min_length=1)]
    """Which verdicts rest on it."""
    places: Annotated[list[str], Field(min_length=1)]
    """Where the paper says so."""


@dataclass(frozen=True)
class Dose:
    """Amount that a run put into a mechanism, and its bound; None where nothing says the bound."""

    what: str
    unit: str
    put: float
    bound: float | None
    share_least: float
    verdicts: tuple[Class, ...]

    @property
    def share(self) -> float | None:
        """Of the bound."""
        return None if self.bound is None else self.put / self.bound

    @property
    def words(self) -> str:
        """A sentence's part."""
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
    """Of a scenario.

    Parameters: count and size_kb of the row's operations; nodes, healthy ones that are asked;
    fleet, of the manifest's spec; role, whose tier's machines have the memory; whitebox, as
    WHITEBOX.
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
        bound = next((float(one[MEMORY]) for one in tiers if one["role"] == role), None)
    else:
        bound = _metric_max(mechanism.bound, mechanism.at or "", faulty, whitebox)
    if bound is not None and mechanism.per_node:
        bound *= max(1, nodes)
    unit = {"megabytes": "MB", "seconds": "s"}.get(mechanism.put, mechanism.put)
    return Dose(mechanism.what, unit, put, bound, mechanism.share_least, tuple(mechanism.verdicts))


def _metric_max(
    metric: str, part: str, faulty: Sequence[Window], whitebox: pl.DataFrame
) -> float | None:
    """Return the most that machines with this part said of it while the part limped."""
    found = [
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
    most = max(found, default=0.0)
    return most if most > 0.0 else None  # a JVM without a limit says -1
