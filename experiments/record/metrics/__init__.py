"""Metrics of a run, as pure functions over its records. Begin with summary.py."""

from __future__ import annotations

from experiments.record.metrics.distribution import box_plot, ccdf
from experiments.record.metrics.frames import arm_names, measured, prepared, response_limit_ms
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, latency_statistics
from experiments.record.metrics.summary import compared_arms, run_end_s, summarize, summarize_run
from experiments.record.metrics.windows import Window, of_kind, windows

__all__ = [
    "SAMPLES_BEYOND_MIN",
    "Window",
    "arm_names",
    "box_plot",
    "ccdf",
    "compared_arms",
    "latency_statistics",
    "measured",
    "of_kind",
    "prepared",
    "response_limit_ms",
    "run_end_s",
    "summarize",
    "summarize_run",
    "windows",
]
