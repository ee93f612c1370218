"""Figures of each stage of a load whose rate varies, over all blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import polars as pl

from experiments.record.metrics.performability import Ideal, UserMetrics, user_metrics


class StageFigures(TypedDict):
    """A stage of the load, from begin_s to end_s of the block, and each arm's figures."""

    stage: int
    begin_s: float
    end_s: float
    target_per_s: float
    ramp: str
    arms: dict[str, UserMetrics]


def stage_figures(
    requests: pl.DataFrame, arms: Sequence[str], manifest: Mapping[str, Any]
) -> list[StageFigures]:
    """Return the stages in order; empty for a load without stages, or with unknown block starts.

    Parameters: requests as `prepared`, without the warm-up. A request belongs to the stage of its
    intended start.
    """
    spec = manifest.get("spec") or {}
    stages = (spec.get("load") or {}).get("stages") or []
    blocks = (manifest.get("load") or {}).get("blocks") or []
    starts = {
        block["repeat"]: block["start_s"] for block in blocks if block.get("start_s") is not None
    }
    if not stages or not starts:
        return []
    started = pl.col("repeat").replace_strict(starts, default=None, return_dtype=pl.Float64)
    offset = requests.with_columns(offset_s=pl.col("intended_s") - started)
    figures: list[StageFigures] = []
    at_s = float(spec["phases"]["warm_up"])
    for number, stage in enumerate(stages, start=1):
        end_s = at_s + float(stage["duration"])
        last = number == len(stages)  # steps of sessions may begin at the very end
        within = (pl.col("offset_s") >= at_s) & (last or pl.col("offset_s") < end_s)
        rows = offset.filter(within)
        figures.append(
            {
                "stage": number,
                "begin_s": at_s,
                "end_s": end_s,
                "target_per_s": stage["target"],
                "ramp": stage["ramp"],
                "arms": _arm_figures(rows, arms, float(stage["duration"])),
            }
        )
        at_s = end_s
    return figures


def _arm_figures(
    rows: pl.DataFrame, arms: Sequence[str], length_s: float
) -> dict[str, UserMetrics]:
    figures = {}
    for arm in arms:
        arm_rows = rows.filter(pl.col("arm") == arm)
        figures[arm] = user_metrics(
            arm_rows, length_s * arm_rows["repeat"].n_unique(), Ideal(None, "")
        )
    return figures
