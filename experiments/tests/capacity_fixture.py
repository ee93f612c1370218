"""Steps of an M/M/1 server, whose NodT is known. For tests only; nothing here measures anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from core.runfiles.result import Result
from experiments.design import load_design
from experiments.kinds.capacity.page import write_page
from experiments.kinds.capacity.result import node_findings
from experiments.kinds.capacity.steps import Step, StepSetting, steps_of
from experiments.record.records import REQUESTS, write_json
from experiments.record.result import result_of
from experiments.tests.manifest_fixture import made_manifest

Floats = NDArray[np.float64]
LIMIT_MS = 50.0
ERRORS_MAX = 0.01
SERVICE_S = 0.002  # of an M/M/1 server: its p95 is 50 ms at 1/0.002 - ln(20)/0.05 = 440/s
NODT = 1 / SERVICE_S - np.log(20) / (LIMIT_MS / 1e3)
RATES = (200.0, 260.0, 338.0, 400.0, 430.0, 455.0, 475.0)


def _mm1_stays(
    rate_per_s: float, length_s: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Arrivals in [0, length_s) and the time that each spends in the system [s].

    Exponential gaps and work, first come, first served: Lindley's recursion.
    """
    count = rng.poisson(rate_per_s * length_s)
    starts = np.sort(rng.uniform(0.0, length_s, count))
    work = rng.exponential(SERVICE_S, count)
    free_s = 0.0
    stays = np.empty(count)
    for index, (start_s, work_s) in enumerate(zip(starts, work, strict=True)):
        free_s = max(free_s, start_s) + work_s
        stays[index] = free_s - start_s
    return starts, stays


def requests(block: int, rate_per_s: float, seed: int) -> pl.DataFrame:
    """A block of an M/M/1 server: 2 s of warm-up, 20 s of measurement."""
    rng = np.random.default_rng(seed)
    starts, stays = _mm1_stays(rate_per_s, 60.0, rng)
    in_steady_state = starts > 38.0  # near enough the steady state
    starts, stays = starts[in_steady_state] - 38.0, stays[in_steady_state]
    count = starts.size
    return pl.DataFrame(
        {
            **{name: [None] * count for name in REQUESTS},
            "arm": ["single"] * count,
            "repeat": [block] * count,
            "pair": [block] * count,
            "phase": np.where(starts < 2.0, "warm-up", "measure").tolist(),
            "index": range(count),
            "user": ["cache-reader"] * count,
            "name": ["entry:000001"] * count,
            "intended_s": starts + 30.0 * block,
            "sent_s": starts + 30.0 * block + 1e-4,
            "done_s": starts + 30.0 * block + stays,
            "latency_ms": stays * 1e3,
            "lag_ms": [0.1] * count,
            "outcome": ["ok"] * count,
            "status": [0] * count,
            "bytes": [1000] * count,
        },
        schema=REQUESTS,
    )


def hosts(blocks: int, rates: tuple[float, ...]) -> pl.DataFrame:
    """The node takes 0.02 cores, and 0.2 ms a request."""
    rows = [
        {"time_s": 30.0 * b + t, "machine": "cache-1", "cpu_cores": 0.02 + 2e-4 * rates[b]}
        for b in range(blocks)
        for t in range(22)
    ]
    return pl.DataFrame(rows)


def measured_steps(rates: tuple[float, ...] = RATES, sweeps: int = 3) -> list[Step]:
    settings = [
        StepSetting(block, block // len(rates), "cache-reader", rates[block % len(rates)], LIMIT_MS)
        for block in range(sweeps * len(rates))
    ]
    frame = pl.concat([requests(a.block, a.rate_per_s, 100 + a.block) for a in settings])
    return steps_of(settings, frame, hosts(len(settings), rates * sweeps), {0: 0.4}, 3000.0)


def capacity_result(steps: list[Step]) -> Result:
    findings = node_findings(manifest(), "cache", {"cache-reader": LIMIT_MS}, steps)
    return result_of("capacity", manifest(), findings)


def manifest() -> dict[str, Any]:
    design = load_design("memcached-capacity")
    fleet = design.fleet.model_dump(mode="json")
    spec = {"fleet": fleet, "slo": {"max_error_share": ERRORS_MAX}}
    return made_manifest(design.name, spec=spec)


def capacity_page_of(steps: list[Step], folder: Path) -> Path:
    """result.json, manifest.json and their page."""
    body = manifest()
    write_json(folder / "manifest.json", body)
    write_json(folder / "result.json", capacity_result(steps))
    return write_page(folder)
