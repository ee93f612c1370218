"""A year of the design's faults, at the stated rates, from the measurements of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from core.json_object import JsonObject
from experiments.kinds.performability.folder import Measured, Run
from experiments.kinds.performability.section import FaultRate, fault_name, tiers_of
from experiments.record.metrics.performability import user_metrics
from optimizer.performability import Fault, Level, Stage, Year, expected_year


def year_of(run: Run) -> dict[str, object] | None:
    """Expectation of each arm: over all repeats, and the least and most of single ones. None
    without rates, or where nothing was answered.

    The stretch in which a fault is known and not yet repaired is as long as `repair_s` says; until
    it is noticed, and after its end, the service took as long as was measured; but an operator
    comes `year_wait_s` after the end. Every machine of the struck tier is taken to fail as the one
    that was struck.
    """
    if not run.section.rates or run.ideal.latency_ms is None:
        return None
    arms = {}
    for arm in run.arms:
        blocks = [one for one in run.blocks if one.arm == arm]
        whole = _year(run, blocks)
        if whole is None:
            continue
        count = len(run.faults)
        repeats = sorted({one.pair // count for one in blocks})
        single = [_year(run, [b for b in blocks if b.pair // count == pair]) for pair in repeats]
        arms[arm] = _json(whole, [one for one in single if one is not None])
    return {
        "arms": arms,
        "rates": {kind: rate.model_dump() for kind, rate in run.section.rates.items()},
        "machines": {fault_name(fault): _machines(run, fault) for fault in run.faults},
    }


def _json(whole: Year, single: Sequence[Year]) -> dict[str, object]:
    # Of a run that was cut short, no single repeat may have all faults.
    lost = [one.lost for one in single] or [whole.lost]
    demerits = [one.demerits_added for one in single] or [whole.demerits_added]
    return {
        "goodput": whole.goodput,
        "lost": whole.lost,
        "lost_range": [min(lost), max(lost)],
        "punctuality": whole.punctuality,
        "mean_ms": whole.mean_ms,
        "demerits": whole.demerits,
        "demerits_added": whole.demerits_added,
        "demerits_added_range": [min(demerits), max(demerits)],
        "hours": whole.hours,
        "lost_by_fault": dict(whole.lost_by_fault),
        "repeats": len(single),
    }


def _year(run: Run, blocks: Sequence[Measured]) -> Year | None:
    """Return the expected year; None if a fault with a rate was not measured in these blocks."""
    normal = _level(run, blocks, "before")
    faults = []
    for index, fault in enumerate(run.faults):
        rate = run.section.rates.get(fault["kind"])
        if rate is None:
            continue
        of_fault = [one for one in blocks if one.fault == index]
        stages = _stages(run, of_fault, rate) if of_fault else None
        if stages is None:
            return None
        often = rate.per_year * _machines(run, fault)
        faults.append(Fault(fault_name(fault), often, stages))
    if normal is None or run.ideal.latency_ms is None:
        return None
    return expected_year(normal, faults, run.ideal.latency_ms)


def _stages(run: Run, blocks: Sequence[Measured], rate: FaultRate) -> tuple[Stage, ...] | None:
    """Return the stages of a fault: until detection, until repair, and until users notice nothing.

    A fault without detection stays at its first level until its repair.
    """
    seconds = {
        phase: float(np.mean([_lasts_s(run, one, phase) for one in blocks]))
        for phase in ("fault", "degraded", "recovery", "reset")
    }
    noticed_s = seconds["fault"] if seconds["degraded"] else 0.0
    held = "degraded" if seconds["degraded"] else "fault"
    seconds["fault"] = noticed_s
    seconds[held] = max(0.0, rate.repair_s - noticed_s)
    stages = []
    for phase, lasted_s in seconds.items():
        # a phase too short for a request is taken for what came with the fault
        level = _level(run, blocks, phase) or _level(run, blocks, "fault")
        if lasted_s > 0.0 and level is None:
            return None
        if lasted_s > 0.0 and level is not None:
            stages.append(Stage(lasted_s, level))
    return tuple(stages)


def _lasts_s(run: Run, one: Measured, phase: str) -> float:
    """Return the duration of a phase of this block in the year."""
    operator = run.section.operator
    if operator and phase == "recovery" and one.course.reset_s is not None:
        return operator.year_wait_s
    return one.lasted_s(phase)


def _level(run: Run, blocks: Sequence[Measured], phase: str) -> Level | None:
    """Return the level of requests in a phase of these blocks; None of none."""
    rows = [one.within(phase) for one in blocks if phase in one.course.spans]
    total = sum(frame.height for frame in rows)
    if total == 0:
        return None
    found = user_metrics(pl.concat(rows), 1.0, run.ideal)
    goodput, mean_ms, demerits = found["goodput"], found["mean_ms"], found["demerits_per_request"]
    assert goodput is not None  # as there were requests
    assert mean_ms is not None
    assert demerits is not None
    return Level(goodput, mean_ms, demerits)


def _machines(run: Run, fault: JsonObject) -> int:
    """Return the number of targets: all machines of the tier, or the one switch of all."""
    if fault["select"].get("all"):
        return 1
    return sum(run.nodes[tier] for tier in tiers_of(fault["select"], run.nodes))
