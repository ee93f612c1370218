"""Analysis of a run's files: each fault, the failures that users saw, and a year of faults."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from core.json_object import JsonObject
from core.runfiles.manifest import manifest_if_any
from core.statistics.percentiles import OK, rank_of
from experiments.kinds.performability.compared import (
    COMPARED,
    cost_of,
    over_all,
    paired_differences,
)
from experiments.kinds.performability.fill import FilledManifest
from experiments.kinds.performability.folder import MeasuredBlock, Run, read_run
from experiments.kinds.performability.paper import compare_with_paper
from experiments.kinds.performability.phases import PHASES
from experiments.kinds.performability.section import fault_name
from experiments.kinds.performability.year import year_of
from experiments.record.metrics.generator import generator_blocks, generator_reasons
from experiments.record.metrics.performability import UserMetrics, user_metrics
from experiments.record.result import Findings, not_measured
from experiments.report.text import number

_WARMTH_OFF_MAX = 0.05  # of a source's share of replies
_QUARTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def analyse(folder: Path) -> Findings:
    manifest = cast(FilledManifest, manifest_if_any(folder))
    run = read_run(folder, manifest)
    load = generator_blocks(pl.read_parquet(folder / "requests.parquet"), manifest)
    faults = [_fault(run, index) for index in range(len(run.faults))]
    year = year_of(run)
    fills = manifest.get("fills") or []
    objections = [
        *generator_reasons(load), *_missing_blocks(run, faults),
        *_unsettled_blocks(run), *not_as_warm(fills),
    ]  # fmt: skip
    verdicts = not_measured(manifest["verdicts"], objections)
    body = {
        "ideal": {"latency_ms": run.ideal.latency_ms, "source": run.ideal.source},
        "before": _undisturbed(run),
        "faults": faults,
        "over_all": {arm: over_all(run, arm) for arm in run.arms[1:]},
        "paper": compare_with_paper(run, faults),
        "year": year,
        "fills": fills,
    }
    return Findings(body, verdicts, slo=_slo(run, year), found=_longest_failures(faults))


def _missing_blocks(run: Run, faults: Sequence[JsonObject]) -> list[str]:
    return [
        f"{fault['name']}, {arm}: no block of it was measured"
        for fault in faults
        for arm in run.arms
        if arm not in fault["arms"]
    ]


def _unsettled_blocks(run: Run) -> list[str]:
    """Return a reason for each block that, before its own fault, was slower or lost more than other
    blocks of its arm: the effect of the previous block had not passed."""
    reasons = []
    for arm in run.arms:
        before = {block.block: block.within("before") for block in run.blocks_of(arm)}
        service = {block: _service_before(rows) for block, rows in before.items() if rows.height}
        if not service:
            continue
        usual_ms, usual_share = (
            float(np.median(column)) for column in zip(*service.values(), strict=True)
        )
        reasons += [
            f"block {block + 1}, {arm}: before its fault {ms:.0f} ms and {share:.1%} answered "
            f"well, {usual_ms:.0f} ms and {usual_share:.1%} usually; a longer rest_s lets faults "
            "pass"
            for block, (ms, share) in service.items()
            if ms > max(run.section.unfelt_ms, run.section.slow_factor * usual_ms)
            or share < usual_share - run.section.lost_share
        ]
    return reasons


def not_as_warm(fills: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a reason for each block whose filled tier had unusual sources of its replies."""
    sources = sorted({source for fill in fills for source in fill["sources"]})
    reasons = []
    for source in sources:
        usual_share = float(np.median([fill["sources"].get(source, 0.0) for fill in fills]))
        reasons += [
            f"block {fill['repeat'] + 1}, {fill['arm']}: {share:.1%} of replies from {source} when "
            f"it had been filled, {usual_share:.1%} usually"
            for fill in fills
            if abs((share := fill["sources"].get(source, 0.0)) - usual_share) > _WARMTH_OFF_MAX
        ]
    return reasons


def _service_before(rows: pl.DataFrame) -> tuple[float, float]:
    """Return the mean time of requests [ms] and the share that was answered well."""
    return float(rows["waited_ms"].to_numpy().mean()), rows.filter(outcome=OK).height / rows.height


def _longest_failures(faults: Sequence[JsonObject]) -> str:
    """Return the longest failure of each arm, in few words."""
    longest: dict[str, tuple[float, str]] = {}
    for fault in faults:
        for arm, figures in fault["arms"].items():
            seconds = figures["failure_s"]["median"]
            longest[arm] = max(longest.get(arm, (-1.0, "")), (seconds, fault["name"]))
    return "; ".join(
        f"{arm}: longest failure {number(seconds)} s ({name})"
        for arm, (seconds, name) in longest.items()
    )


def _fault(run: Run, index: int) -> JsonObject:
    fault = run.faults[index]
    arm_blocks = {arm: run.blocks_of(arm, index) for arm in run.arms}
    return {
        "name": fault_name(fault),
        "kind": fault["kind"],
        "asked_s": fault["for_s"],
        "arms": {arm: _figures(run, blocks) for arm, blocks in arm_blocks.items() if blocks},
        "comparison": {
            arm: paired_differences(run, arm_blocks[run.arms[0]], arm_blocks[arm])
            for arm in run.arms[1:]
        },
    }


def _figures(run: Run, blocks: Sequence[MeasuredBlock]) -> JsonObject:
    phases = {}
    for phase in PHASES:
        spans = [block.course.spans[phase] for block in blocks if phase in block.course.spans]
        rows = pl.concat([block.within(phase) for block in blocks])
        if rows.height:
            phases[phase] = user_metrics(rows, sum(end - start for start, end in spans), run.ideal)
    failing = pl.concat([block.failing for block in blocks])
    lasted_s = [block.course.failure[1] - block.course.failure[0] for block in blocks]
    detected = [block.course.detected_s for block in blocks]
    resets = [block.course.reset_s for block in blocks]
    costs = [cost_of(run, block) for block in blocks]
    return {
        "repeats": len(blocks),
        "fault_s": _range([block.course.end_s - block.course.start_s for block in blocks]),
        "failure_s": _range([block.course.failure_s for block in blocks]),
        "recovered": sum(block.course.recovered for block in blocks),
        "detected_s": _spread([s for s in detected if s is not None]),
        "detected": sum(s is not None for s in detected),
        "reset_s": _spread([s for s in resets if s is not None]),
        "reset": sum(s is not None for s in resets),
        "phases": phases,
        "failure": user_metrics(failing, sum(lasted_s), run.ideal),
        "box_ms": _box(failing),
        "cost": {name: _range([block[name] for block in costs]) for name in COMPARED},
    }


def _undisturbed(run: Run) -> dict[str, UserMetrics]:
    """Return the service of each arm's users without a fault: the part of each block before its
    fault."""
    metrics = {}
    for arm in run.arms:
        blocks = run.blocks_of(arm)
        rows = [block.within("before") for block in blocks]
        if rows:
            seconds = sum(block.lasted_s("before") for block in blocks)
            metrics[arm] = user_metrics(pl.concat(rows), seconds, run.ideal)
    return metrics


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    return _range(values) if values else None


def _range(values: Sequence[float]) -> dict[str, float]:
    return {"median": float(np.median(values)), "min": min(values), "max": max(values)}


def _box(requests: pl.DataFrame) -> dict[str, float] | None:
    """Return the values of a box-and-whiskers plot: quantiles by rank, and the mean."""
    if requests.is_empty():
        return None
    values = np.sort(requests["latency_ms"].to_numpy())
    ranks = {f"q{round(100 * q)}": rank_of(q, values.size) for q in _QUARTILES}
    quantiles = {q: float(values[rank - 1]) for q, rank in ranks.items()}
    return {**quantiles, "mean": float(values.mean())}


def _slo(run: Run, year: Mapping[str, Any] | None) -> dict[str, object] | None:
    """Compare each arm's year with the design's limits; the last arm decides.

    None without limits. `met` is null if not every fault of a year was measured.
    """
    limits = run.section.slo.model_dump(exclude_none=True)
    if not limits:
        return None
    answers = {
        arm: _check_limits(limits, arm_year)
        for arm, arm_year in (year["arms"] if year else {}).items()
    }
    last = run.arms[-1]
    reason = f"{last}: not every fault of a year was measured"
    unknown: dict[str, object] = {"met": None, "reasons": [reason]}
    return {"asked": limits, "arm": last, "arms": answers, **answers.get(last, unknown)}


def _check_limits(limits: Mapping[str, float], arm_year: Mapping[str, Any]) -> dict[str, object]:
    reasons = []
    for key, value, description in (
        ("lost_share", arm_year["lost"], "of a year's requests lost to faults"),
        ("demerits_per_request", arm_year["demerits_added"], "demerits of a request by faults"),
    ):
        limit = limits.get(key, math.inf)
        if value > limit:
            reasons.append(f"{number(value)} {description}, at most {number(limit)} allowed")
    return {"met": not reasons, "reasons": reasons}
