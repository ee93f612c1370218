"""Analysis of a run's files: each fault, the failures that users saw, and a year of faults."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np
import polars as pl

from core.runfiles.manifest import manifest_if_any
from core.statistics.percentiles import OK, rank_of
from experiments.kinds.performability.compared import (
    COMPARED,
    Difference,
    cost_of,
    over_all,
    paired,
)
from experiments.kinds.performability.fill import FilledManifest
from experiments.kinds.performability.folder import Measured, Run, between, read_run
from experiments.kinds.performability.paper import compare_with_paper
from experiments.kinds.performability.phases import PHASES
from experiments.kinds.performability.section import fault_name
from experiments.kinds.performability.year import year_of
from experiments.record.metrics.generator import generator_blocks, generator_reasons
from experiments.record.metrics.performability import UserMetrics, user_metrics
from experiments.record.records import REQUESTS, read_table
from experiments.record.result import Findings, not_measured
from experiments.report.text import number

_WARMTH_OFF_MAX = 0.05  # of a source's share of replies
_QUARTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Spread(TypedDict):
    """Over repeats."""

    median: float
    min: float
    max: float


class ArmFigures(TypedDict):
    """An arm under a fault, all repeats together."""

    repeats: int
    fault_s: Spread
    failure_s: Spread
    recovered: int
    detected_s: Spread | None
    detected: int
    reset_s: Spread | None
    reset: int
    phases: dict[str, UserMetrics]
    failure: UserMetrics
    box_ms: dict[str, float] | None
    cost: dict[str, Spread]


class FaultFigures(TypedDict):
    """A fault, and the failures that it brought to each arm."""

    name: str
    kind: str
    asked_s: float
    arms: dict[str, ArmFigures]
    comparison: dict[str, dict[str, Difference]]


def analyse(folder: Path) -> Findings:
    """Every figure of a run."""
    manifest = cast(FilledManifest, manifest_if_any(folder))
    run = read_run(folder, manifest)
    load = generator_blocks(read_table(folder / "requests.parquet", REQUESTS), manifest)
    faults = [_fault(run, index) for index in range(len(run.faults))]
    year = year_of(run)
    fills = manifest.get("fills") or []
    against = [
        *generator_reasons(load), *_missing_blocks(run, faults),
        *_not_quiet(run), *not_as_warm(fills),
    ]  # fmt: skip
    verdicts = not_measured(manifest["verdicts"], against)
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


def _missing_blocks(run: Run, faults: Sequence[FaultFigures]) -> list[str]:
    return [
        f"{fault['name']}, {arm}: no block of it was measured"
        for fault in faults
        for arm in run.arms
        if arm not in fault["arms"]
    ]


def _not_quiet(run: Run) -> list[str]:
    """Blocks that were not as others of their arm before their own fault: what came before them
    had not passed."""
    found = []
    for arm in run.arms:
        before = {one.block: one.within("before") for one in run.blocks if one.arm == arm}
        seen = {block: _before(rows) for block, rows in before.items() if rows.height}
        if not seen:
            continue
        usual_ms, usual = (float(np.median(column)) for column in zip(*seen.values(), strict=True))
        found += [
            f"block {block + 1}, {arm}: before its fault {ms:.0f} ms and {share:.1%} answered "
            f"well, {usual_ms:.0f} ms and {usual:.1%} usually; a longer rest_s lets faults pass"
            for block, (ms, share) in seen.items()
            if ms > max(run.section.unfelt_ms, run.section.slow_factor * usual_ms)
            or share < usual - run.section.lost_share
        ]
    return found


def not_as_warm(fills: Sequence[Mapping[str, Any]]) -> list[str]:
    """Blocks whose tier had its content from elsewhere than usual when it had been filled."""
    sources = sorted({source for one in fills for source in one["sources"]})
    found = []
    for source in sources:
        usual = float(np.median([one["sources"].get(source, 0.0) for one in fills]))
        found += [
            f"block {one['repeat'] + 1}, {one['arm']}: {share:.1%} of replies from {source} when "
            f"it had been filled, {usual:.1%} usually"
            for one in fills
            if abs((share := one["sources"].get(source, 0.0)) - usual) > _WARMTH_OFF_MAX
        ]
    return found


def _before(rows: pl.DataFrame) -> tuple[float, float]:
    """Mean of what requests took [ms] and share answered well."""
    return float(rows["waited_ms"].to_numpy().mean()), rows.filter(outcome=OK).height / rows.height


def _longest_failures(faults: Sequence[FaultFigures]) -> str:
    """Return the longest failure of each arm, in few words."""
    longest: dict[str, tuple[float, str]] = {}
    for fault in faults:
        for arm, one in fault["arms"].items():
            seconds = one["failure_s"]["median"]
            longest[arm] = max(longest.get(arm, (-1.0, "")), (seconds, fault["name"]))
    return "; ".join(
        f"{arm}: longest failure {number(seconds)} s ({name})"
        for arm, (seconds, name) in longest.items()
    )


def _fault(run: Run, index: int) -> FaultFigures:
    fault = run.faults[index]
    of_arm = {
        arm: [one for one in run.blocks if one.fault == index and one.arm == arm]
        for arm in run.arms
    }
    return {
        "name": fault_name(fault),
        "kind": fault["kind"],
        "asked_s": fault["for_s"],
        "arms": {arm: _figures(run, blocks) for arm, blocks in of_arm.items() if blocks},
        "comparison": {arm: paired(run, of_arm[run.arms[0]], of_arm[arm]) for arm in run.arms[1:]},
    }


def _figures(run: Run, blocks: Sequence[Measured]) -> ArmFigures:
    phases = {}
    for phase in PHASES:
        spans = [one.course.spans[phase] for one in blocks if phase in one.course.spans]
        rows = pl.concat([one.within(phase) for one in blocks])
        if rows.height:
            phases[phase] = user_metrics(rows, sum(end - start for start, end in spans), run.ideal)
    failing = pl.concat([between(one.requests, *one.course.failure) for one in blocks])
    lasted_s = [one.course.failure[1] - one.course.failure[0] for one in blocks]
    detected = [one.course.detected_s for one in blocks]
    reset = [one.course.reset_s for one in blocks]
    costs = [cost_of(run, one) for one in blocks]
    return {
        "repeats": len(blocks),
        "fault_s": _range([one.course.end_s - one.course.start_s for one in blocks]),
        "failure_s": _range([one.course.failure_s for one in blocks]),
        "recovered": sum(one.course.recovered for one in blocks),
        "detected_s": _spread([s for s in detected if s is not None]),
        "detected": sum(s is not None for s in detected),
        "reset_s": _spread([s for s in reset if s is not None]),
        "reset": sum(s is not None for s in reset),
        "phases": phases,
        "failure": user_metrics(failing, sum(lasted_s), run.ideal),
        "box_ms": _box(failing),
        "cost": {name: _range([one[name] for one in costs]) for name in COMPARED},
    }


def _undisturbed(run: Run) -> dict[str, UserMetrics]:
    """Return the service of each arm's users without a fault: all of its blocks until theirs."""
    found = {}
    for arm in run.arms:
        blocks = [one for one in run.blocks if one.arm == arm]
        rows = [one.within("before") for one in blocks]
        if rows:
            seconds = sum(one.lasted_s("before") for one in blocks)
            found[arm] = user_metrics(pl.concat(rows), seconds, run.ideal)
    return found


def _spread(values: Sequence[float]) -> Spread | None:
    return _range(values) if values else None


def _range(values: Sequence[float]) -> Spread:
    return {"median": float(np.median(values)), "min": min(values), "max": max(values)}


def _box(requests: pl.DataFrame) -> dict[str, float] | None:
    """Return the values of a box-and-whiskers plot: quantiles by rank, and the mean."""
    if requests.is_empty():
        return None
    values = np.sort(requests["latency_ms"].to_numpy())
    ranks = {f"q{round(100 * q)}": rank_of(q, values.size) for q in _QUARTILES}
    found = {q: float(values[rank - 1]) for q, rank in ranks.items()}
    return {**found, "mean": float(values.mean())}


def _slo(run: Run, year: Mapping[str, Any] | None) -> dict[str, object] | None:
    """True if the last arm's year keeps what the design asks for; null where it asks nothing,
    not known where not every fault that a year has was measured."""
    asked = run.section.slo.model_dump(exclude_none=True)
    if not asked:
        return None
    judged = {arm: _check_limits(asked, one) for arm, one in (year["arms"] if year else {}).items()}
    last = run.arms[-1]
    reason = f"{last}: not every fault of a year was measured"
    unknown: dict[str, object] = {"met": None, "reasons": [reason]}
    return {"asked": asked, "arm": last, "arms": judged, **judged.get(last, unknown)}


def _check_limits(asked: Mapping[str, float], one: Mapping[str, Any]) -> dict[str, object]:
    reasons = []
    for key, found, what in (
        ("lost_share", one["lost"], "of a year's requests lost to faults"),
        ("demerits_per_request", one["demerits_added"], "demerits of a request by faults"),
    ):
        limit = asked.get(key, math.inf)
        if found > limit:
            reasons.append(f"{number(found)} {what}, at most {number(limit)} allowed")
    return {"met": not reasons, "reasons": reasons}
