"""PCRAFT's two phases: what one node was measured to carry goes into the plan as it is.

A tier of plan.toml may name a run of a capacity design instead of stating processing_s. A node is
full at NodT, the rate at which its p95 passed the run's limit; the low end of its interval is used.
A node of another size carries so much per core, which is an assumption and said. The limit of p95
is in NodT already, so a plan with such a tier is not asked for latencies: the model would judge by
the CPU alone what was measured with all that fills up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optimizer.errors import InputError
from optimizer.plan.source import Stated, StatedTier

FILE = "capacity.json"
_CPU_BOUND = 0.7  # of the cap: below, it was not the CPU that set NodT


@dataclass(frozen=True)
class NodeThroughput:
    """One workload of a capacity run; per_s is the low end of NodT's interval [1/s]."""

    experiment: str
    run: str
    workload: str
    per_s: float
    limit_ms: float
    machine: Mapping[str, Any]
    cv2: float | None
    utilisation: float | None


def read_capacity(folder: Path, workload: str | None, place: str) -> NodeThroughput:
    """NodT of a workload (needed where the run has several).

    Raises: InputError for a folder without capacity.json, a workload that it does not have, and one
    of which no NodT was found, with the run's reason.
    """
    file = folder / FILE
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        workloads: dict[str, Any] = body["workloads"]
        machine: dict[str, Any] = body["machine"]
    except OSError as error:
        raise InputError(
            place,
            expected=f"a run of a capacity design, with {FILE} in it",
            came=str(folder),
            do="`sparecraft run apache-capacity` makes one; `sparecraft list` shows the runs.",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(str(file), expected="workloads and machine", came=repr(error)) from error
    if workload is None and len(workloads) == 1:
        workload = next(iter(workloads))
    if workload not in workloads:
        raise InputError(
            place, expected=f"one of the workloads {', '.join(workloads)}", came=repr(workload)
        )
    found = workloads[workload]
    if found["nodt_per_s"] is None:
        raise InputError(
            place,
            expected=f"a run that found NodT of {workload}",
            came=found["reason"],
            do="Measure again; its report says what each step came to.",
        )
    return NodeThroughput(
        experiment=str(body["experiment"]),
        run=str(body["run"]),
        workload=workload,
        per_s=float(found["nodt_per_s"]["low"]),
        limit_ms=float(found["limit_ms"]),
        machine=machine,
        cv2=found["cv2"],
        utilisation=found["utilisation"],
    )


def with_capacities(plan: Stated) -> tuple[Stated, tuple[str, ...]]:
    """The plan.toml with its capacity runs' figures in the tiers, and what has to be said of them.

    Raises: InputError as `read_capacity`, and for a latency limit beside a capacity.
    """
    if not any("capacity" in tier.values for tier in plan.tiers):
        return plan, ()
    if plan.slo.latency_ms:
        raise InputError(
            f"{plan.place}.slo",
            expected="an availability only: a capacity run's NodT keeps the limit of p95 already",
            came=", ".join(f"p{q}_ms" for q in plan.slo.latency_ms),
            do="Leave it out, or measure with this limit: [slo] p95_ms of the capacity design.",
        )
    tiers, said = [], []
    for tier in plan.tiers:
        if "capacity" in tier.values:
            tier, text = _filled(tier, plan)
            said.append(text)
        tiers.append(tier)
    return replace(plan, tiers=tuple(tiers)), tuple(said)


def _filled(tier: StatedTier, plan: Stated) -> tuple[StatedTier, str]:
    values = dict(tier.values)
    folder = plan.path.parent / values.pop("capacity")
    found = read_capacity(folder, values.pop("workload", None), f"{tier.place}.capacity")
    if "processing_s" in values:
        raise InputError(
            f"{tier.place}.processing_s", expected="none beside a capacity", came="a value"
        )
    cpus = float(found.machine["cpus"])
    measured = {
        "role": found.machine["role"],
        "memory_mb": float(found.machine["memory_mb"]),
        "nic_mbps": float(found.machine["nic_mbps"]),
        "disk_mbps": float(found.machine["disk_mbps"]),
        # So that a node which carries NodT is used to the limit of utilisation, and not beyond.
        "processing_s": plan.limits.max_utilisation * cpus / found.per_s,
    }
    if found.cv2:
        measured["cv2"] = found.cv2
    text = (
        f"tier {tier.name}: a node of {cpus:g} CPU carries {found.per_s:.4g} requests/s "
        f"({found.workload}, p95 within {found.limit_ms:g} ms; low end of NodT's interval in run "
        f"{found.run} of {found.experiment}), other sizes in proportion to their cores"
    )
    if found.utilisation is not None and found.utilisation < _CPU_BOUND:
        text += (
            f"; its CPU was at {found.utilisation:.0%} of its cap then: something else filled up, "
            "which need not grow with the cores"
        )
    return StatedTier(tier.name, {**measured, **values}, tier.place), text
