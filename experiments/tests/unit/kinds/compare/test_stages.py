"""Figures by stage of a load whose rate varies."""

from __future__ import annotations

from typing import Any

import polars as pl

from experiments.record.metrics.frames import prepared
from experiments.record.metrics.stages import stage_figures
from experiments.record.records import REQUESTS

STAGES = [
    {"duration": 10.0, "target": 50.0, "ramp": "linear"},
    {"duration": 5.0, "target": 20.0, "ramp": "step"},
]
SPEC = {"load": {"stages": STAGES}, "phases": {"warm_up": 2.0, "measure": 15.0}}
# Two blocks, whose clocks begin at 100 s and 200 s of the run.
MANIFEST = {
    "spec": SPEC,
    "load": {"blocks": [{"repeat": 0, "start_s": 100.0}, {"repeat": 1, "start_s": 200.0}]},
}


def requests(*at: tuple[int, float, float]) -> pl.DataFrame:
    """Requests of (block, intended start since the run's begin [s], latency [ms])."""
    same = {
        "arm": "baseline", "pair": 0, "phase": "measure", "user": "u", "name": "n", "lag_ms": 0.0,
        "outcome": "ok", "status": 200, "bytes": 1,
    }  # fmt: skip
    rows: list[dict[str, Any]] = [
        {**same, "repeat": repeat, "index": index, "intended_s": at_s, "sent_s": at_s,
         "done_s": at_s + ms / 1e3, "latency_ms": ms}
        for index, (repeat, at_s, ms) in enumerate(at)
    ]  # fmt: skip
    return prepared(pl.DataFrame(rows, schema=REQUESTS), 8000.0)


def test_a_request_counts_in_the_stage_of_its_intended_start_in_its_own_block() -> None:
    frame = requests((0, 102.0, 1.0), (0, 111.9, 2.0), (0, 112.0, 7.0), (1, 216.9, 9.0))
    first, last = stage_figures(frame, ["baseline"], MANIFEST)
    assert (first["begin_s"], first["end_s"], last["end_s"]) == (2.0, 12.0, 17.0)
    figures = first["arms"]["baseline"]
    assert (figures["requests"], figures["mean_ms"], figures["duration_s"]) == (2, 1.5, 10.0)
    figures = last["arms"]["baseline"]
    assert (figures["requests"], figures["mean_ms"], figures["duration_s"]) == (2, 8.0, 10.0)
    assert (last["target_per_s"], last["ramp"]) == (20.0, "step")


def test_a_stage_in_which_nothing_came_has_no_figures_and_is_shown() -> None:
    first, last = stage_figures(requests((0, 103.0, 1.0)), ["baseline"], MANIFEST)
    assert first["arms"]["baseline"]["requests"] == 1
    assert (last["arms"]["baseline"]["requests"], last["arms"]["baseline"]["p95_ms"]) == (0, None)


def test_a_steady_load_and_a_run_of_before_have_no_stages() -> None:
    frame = requests((0, 103.0, 1.0))
    steady = {**MANIFEST, "spec": {**SPEC, "load": {}}}
    before = {**MANIFEST, "load": {"blocks": [{"repeat": 0}]}}
    for manifest in (steady, before, {}):
        assert stage_figures(frame, ["baseline"], manifest) == []
