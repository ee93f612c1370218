"""requests.parquet: the requests that a figure includes.

| word | requests | used for |
|---|---|---|
| measured | all but the warm-up, with the faults | an arm's figures, the SLO |
| without faults | those before a block's first fault: phase `measure` | what a plan is fitted to |

Users of the service meet the faults too, so an arm's p95 includes them. A plan predicts days
without faults, and computes the effect of faults from their rates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

WARM_UP, BEFORE_FAULTS = "warm-up", "measure"  # phases


def measured(requests: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return requests.filter(pl.col("phase") != WARM_UP)


def without_faults(requests: pl.DataFrame) -> pl.DataFrame:
    """Return the requests before a block's first fault; without that phase all measured ones."""
    import polars as pl

    undisturbed = requests.filter(pl.col("phase") == BEFORE_FAULTS)
    return undisturbed if undisturbed.height else measured(requests)
