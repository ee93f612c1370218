"""requests.parquet: which requests a figure is of.

| word | requests | of whom |
|---|---|---|
| measured | all but the warm-up, with the faults | an arm's figures, the SLO |
| without faults | those before a block's first fault: phase `measure` | what a plan is fitted to |

A user of the service has the faults too, so an arm's p95 has them. A plan predicts days on which
nothing is broken, and computes from fault rates what the others take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

WARM_UP, BEFORE_FAULTS = "warm-up", "measure"  # phases


def measured(requests: pl.DataFrame) -> pl.DataFrame:
    """All but the warm-up."""
    import polars as pl

    return requests.filter(pl.col("phase") != WARM_UP)


def without_faults(requests: pl.DataFrame) -> pl.DataFrame:
    """Those before a block's first fault; in a run without that phase, all that were measured."""
    import polars as pl

    found = requests.filter(pl.col("phase") == BEFORE_FAULTS)
    return found if found.height else measured(requests)
