"""Capacity of one node, for the report and for the planner."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from core.json_object import JsonObject
from core.runfiles.manifest import manifest_if_any
from core.statistics.percentiles import time_out_of
from experiments.kinds.capacity.analysis import (
    Interval,
    NodeCapacity,
    capacity_of,
    cost_of,
    cpu_ratio,
)
from experiments.kinds.capacity.steps import STEPS, Step, StepSetting, steps_of
from experiments.record.result import Findings, not_measured
from experiments.report.text import number

GENERATOR_CORES_MAX = 0.9


def analyse(folder: Path) -> Findings:
    manifest = manifest_if_any(folder)
    body = json.loads((folder / STEPS).read_text(encoding="utf-8"))
    hosts = folder / "hosts.parquet"
    steps = steps_of(
        [StepSetting(**step) for step in body["steps"]],
        pl.read_parquet(folder / "requests.parquet"),
        pl.read_parquet(hosts) if hosts.is_file() else None,
        _generator_cores(manifest),
        time_out_of(manifest),
    )
    against = body.get("against", {})  # none in runs from before a design could have arms
    return node_findings(manifest, body["tier"], body["limits_ms"], steps, against)


def node_findings(
    manifest: Mapping[str, Any],
    tier: str,
    limits_ms: Mapping[str, float],
    steps: Sequence[Step],
    against: Mapping[str, str] | None = None,
) -> Findings:
    """NodT of every workload with the figures around it.

    Parameters: limits_ms of p95 by workload; steps, the measured ones of all sweeps; against, the
    workload of the first arm by those of the others.
    """
    machine = {"name": f"{tier}-1", "tier": tier, **manifest["spec"]["fleet"]["tiers"][tier]}
    max_error_share = float((manifest["spec"].get("slo") or {}).get("max_error_share", 1.0))
    workloads = {
        user: _workload(
            machine,
            limit_ms,
            max_error_share,
            [s for s in steps if s.setting.user == user],
            manifest["seed"],
        )
        for user, limit_ms in limits_ms.items()
    }
    for user, first in (against or {}).items():
        mine, others = (
            whole_sweeps([s for s in steps if s.setting.user == name]) for name in (user, first)
        )
        cpu = cpu_ratio(mine, others, machine["name"])
        workloads[user]["against"] = {
            "workload": first,
            **_ratio(workloads[user], workloads[first]),
            "cpu": None if cpu is None else asdict(cpu.ratio) | {"rates_per_s": cpu.rates},
        }
    missing = [
        f"no NodT of {user}: {workload['reason']}"
        for user, workload in workloads.items()
        if workload["nodt_per_s"] is None
    ]
    body = {"complete": not missing, "machine": machine, "workloads": workloads}
    nodts = ", ".join(
        f"{user} {number(workload['nodt_per_s']['value'])}/s"
        for user, workload in workloads.items()
        if workload["nodt_per_s"] is not None
    )
    verdicts = not_measured(manifest["verdicts"], missing)
    return Findings(body, verdicts, found=f"NodT: {nodts}" if nodts else "")


def _workload(
    machine: Mapping[str, Any],
    limit_ms: float,
    max_error_share: float,
    steps: Sequence[Step],
    seed: int,
) -> JsonObject:
    body: JsonObject = {
        "limit_ms": limit_ms,
        "percentile": 95,
        "steps": [step.figures() for step in steps],
        "nodt_per_s": None,
        "bound_per_s": None,
        "knee_per_s": None,
        "processing_s": None,
        "idle_cores": None,
        "cv2": None,
        "utilisation": None,
        "reason": "",
        "doubts": [],
        "against": None,
    }
    sweeps = whole_sweeps(steps)
    if not sweeps:
        return {**body, "reason": "it was ended before its first sweep was whole"}
    body["sweeps"] = len(sweeps)
    rng = np.random.default_rng(seed)
    capacity = capacity_of(sweeps, limit_ms, max_error_share, rng)
    late = _generator_fault(sweeps, capacity)
    body |= {
        "nodt_per_s": _json(None if late else capacity.nodt_per_s),
        "knee_per_s": _json(capacity.knee_per_s),
        "reason": late or capacity.reason,
        "bound_per_s": capacity.bound_per_s,
    }
    within = [s for sweep in sweeps for s in sweep if s.p95_ms <= limit_ms]
    cost = cost_of(within, machine["name"])
    if cost is not None:
        body["processing_s"] = _json(cost.processing_s)
        body["idle_cores"] = cost.idle_cores
    body["cv2"] = _cv2([sweep[0] for sweep in sweeps])
    body["doubts"] = _doubts(steps, sweeps)
    if cost is not None and not late and capacity.nodt_per_s is not None:
        used = cost.idle_cores + cost.processing_s.value * capacity.nodt_per_s.value
        body["utilisation"] = used / machine["cpus"]
    return body


def _ratio(workload: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, float | None]:
    """NodT over the first arm's. Its interval comes from the ends of both intervals, so it is too
    wide rather than too narrow: it ignores that a host slows down the sweeps of both alike."""
    above, below = workload["nodt_per_s"], first["nodt_per_s"]
    if above is None or below is None:
        return {"value": None, "low": None, "high": None}
    return {
        "value": above["value"] / below["value"],
        "low": above["low"] / below["high"],
        "high": above["high"] / below["low"],
    }


def whole_sweeps(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the sweeps that have every rate of the first one, ascending, with the last attempt of
    each step.
    """
    sweeps: dict[int, dict[float, Step]] = {}
    for step in steps:
        sweeps.setdefault(step.setting.sweep, {})[step.rate_per_s] = step
    first = sweeps.get(0, {}).keys()
    return [
        [sweep[rate] for rate in sorted(sweep)]
        for sweep in sweeps.values()
        if first and sweep.keys() == first
    ]


def _generator_fault(sweeps: Sequence[Sequence[Step]], capacity: NodeCapacity) -> str:
    """Say that the generator, not the node, limited a step next to NodT; "" if none was so limited.

    Latency counts from the intended start, so a step that keeps the limit in spite of a late
    generator does keep it: only the steps on both sides of NodT decide.
    """
    if capacity.nodt_per_s is None:
        return ""
    nodt = capacity.nodt_per_s.value
    rates = [step.rate_per_s for step in sweeps[0]]
    after = next(index for index, rate in enumerate(rates) if rate >= nodt)
    for sweep in sweeps:
        for step in sweep[max(0, after - 1) : after + 1]:
            share = step.cores.get("generator", 0.0)
            if step.is_late or share > GENERATOR_CORES_MAX:
                busy = f", it took {share:.0%} of a core" if "generator" in step.cores else ""
                below = [r for r in rates if r < min(rates[after - 1], step.rate_per_s)]
                bound = f"; p95 keeps the limit at {below[-1]:g}/s" if below else ""
                return (
                    f"generator saturated at {step.rate_per_s:g}/s in sweep "
                    f"{step.setting.sweep + 1}: lag p99 {step.lag_p99_ms:.2f} ms{busy}{bound}"
                )
    return ""


def _doubts(steps: Sequence[Step], sweeps: Sequence[Sequence[Step]]) -> list[str]:
    doubts = []
    if len(sweeps) == 1:
        doubts.append("one sweep: the intervals hold for it only")
    repeated = len(steps) - len({(step.setting.sweep, step.rate_per_s) for step in steps})
    if repeated:
        doubts.append(f"{repeated} of {len(steps)} steps are not used: the generator was late")
    return doubts


def _cv2(steps: Sequence[Step]) -> float | None:
    """Squared coefficient of variation of the time in the node, at the lowest rate."""
    values = np.concatenate([step.requests["latency_ms"].to_numpy() for step in steps])
    return float(values.var() / values.mean() ** 2) if values.size and values.mean() > 0 else None


def _json(figure: Interval | None) -> dict[str, float] | None:
    return None if figure is None else asdict(figure)


def _generator_cores(manifest: Mapping[str, Any]) -> dict[int, float]:
    """CPU of each block's busiest load worker [cores], without blocks whose CPU is not known."""
    cores = {}
    for block in (manifest.get("load") or {}).get("blocks") or ():
        shares = [w["cpu_share"] for w in block["workers"] if w.get("cpu_share") is not None]
        if shares:
            cores[int(block["repeat"])] = float(max(shares))
    return cores
