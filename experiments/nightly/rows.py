"""A run's folder as lines of the history, one per arm, read from the files that the run left."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from core.errors import InputError, SparecraftError
from core.runfiles.manifest import manifest_if_any
from core.runfiles.requests import measured
from core.runfiles.result import VERDICTS, Result, read_result
from core.statistics.percentiles import time_out_of
from core.units import HOURS_PER_MONTH
from experiments import kinds
from experiments.nightly.history import Gain, Percentile, Run, Start
from experiments.nightly.levels import PERCENTILES
from experiments.record.cost import measured_usd_per_month
from experiments.record.metrics.bootstrap import (
    correlated_s,
    intervals,
    seeded,
    stratum,
)
from experiments.record.metrics.frames import ALLOWED, prepared
from experiments.record.metrics.latency import QUANTILES
from experiments.record.metrics.predicted import single
from experiments.record.result import validity

_DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OSError)
_SET: dict[Any, str] = {True: "before", False: "after"}  # the first run, of an SLO


@dataclass(frozen=True)
class NightRun:
    """The circumstances of a run."""

    start: Start
    exit_code: int | None  # None: nobody was there to see it
    minutes: float | None
    trouble: str = ""  # a problem beyond those in its files


def lines_of(night_run: NightRun, folder: Path | None, results: Path, now: datetime) -> list[Run]:
    """Return a line per arm of a run; one line without an arm if there is no arm or no run."""
    head: dict[str, Any] = {
        **night_run.start.model_dump(exclude={"schema_", "what", "at"}),
        "at": now,
        "minutes": night_run.minutes,
        "exit_code": night_run.exit_code,
    }
    try:
        result = read_result(folder) if folder else None
        if result is not None and folder is not None:
            return _lines(night_run, head, result, folder, results)
    except SparecraftError as error:
        night_run = replace(night_run, trouble=f"{night_run.trouble} {error}".strip())
    except (*_DAMAGED, pl.exceptions.PolarsError) as error:
        damage = f"{folder} is damaged: {type(error).__name__}: {error}"
        night_run = replace(night_run, trouble=f"{night_run.trouble} {damage}".strip())
    reason = (
        night_run.trouble or f"`sparecraft run` ended with {night_run.exit_code} and left no result"
    )
    return [Run(**head, valid=False, reasons=(reason,))]


def _lines(
    night_run: NightRun, head: dict[str, Any], result: Result, folder: Path, results: Path
) -> list[Run]:
    manifest = manifest_if_any(folder)
    body = result[result["kind"]]
    head = head | _head_of(night_run, folder.relative_to(results), result, manifest)
    arms = body.get("arms")
    if not isinstance(arms, Mapping) or not arms:
        met = (result["slo"] or {}).get("met")  # of the run, whose one line has no arm
        return [Run(**{**head, "judged": None, "slo_met": met})]
    frame = _requests(folder, manifest)
    return [
        Run(**{**head, **_arm_fields(str(arm), figures, result, body, manifest, frame),
               "cost": head["cost"] | _per_million(head["cost"], figures)})
        for arm, figures in arms.items()
    ]  # fmt: skip


def _head_of(
    night_run: NightRun, folder: Path, result: Result, manifest: Mapping[str, Any]
) -> dict[str, object]:
    """Return the facts that a run's arms share."""
    reasons = [night_run.trouble] if night_run.trouble else []
    for name in VERDICTS:
        verdict = result["verdicts"].get(name) or {}
        reasons += [f"{name}: {reason}" for reason in verdict.get("reasons") or ()]
    versions = manifest.get("versions") or {}
    body = result[result["kind"]]
    plan, faults, compared = (_table(body, key) for key in ("plan", "faults", "compared"))
    slo = result["slo"] or {}
    return {
        "run": result["run"],
        "folder": str(folder),
        "kind": result["kind"],
        "platform": result["platform"],
        "started": _parse_time(result["started"]),
        "version": versions.get("sparecraft"),
        "commit": result["commit"],
        "host": result["host"],
        "valid": bool(result["valid"]) and not night_run.trouble,
        "reasons": tuple(reasons),
        "disturbed": validity(result) == "disturbed" and not night_run.trouble,
        "stopped": (result["stopped"] or {}).get("by", ""),
        "found": result["found"],
        "cost": {
            **result["cost"],
            "usd_per_month": measured_usd_per_month(manifest.get("spec") or {}, manifest, plan),
        },
        "plan": {
            key: plan.get(key)
            for key in ("feasible", "usd_per_month", "scheme", "region", "prices_as_of")
        }
        | {"p95_ms": (plan.get("predicted") or {}).get("p95_ms")},
        "faults": {
            "injected": faults.get("injected"),
            "reverted": faults.get("reverted"),
            "clean": faults.get("fingerprint_clean"),
        },
        "baseline": compared.get("baseline"),
        "judged": slo.get("arm"),
        "slo": {
            key: float(limit)
            for key, limit in (slo.get("asked") or {}).items()
            if _is_number(limit)
        },
        "slo_set": _SET.get((slo.get("asked") or {}).get("preregistered")),
        "levels": _levels(result),
    }


def _levels(result: Result) -> dict[str, float]:
    try:
        kind = kinds.find(result["kind"])
    except InputError:  # of somebody's own, which is not here
        return {}
    return dict(kind.levels(result))


def _per_million(cost: Mapping[str, float | None], figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the cost of a million good requests, at the measured rate and fleet."""
    per_month, good_per_s = cost["usd_per_month"], figures.get("goodput_per_s")
    if per_month is None or not good_per_s:
        return {}
    return {"usd_per_million_good": 1e6 * per_month / (HOURS_PER_MONTH * 3600 * good_per_s)}


def _table(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a table of a kind's own part; empty if this kind has another value by that name."""
    table = body.get(key)
    return table if isinstance(table, Mapping) else {}


def _arm_fields(
    arm: str,
    figures: Mapping[str, Any],
    result: Result,
    body: Mapping[str, Any],
    manifest: Mapping[str, Any],
    frame: pl.DataFrame | None,
) -> dict[str, object]:
    slo = result["slo"] or {}
    arm_requests = None if frame is None else frame.filter(pl.col("arm") == arm)
    blocks = [block for block in body.get("host_blocks") or () if block.get("arm") == arm]
    return {
        "arm": arm,
        "requests": int(figures.get("requests") or 0),
        "errors": int(figures.get("errors") or 0),
        "core_speed": _average_over(blocks, "core_speed", statistics.median),
        "stolen_share": _average_over(blocks, "stolen_share", statistics.fmean),
        "others_share": _average_over(blocks, "others_share", statistics.fmean),
        **_percentiles(figures, arm_requests, manifest),
        "slo_met": ((slo.get("arms") or {}).get(arm) or {}).get("met"),
        "burn": _burn(arm_requests, figures, slo.get("asked") or {}),
        "gains": _gains(arm, body),
    }


def _requests(folder: Path, manifest: Mapping[str, Any]) -> pl.DataFrame | None:
    """Return the requests that count; None if the table is not there any more."""
    path = folder / "requests.parquet"
    if not path.is_file():
        return None
    return measured(prepared(pl.read_parquet(path), time_out_of(manifest)))


def _percentiles(
    figures: Mapping[str, Any], arm_requests: pl.DataFrame | None, manifest: Mapping[str, Any]
) -> dict[str, Percentile | None]:
    """Return percentiles; their intervals hold for correlated requests and differing blocks."""
    estimates: Mapping[str, tuple[float, float, float] | None] = {}
    if arm_requests is not None and arm_requests.height:
        blocks = [
            [stratum([rows]) for _, rows in block.group_by("phase", maintain_order=True)]
            for _, block in arm_requests.sort("repeat").group_by("repeat", maintain_order=True)
        ]
        values = {name: single(QUANTILES[name]) for name in PERCENTILES}
        estimates = intervals(blocks, values, block_s=correlated_s(manifest), rng=seeded(manifest))
    insufficient = figures.get("insufficient") or ()
    result: dict[str, Percentile | None] = {}
    for name in PERCENTILES:
        value, low, high = estimates.get(name) or (figures.get(f"{name}_ms"), None, None)
        result[name] = None if value is None else Percentile(
            ms=value, low_ms=low, high_ms=high, samples=int(figures.get("samples") or 0),
            sufficient=name not in insufficient,
        )  # fmt: skip
    return result


def _burn(
    arm_requests: pl.DataFrame | None, figures: Mapping[str, Any], limits: Mapping[str, Any]
) -> dict[str, float]:
    """Return the burn rate of each limit's error budget: 1 is just what the SLO allows."""
    burn = {}
    for key, allowed in ALLOWED.items():
        if limits.get(key) is not None and arm_requests is not None and arm_requests.height:
            is_bad = (pl.col("outcome") != "ok") | (pl.col("latency_ms") > float(limits[key]))
            burn[key] = arm_requests.filter(is_bad).height / arm_requests.height / allowed
    if limits.get("max_error_share") and figures.get("error_share") is not None:
        burn["max_error_share"] = float(figures["error_share"]) / float(limits["max_error_share"])
    return burn


def _gains(arm: str, body: Mapping[str, Any]) -> dict[str, Gain]:
    """Return the arm's factors over the baseline as logarithms; none of the baseline itself."""
    compared = body.get("compared") or {}
    entries = (body.get("comparison") or {}).get(arm)
    if entries is None and arm == compared.get("other"):
        entries = body.get("improvement")
    gains = {}
    for name, entry in (entries or {}).items():
        if entry.get("factor"):
            gains[name] = Gain(
                log=math.log(entry["factor"]),
                low=_log(entry.get("ci_low")),
                high=_log(entry.get("ci_high")),
                sufficient=not entry.get("insufficient"),
            )
    return gains


def front_of(folder: Path) -> list[dict[str, float]]:
    """Return cost against predicted p95, cheapest first, of the plan's fronts for percentiles.

    Empty if the plan has none, or its file is damaged.
    """
    try:
        fronts = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["pareto"]
        points = sorted(
            (float(point["usd_per_month"]), float(point["predicted"]["p95_ms"]))
            for front in fronts
            if front["limit"].endswith("_ms")
            for point in front["points"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return []
    front: list[dict[str, float]] = []
    for usd, p95_ms in points:
        if not front or p95_ms < front[-1]["p95_ms"]:
            front.append({"usd_per_month": usd, "p95_ms": p95_ms})
    return front


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _log(value: Any) -> float | None:
    return math.log(value) if value else None


def _average_over(
    blocks: Sequence[Mapping[str, Any]], name: str, average: Callable[[list[float]], float]
) -> float | None:
    values = [float(block[name]) for block in blocks if block.get(name) is not None]
    return average(values) if values else None


def _parse_time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
