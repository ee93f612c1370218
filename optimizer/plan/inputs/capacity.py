"""PCRAFT's two phases: the measured capacity of one node is an input of the plan.

A tier of plan.toml may name a run of a capacity design instead of stating processing_s. A node is
full at NodT, the rate at which its p95 passed the run's limit; the low end of its interval is used.
A node of another size carries the same per core, which is stated as an assumption. NodT already
includes the limit of p95, so a plan with such a tier has no latency limits: the model would use the
CPU alone, but the measurement includes all resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from core.config_file import ConfigFile, Interval, Positive, Written, check, read_json
from core.errors import MOST, InputError, require_positive
from core.runfiles.manifest import against
from core.runfiles.result import FILE
from optimizer.plan.inputs.demand import clamp_cv2
from optimizer.plan.inputs.plan_file import DeclaredTier, PlanFile, Rate, Role

_OF_CAPACITY = ("capacity", "workload")
_CPU_BOUND = 0.7  # of the cap; below it, NodT was not limited by the CPU


class Machine(Written):
    """The node that was measured, as a tier of plan.toml may be."""

    tier: str
    role: Role
    cpus: Positive
    memory_mb: Annotated[float, Field(ge=64, le=MOST)]
    nic_mbps: Rate
    disk_mbps: Rate


class _Interval(Interval):
    high: Positive


class _Workload(Written):
    nodt_per_s: _Interval | None
    limit_ms: Positive
    cv2: Annotated[float, Field(ge=0)] | None
    utilisation: Annotated[float, Field(ge=0)] | None
    reason: str


class _Body(Written):
    machine: Machine
    workloads: dict[str, _Workload]


class _Head(Written):
    experiment: str
    run: str


@dataclass(frozen=True)
class NodeThroughput:
    """One workload of a capacity run; per_s, per_s_most: the ends of NodT's interval [1/s]."""

    experiment: str
    run: str
    workload: str
    per_s: float
    per_s_most: float
    limit_ms: float
    machine: Machine
    cv2: float | None
    utilisation: float | None


def read_capacity(folder: Path, workload: str | None, place: str) -> NodeThroughput:
    """Return NodT of a workload, which must be named if the run has several.

    Raises: InputError for a folder that is no capacity run, a workload that is not in the run, and
    one without NodT, with the run's reason.
    """
    result, of_body = _read_result(folder, place)
    _refuse_failed(folder, result.values, place)
    head, body = check(result, _Head), check(of_body, _Body)
    if workload is None and len(body.workloads) == 1:
        workload = next(iter(body.workloads))
    if workload is None or workload not in body.workloads:
        workloads = ", ".join(body.workloads)
        raise InputError(place, expected=f"one of the workloads {workloads}", got=repr(workload))
    throughput = body.workloads[workload]
    if throughput.nodt_per_s is None:
        raise InputError(
            place,
            expected=f"a run that found NodT of {workload}",
            got=throughput.reason,
            hint="Measure again; its report has the result of each step.",
        )
    return NodeThroughput(
        experiment=head.experiment,
        run=head.run,
        workload=workload,
        per_s=throughput.nodt_per_s.low,
        per_s_most=throughput.nodt_per_s.high,
        limit_ms=throughput.limit_ms,
        machine=body.machine,
        cv2=throughput.cv2,
        utilisation=throughput.utilisation,
    )


def _refuse_failed(folder: Path, head: Mapping[str, Any], place: str) -> None:
    """Raise InputError for a run that is disturbed or not valid as a whole.

    A workload without NodT has its own reason, so `valid` of the head is not used.
    """
    manifest = folder / "manifest.json"
    manifest_fault = against(read_json(manifest).values) if manifest.is_file() else ""
    fault = against(head) if head.get("disturbed") else manifest_fault
    if fault:
        raise InputError(
            place,
            expected="a run whose measurement, injection and revert went well",
            got=f"{folder.name}: {fault}",
            hint="Its report says why; measure again.",
        )


def _read_result(folder: Path, place: str) -> tuple[ConfigFile, ConfigFile]:
    """Return result.json, and its section with the capacity."""
    if not (folder / FILE).is_file():
        raise InputError(
            place,
            expected=f"a run of a capacity design, with {FILE} in it",
            got=str(folder),
            hint="`sparecraft run` of such a design makes one; `sparecraft list` shows the runs.",
        )
    result = read_json(folder / FILE)
    if not isinstance(result.values.get("capacity"), dict):
        raise result.error("capacity", expected="the result of a capacity run", got="none")
    return result, result.section("capacity")


def with_capacities(file: PlanFile) -> tuple[PlanFile, tuple[str, ...]]:
    """Return the plan.toml with the figures of its capacity runs in the tiers, and remarks on them.

    Raises: InputError as `read_capacity`, and for a latency limit beside a capacity.
    """
    plan = file.stated
    if all(tier.capacity is None for tier in plan.tiers):
        return file, ()
    if plan.slo.latency_ms:
        raise file.source.error(
            "slo",
            expected="an availability only: a capacity run's NodT keeps the limit of p95 already",
            got=", ".join(f"p{q}_ms" for q in plan.slo.latency_ms),
            hint="Leave it out, or measure with this limit: [slo] p95_ms of the capacity design.",
        )
    tiers, remarks = [], []
    for number, tier in enumerate(plan.tiers):
        if tier.capacity is not None:
            tier, text = _fill(tier, number, file)
            remarks.append(text)
        tiers.append(tier)
    return file.having(tiers=tiers), tuple(remarks)


def _fill(tier: DeclaredTier, number: int, file: PlanFile) -> tuple[DeclaredTier, str]:
    key = ("tiers", number)
    if tier.processing_s is not None:
        raise file.source.error(
            *key, "processing_s", expected="none beside a capacity", got="a value"
        )
    folder, place = file.folder / str(tier.capacity), file.source.place(*key, "capacity")
    throughput = read_capacity(folder, tier.workload, place)
    cpus = throughput.machine.cpus
    measured = {
        "role": throughput.machine.role,
        "memory_mb": int(throughput.machine.memory_mb),
        "nic_mbps": throughput.machine.nic_mbps,
        "disk_mbps": throughput.machine.disk_mbps,
        # So that a node which carries NodT is used to the limit of utilisation, and not beyond.
        "processing_s": require_positive(
            place, file.stated.limits.max_utilisation * cpus / throughput.per_s
        ),
    }
    if throughput.cv2:
        measured["cv2"] = clamp_cv2(throughput.cv2)
    text = (
        f"tier {tier.name}: a node of {cpus:g} CPU carries {throughput.per_s:.4g} requests/s "
        f"({throughput.workload}, p95 within {throughput.limit_ms:g} ms; low end of NodT's "
        f"interval in run {throughput.run} of {throughput.experiment}), other sizes in proportion "
        "to their cores"
    )
    if throughput.utilisation is not None and throughput.utilisation < _CPU_BOUND:
        text += (
            f"; its CPU was at {throughput.utilisation:.0%} of its cap then: something else filled "
            "up, which need not grow with the cores"
        )
    stated = {key: value for key, value in tier.values.items() if key not in _OF_CAPACITY}
    filled = DeclaredTier.model_validate({**measured, **stated})
    return filled.model_copy(update={"variants": tier.variants}), text
