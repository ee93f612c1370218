"""A year of the design's faults, at the stated rates, from the measurements of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from core.json_object import JsonObject
from experiments.kinds.performability.folder import MeasuredBlock, Run
from experiments.kinds.performability.section import FaultRate, fault_name, tiers_of
from experiments.record.metrics.performability import user_metrics
from optimizer.performability import Fault, Level, Stage, Year, expected_year


def year_of(run: Run) -> dict[str, object] | None:
    """Return each arm's expected year over all repeats, with the range of single repeats. None
    without rates, or if nothing was answered.

    The time in which a fault is known and not yet repaired lasts `repair_s`. The times until a
    fault is noticed and after its end are the measured ones, except that an operator comes
    `year_wait_s` after the end. Every machine of the struck tier is assumed to fail like the
    struck one.
    """
    if not run.section.rates or run.ideal.latency_ms is None:
        return None
    arms = {}
    for arm in run.arms:
        blocks = run.blocks_of(arm)
        expectation = _year(run, blocks)
        if expectation is None:
            continue
        count = len(run.faults)
        repeats = sorted({block.pair // count for block in blocks})
        single = [_year(run, [b for b in blocks if b.pair // count == pair]) for pair in repeats]
        arms[arm] = _json(expectation, [year for year in single if year is not None])
    return {
        "arms": arms,
        "rates": {kind: rate.model_dump() for kind, rate in run.section.rates.items()},
        "machines": {fault_name(fault): _machines(run, fault) for fault in run.faults},
    }


def _json(expectation: Year, single: Sequence[Year]) -> dict[str, object]:
    # In a run that was cut short, no single repeat may have all faults.
    lost = [year.lost for year in single] or [expectation.lost]
    demerits = [year.demerits_added for year in single] or [expectation.demerits_added]
    return {
        "goodput": expectation.goodput,
        "lost": expectation.lost,
        "lost_range": [min(lost), max(lost)],
        "punctuality": expectation.punctuality,
        "mean_ms": expectation.mean_ms,
        "demerits": expectation.demerits,
        "demerits_added": expectation.demerits_added,
        "demerits_added_range": [min(demerits), max(demerits)],
        "hours": expectation.hours,
        "lost_by_fault": dict(expectation.lost_by_fault),
        "repeats": len(single),
    }


def _year(run: Run, blocks: Sequence[MeasuredBlock]) -> Year | None:
    """Return the expected year; None if a fault with a rate was not measured in these blocks."""
    normal = _level(run, blocks, "before")
    faults = []
    for index, fault in enumerate(run.faults):
        rate = run.section.rates.get(fault["kind"])
        if rate is None:
            continue
        fault_blocks = [block for block in blocks if block.fault == index]
        stages = _stages(run, fault_blocks, rate) if fault_blocks else None
        if stages is None:
            return None
        per_year = rate.per_year * _machines(run, fault)
        faults.append(Fault(fault_name(fault), per_year, stages))
    if normal is None or run.ideal.latency_ms is None:
        return None
    return expected_year(normal, faults, run.ideal.latency_ms)


def _stages(run: Run, blocks: Sequence[MeasuredBlock], rate: FaultRate) -> tuple[Stage, ...] | None:
    """Return the stages of a fault: until detection, until repair, and until users are served as
    before.

    A fault without detection stays at its first level until its repair.
    """
    seconds = {
        phase: float(np.mean([_phase_s(run, block, phase) for block in blocks]))
        for phase in ("fault", "degraded", "recovery", "reset")
    }
    noticed_s = seconds["fault"] if seconds["degraded"] else 0.0
    lasting_phase = "degraded" if seconds["degraded"] else "fault"
    seconds["fault"] = noticed_s
    seconds[lasting_phase] = max(0.0, rate.repair_s - noticed_s)
    stages = []
    for phase, lasted_s in seconds.items():
        # a phase too short for a request has the level of the fault's first phase
        level = _level(run, blocks, phase) or _level(run, blocks, "fault")
        if lasted_s > 0.0 and level is None:
            return None
        if lasted_s > 0.0 and level is not None:
            stages.append(Stage(lasted_s, level))
    return tuple(stages)


def _phase_s(run: Run, block: MeasuredBlock, phase: str) -> float:
    operator = run.section.operator
    if operator and phase == "recovery" and block.course.reset_s is not None:
        return operator.year_wait_s
    return block.lasted_s(phase)


def _level(run: Run, blocks: Sequence[MeasuredBlock], phase: str) -> Level | None:
    """Return the level of requests in a phase of these blocks; None without requests."""
    rows = [block.within(phase) for block in blocks if phase in block.course.spans]
    total = sum(frame.height for frame in rows)
    if total == 0:
        return None
    metrics = user_metrics(pl.concat(rows), 1.0, run.ideal)
    goodput, mean_ms = metrics["goodput"], metrics["mean_ms"]
    demerits = metrics["demerits_per_request"]
    assert goodput is not None  # as there were requests
    assert mean_ms is not None
    assert demerits is not None
    return Level(goodput, mean_ms, demerits)


def _machines(run: Run, fault: JsonObject) -> int:
    """Return the number of targets: all machines of the tier, or the one switch of all."""
    if fault["select"].get("all"):
        return 1
    return sum(run.nodes[tier] for tier in tiers_of(fault["select"], run.nodes))
