"""State of the load generator in each block, and objections to a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from core.runfiles.requests import measured
from experiments.record.metrics.saturation import saturation

# `lag` is judged for each arm, stricter; `in-flight` is the server's, and its drops are errors.
_VOIDS = ("cpu", "pace", "lost", "pool", "tasks")


def generator_blocks(
    requests: pl.DataFrame, manifest: Mapping[str, Any]
) -> list[dict[str, object]]:
    """Return each block's verdict of `saturation.py` on its measured part, with its workers."""
    recorded = (manifest.get("load") or {}).get("blocks") or []
    workers = {block["repeat"]: block["workers"] for block in recorded}
    verdicts = []
    for (repeat, arm), block in requests.sort("repeat").group_by(
        "repeat", "arm", maintain_order=True
    ):
        block_workers = workers.get(repeat) or []
        verdict = saturation(measured(block), block_workers)
        verdicts.append(
            {
                "repeat": repeat,
                "arm": arm,
                "ok": verdict.ok,
                **asdict(verdict),
                "workers": block_workers,
            }
        )
    return verdicts


def generator_reasons(blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the reasons that the load of these blocks was not as requested."""
    return [
        f"block {block['repeat'] + 1}, {block['arm']}: {reason}"
        for block in blocks
        for limit, reason in zip(block["limits"], block["reasons"], strict=True)
        if limit in _VOIDS
    ]
