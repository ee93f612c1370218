"""Results of a run's arms, computed from its records only."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from core.config_file import ConfigFile, check
from core.runfiles.events import Window, of_kind, read_events, run_end_s, windows, without_discarded
from core.runfiles.manifest import manifest_if_any
from core.runfiles.requests import WARM_UP, measured
from core.statistics.percentiles import time_out_of
from experiments.design.fleet import Fleet
from experiments.design.prediction import Prediction, read_prediction
from experiments.record.dose import doses_json
from experiments.record.metrics.arbiters import agreement, replication_load
from experiments.record.metrics.bootstrap import correlated_s, seeded
from experiments.record.metrics.frames import arm_names, prepared, spans_of
from experiments.record.metrics.generator import generator_blocks, generator_reasons
from experiments.record.metrics.improvement import Factor, improvement, no_improvement, pairs_of
from experiments.record.metrics.looks import levels_of
from experiments.record.metrics.operations import operation_figures
from experiments.record.metrics.performability import (
    Ideal,
    UserMetrics,
    ideal_latency,
    user_metrics,
)
from experiments.record.metrics.predicted import Compared, Records, compare
from experiments.record.metrics.promise import promise_of
from experiments.record.metrics.slo import slo_verdict
from experiments.record.metrics.stages import stage_figures
from experiments.record.metrics.steps import steps
from experiments.record.metrics.utilisation import utilisation
from experiments.record.metrics.verdicts import fault_counts, run_verdicts
from experiments.record.metrics.weights import performability_weights
from experiments.record.result import Findings


def summarize(
    requests: pl.DataFrame,
    events: Sequence[Mapping[str, Any]],
    manifest: Mapping[str, Any],
    *,
    plan: Mapping[str, Any] | None = None,
    arbiters: pl.DataFrame | None = None,
    hosts: pl.DataFrame | None = None,
    prediction: Prediction | None = None,
) -> Findings:
    """Return every figure of a run's arms, ready for JSON (null for what is no number).

    Parameters: requests, events and manifest from their files; hosts the machines' samples;
    prediction of the plan from which the design was made, if there is one.
    """
    events = without_discarded(events)
    frame = prepared(requests, time_out_of(manifest))
    main = measured(frame)
    arms = arm_names(frame, manifest)
    baseline, other = compared_arms(arms)
    run_windows = windows(events, run_end_s(frame, events, manifest))
    disturbances = of_kind(run_windows, "fault", "interference")
    ideal = ideal_latency(main, baseline, disturbances)
    phases = _phases(frame, arms, run_windows, ideal)
    arm_figures = {
        arm: user_metrics(
            main.filter(pl.col("arm") == arm), _measured_duration_s(phases, arm), ideal
        )
        for arm in arms
    }
    faults = {
        **fault_counts(events, manifest.get("fingerprint_clean")),
        "doses": doses_json(events),
    }
    load = generator_blocks(requests, manifest)
    verdicts = run_verdicts(manifest, arm_figures, disturbances, faults, generator_reasons(load))
    comparison = _comparison(main, arms, baseline, manifest)
    predicted = _compare_plan(prediction, main, run_windows, manifest, hosts)
    spans = spans_of(main)
    body = {
        "arms": arm_figures,
        "compared": {"baseline": baseline, "other": other},
        "improvement": _improvement(main, baseline, other, manifest),
        "comparison": comparison,
        "steps": steps(main, arms, manifest, {baseline: comparison}),
        **operation_figures(main, arms, block_s=correlated_s(manifest)),
        "phases": phases,
        "stages": stage_figures(main, arms, manifest),
        "ideal": {"latency_ms": ideal.latency_ms, "source": ideal.source},
        "replication": {} if arbiters is None else replication_load(arbiters, spans),
        "agreement": {} if arbiters is None else agreement(arbiters, spans),
        "faults": faults,
        "influx_points": (manifest.get("telemetry") or {}).get("in_influxdb", 0),
        "calibration": manifest.get("calibration"),
        "utilisation": utilisation(hosts, run_windows, spans, manifest),
        "host_blocks": (manifest.get("host") or {}).get("blocks") or [],
        "load": {"blocks": load},
        "predicted": predicted,
        "plan": dict(plan) if plan else {"feasible": None, "usd_per_month": None, "tiers": {}},
        "weights_source": performability_weights().source,
    }
    slo_limits, (_, level) = (manifest.get("spec") or {}).get("slo"), levels_of(manifest)
    slo = slo_verdict(main, arms, slo_limits, block_s=correlated_s(manifest), level=level)
    promise = promise_of(prediction, predicted, slo) if prediction and predicted else None
    return Findings(
        without_nan(body), without_nan(verdicts), slo=without_nan(slo), promise=without_nan(promise)
    )


def summarize_run(run_dir: Path) -> Findings:
    """Apply `summarize` to the files in a run's folder; write nothing."""
    events, plan, predicted = (
        run_dir / name for name in ("events.jsonl", "plan.json", "predicted.json")
    )
    arbiters, hosts = (
        pl.read_parquet(file) if file.is_file() else None
        for file in (run_dir / "arbiters.parquet", run_dir / "hosts.parquet")
    )
    return summarize(
        pl.read_parquet(run_dir / "requests.parquet"),
        read_events(events) if events.is_file() else [],
        manifest_if_any(run_dir),
        plan=json.loads(plan.read_text(encoding="utf-8")) if plan.is_file() else None,
        arbiters=arbiters,
        hosts=hosts,
        prediction=read_prediction(predicted) if predicted.is_file() else None,
    )


def compared_arms(arms: Sequence[str]) -> tuple[str, str | None]:
    """Return the two arms of the improvement factors.

    The arm called baseline, else the first; and the first of the others, None if there is none.
    """
    baseline = "baseline" if "baseline" in arms or not arms else arms[0]
    return baseline, next((arm for arm in arms if arm != baseline), None)


def without_nan(value: Any) -> Any:
    """Return the same JSON value, with null for every number that is not finite."""
    if isinstance(value, Mapping):
        return {str(key): without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _phases(
    frame: pl.DataFrame, arms: Sequence[str], run_windows: Sequence[Window], ideal: Ideal
) -> dict[str, dict[str, UserMetrics]]:
    phases: dict[str, dict[str, UserMetrics]] = {}
    for phase in frame.sort("intended_s")["phase"].unique(maintain_order=True).to_list():
        for arm in arms:
            rows = frame.filter((pl.col("arm") == arm) & (pl.col("phase") == phase))
            if rows.height:
                duration_s = _duration_s(rows, phase, arm, run_windows)
                phases.setdefault(phase, {})[arm] = user_metrics(rows, duration_s, ideal)
    return phases


def _duration_s(rows: pl.DataFrame, phase: str, arm: str, run_windows: Sequence[Window]) -> float:
    """Return the duration of the arrivals of an arm's phase, over all its blocks [s].

    From the recorded phases; else from the arrivals: the time from the first to the last, and one
    mean gap.
    """
    recorded = [
        window
        for window in of_kind(run_windows, "phase")
        if window.kind == phase and window.arm == arm
    ]
    if recorded:
        return sum(window.duration_s for window in recorded)
    blocks = [block["intended_s"].sort() for _, block in rows.group_by("repeat")]
    spans = [
        float(times_s[-1] - times_s[0]) * len(times_s) / max(1, len(times_s) - 1)
        for times_s in blocks
    ]
    return sum(spans)


def _measured_duration_s(phases: Mapping[str, Mapping[str, UserMetrics]], arm: str) -> float:
    return float(
        sum(
            figures[arm]["duration_s"]
            for phase, figures in phases.items()
            if phase != WARM_UP and arm in figures
        )
    )


def _improvement(
    main: pl.DataFrame, baseline: str, other: str | None, manifest: Mapping[str, Any]
) -> dict[str, Factor]:
    if other is None:
        return no_improvement(f"the run has one arm, {baseline}, and nothing to compare it with")
    pairs = pairs_of(main, baseline, other)
    level, _ = levels_of(manifest)
    return improvement(pairs, block_s=correlated_s(manifest), rng=seeded(manifest), level=level)


def _comparison(
    main: pl.DataFrame, arms: Sequence[str], baseline: str, manifest: Mapping[str, Any]
) -> dict[str, dict[str, Factor]]:
    """Compare each of more than two arms with the baseline, over their common blocks.

    An interval holds for one arm: of twenty arms about one interval misses its factor by chance.
    """
    other_arms = [arm for arm in arms if arm != baseline] if len(arms) > 2 else []
    return {arm: _improvement(main, baseline, arm, manifest) for arm in other_arms}


def _compare_plan(
    prediction: Prediction | None,
    main: pl.DataFrame,
    run_windows: Sequence[Window],
    manifest: Mapping[str, Any],
    hosts: pl.DataFrame | None,
) -> Compared | None:
    """Return the plan's prediction beside the measurement; None if the run tests no plan."""
    if prediction is None:
        return None
    spec = manifest.get("spec") or {}
    records = Records(
        requests=main,
        windows=run_windows,
        hosts=hosts,
        fleet=checked_fleet(spec),
        machines=list((manifest.get("fleet") or {}).get("machines") or []),
        rates=spec.get("rates") or {},
    )
    return compare(prediction, records, block_s=correlated_s(manifest), rng=seeded(manifest))


def checked_fleet(spec: Mapping[str, Any]) -> Fleet:
    return check(ConfigFile(Path("manifest.json"), spec.get("fleet") or {}), Fleet)
