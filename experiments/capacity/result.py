"""capacity.json: what one node carries, for people's report and for the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from experiments.capacity.analysis import Interval, NodeCapacity, capacity_of, cost_of
from experiments.capacity.steps import Step
from experiments.spec import Design
from experiments.spec.experiment import Workload

SCHEMA = 1
GENERATOR_CORES_MAX = 0.9


def capacity_json(
    design: Design, manifest: Mapping[str, Any], steps: Sequence[Step]
) -> dict[str, Any]:
    """The whole file.

    Parameters: manifest as written; steps of all sweeps and workloads, those that were measured.
    """
    fleet = design.fleet
    tier = fleet.entry_tier
    workloads = {
        workload.user: _workload(
            design, workload, [s for s in steps if s.asked.user == workload.user]
        )
        for workload in design.experiment.workloads
    }
    verdicts = dict(manifest["verdicts"])
    complete = bool(verdicts["measurement"]["ok"]) and all(
        found["nodt_per_s"] is not None for found in workloads.values()
    )
    return {
        "schema": SCHEMA,
        "experiment": fleet.experiment,
        "run": manifest["run"],
        "complete": complete,
        "machine": {"name": f"{tier}-1", "tier": tier, **fleet.tiers[tier].model_dump(mode="json")},
        "workloads": workloads,
        "verdicts": verdicts,
    }


def _workload(design: Design, workload: Workload, steps: Sequence[Step]) -> dict[str, Any]:
    machine = f"{design.fleet.entry_tier}-1"
    body: dict[str, Any] = {
        "limit_ms": workload.p95_ms,
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
    }
    sweeps = whole_sweeps(steps)
    if not sweeps:
        return {**body, "reason": "it was ended before its first sweep was whole"}
    body["sweeps"] = len(sweeps)
    rng = np.random.default_rng(design.experiment.design.seed)
    found = capacity_of(sweeps, workload.p95_ms, rng)
    late = _generator_decides(sweeps, found)
    body |= {
        "nodt_per_s": _json(None if late else found.nodt_per_s),
        "knee_per_s": _json(found.knee_per_s),
        "reason": late or found.reason,
        "bound_per_s": found.bound_per_s,
    }
    within = [s for sweep in sweeps for s in sweep if s.p95_ms <= workload.p95_ms]
    cost = cost_of(within, machine)
    if cost is not None:
        body["processing_s"] = _json(cost.processing_s)
        body["idle_cores"] = cost.idle_cores
    body["cv2"] = _cv2([sweep[0] for sweep in sweeps])
    body["doubts"] = _doubts(steps, sweeps)
    cpus = design.fleet.tiers[design.fleet.entry_tier].cpus
    if cost is not None and body["nodt_per_s"] is not None:
        used = cost.idle_cores + cost.processing_s.value * body["nodt_per_s"]["value"]
        body["utilisation"] = used / cpus
    return body


def whole_sweeps(steps: Sequence[Step]) -> list[list[Step]]:
    """The sweeps that have every rate of the first one, ascending; of each step the last
    attempt."""
    sweeps: dict[int, dict[float, Step]] = {}
    for step in steps:
        sweeps.setdefault(step.asked.sweep, {})[step.rate_per_s] = step
    first = sweeps.get(0, {}).keys()
    return [
        [sweep[rate] for rate in sorted(sweep)]
        for sweep in sweeps.values()
        if first and sweep.keys() == first
    ]


def _generator_decides(sweeps: Sequence[Sequence[Step]], found: NodeCapacity) -> str:
    """Why a step next to NodT was the generator's; "" if none was.

    Latency counts from the intended start, so a step that keeps the limit in spite of a late
    generator keeps it: only the steps on both sides of NodT decide.
    """
    if found.nodt_per_s is None:
        return ""
    nodt = found.nodt_per_s.value
    rates = [step.rate_per_s for step in sweeps[0]]
    after = next(place for place, rate in enumerate(rates) if rate >= nodt)
    for sweep in sweeps:
        for step in sweep[max(0, after - 1) : after + 1]:
            share = step.cores.get("generator", 0.0)
            if step.is_late or share > GENERATOR_CORES_MAX:
                busy = f", it took {share:.0%} of a core" if "generator" in step.cores else ""
                below = [r for r in rates if r < min(rates[after - 1], step.rate_per_s)]
                known = f"; p95 keeps the limit at {below[-1]:g}/s" if below else ""
                return (
                    f"generator saturated at {step.rate_per_s:g}/s in sweep {step.asked.sweep + 1}"
                    f": lag p99 {step.lag_p99_ms:.2f} ms{busy}{known}"
                )
    return ""


def _doubts(steps: Sequence[Step], sweeps: Sequence[Sequence[Step]]) -> list[str]:
    """What a reader should know before the figures."""
    found = []
    if len(sweeps) == 1:
        found.append("one sweep: the intervals hold for it only")
    again = len(steps) - len({(step.asked.sweep, step.rate_per_s) for step in steps})
    if again:
        found.append(f"{again} of {len(steps)} steps are not used: the generator was late")
    return found


def _cv2(steps: Sequence[Step]) -> float | None:
    """Squared coefficient of variation of the time in the node, at the lowest rate."""
    values = np.concatenate([step.requests["latency_ms"].to_numpy() for step in steps])
    return float(values.var() / values.mean() ** 2) if values.size and values.mean() > 0 else None


def _json(found: Interval | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)
