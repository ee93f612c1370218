"""The history as points, for the dashboard of nights."""

from __future__ import annotations

import math
from collections.abc import Iterator

from experiments.nightly.history import History, Run
from experiments.nightly.levels import PERCENTILES
from experiments.record.telemetry import Point

Fields = dict[str, float | int | str | None]


def night_points(history: History) -> Iterator[Point]:
    """Yield a point `night` for each arm of each run, at the time of the run."""
    for run in history.runs:
        tags = {"entry": run.entry, "arm": run.arm or "none"}
        at = run.started or run.at
        yield Point("night", tags, _fields(run), int(at.timestamp() * 1e6) * 1000)


def _fields(run: Run) -> Fields:
    fields: Fields = {
        "night": run.night,
        "run": run.run or "",
        "valid": int(run.valid),
        "judged": int(run.arm is not None and run.arm == run.judged),
        "slo_met": -1 if run.slo_met is None else int(run.slo_met),
        "requests": run.requests,
        "errors": run.errors,
        "core_speed": run.core_speed,
        "reference_per_s": run.reference_per_s,
        "usd_per_month": run.cost.get("usd_per_month"),
        "usd_per_million_good": run.cost.get("usd_per_million_good"),
        "planned_usd_per_month": run.plan.get("usd_per_month"),
    }
    for name in PERCENTILES:
        if (percentile := getattr(run, name)) is not None:
            fields |= {
                f"{name}_ms": percentile.ms,
                f"{name}_low_ms": percentile.low_ms,
                f"{name}_high_ms": percentile.high_ms,
            }
    fields |= {f"slo_{key}": float(limit) for key, limit in run.slo.items()}
    fields |= {f"burn_{key.removesuffix('_ms')}": float(rate) for key, rate in run.burn.items()}
    fields |= dict(run.levels)
    for name, gain in run.gains.items():
        fields[f"gain_{name}"] = math.exp(gain.log)
    return fields
