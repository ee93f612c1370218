"""One step: a rate of load on one node, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from core.runfiles.requests import measured
from core.statistics.percentiles import OK, percentile, percentile_of
from experiments.record.metrics.frames import prepared
from experiments.record.metrics.latency import QUANTILES, SAMPLES_BEYOND_MIN, samples_beyond
from experiments.record.metrics.saturation import lag_limit_ms

STEPS = "steps.json"  # of a run's folder: the settings of all steps


@dataclass(frozen=True)
class StepSetting:
    """Settings of block number `block`; a step is tried again when its generator was late.

    user: the question's name, which is the workload's where there is one arm.
    """

    block: int
    sweep: int
    user: str
    rate_per_s: float
    limit_ms: float
    attempt: int = 1


@dataclass(frozen=True)
class Step:
    """The measured part of one block; `requests` as `prepared` makes them.

    answered_per_s: good answers that came within the measured part; their requests may be older.
    cores: mean CPU by machine [cores], and `generator` for the process that sent the load.
    """

    setting: StepSetting
    requests: pl.DataFrame
    answered_per_s: float
    cores: Mapping[str, float]

    @property
    def rate_per_s(self) -> float:
        return self.setting.rate_per_s

    @property
    def error_share(self) -> float:
        total = self.requests.height
        return 1.0 - self.requests.filter(pl.col("outcome") == OK).height / total if total else 1.0

    @property
    def p95_ms(self) -> float:
        """The p95 latency; a request that a user did not get counts with its time-out."""
        return float(percentile(self._sorted, QUANTILES["p95"]) or 0.0)

    @property
    def lag_p99_ms(self) -> float:
        return percentile_of(self.requests["lag_ms"], QUANTILES["p99"]) or 0.0

    @property
    def is_late(self) -> bool:
        """True if the generator sent so late that its own delay could decide the step."""
        return self.lag_p99_ms > lag_limit_ms(self.setting.limit_ms)

    @property
    def _sorted(self) -> Any:
        return np.sort(self.requests["latency_ms"].to_numpy())

    def figures(self) -> dict[str, object]:
        ordered = self._sorted
        quantiles = {
            f"{name}_ms": percentile(ordered, QUANTILES[name]) for name in ("p50", "p95", "p99")
        }
        return {
            "block": self.setting.block,
            "sweep": self.setting.sweep,
            "attempt": self.setting.attempt,
            "rate_per_s": self.rate_per_s,
            "requests": int(ordered.size),
            "answered_per_s": round(self.answered_per_s, 3),
            "mean_ms": float(ordered.mean()) if ordered.size else None,
            **quantiles,
            "insufficient": [
                f"{name}_ms"
                for name in ("p50", "p95", "p99")
                if samples_beyond(QUANTILES[name], ordered.size) < SAMPLES_BEYOND_MIN
            ],
            "error_share": self.error_share,
            "lag_p99_ms": self.lag_p99_ms,
            "generator_late": self.is_late,
            "cores": {name: round(value, 4) for name, value in sorted(self.cores.items())},
        }


def steps_of(
    settings: Sequence[StepSetting],
    requests: pl.DataFrame,
    hosts: pl.DataFrame | None,
    generator: Mapping[int, float],
    limit_ms: float,
) -> list[Step]:
    """Return the measured steps, in order; a block without measured requests is left out.

    Parameters: requests of all blocks; hosts as in hosts.parquet; generator, CPU of the load
    generator by block [cores]; limit_ms, the load's time-out.
    """
    rows = prepared(requests, limit_ms)
    by_block = {key[0]: frame for key, frame in rows.group_by("repeat")}
    steps = []
    for setting in settings:
        block_rows = by_block.get(setting.block)
        measured_rows = None if block_rows is None else measured(block_rows)
        if block_rows is None or measured_rows is None or measured_rows.height == 0:
            continue
        intended_s = measured_rows["intended_s"].to_numpy()
        begin_s, end_s = float(intended_s.min()), float(intended_s.max())
        in_time = (pl.col("outcome") == OK) & pl.col("done_s").is_between(begin_s, end_s)
        cores = dict(_cores(hosts, begin_s, end_s))
        if setting.block in generator:
            cores["generator"] = generator[setting.block]
        answered_per_s = block_rows.filter(in_time).height / max(end_s - begin_s, 1e-3)
        steps.append(Step(setting, measured_rows, answered_per_s, cores))
    return steps


def _cores(hosts: pl.DataFrame | None, begin_s: float, end_s: float) -> dict[str, float]:
    """Mean cores in use by machine; a sample describes the second before it."""
    if hosts is None:
        return {}
    rows = hosts.filter(pl.col("time_s").is_between(begin_s + 1.0, end_s + 0.5))
    means = rows.group_by("machine").agg(pl.col("cpu_cores").mean())
    return {name: float(value) for name, value in means.iter_rows() if value is not None}
