"""A run's folder as lines of the history, one per arm, all of it from files that the run left."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
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
from experiments.record.cost import measured_usd_per_month
from experiments.record.metrics.bootstrap import (
    correlated_s,
    intervals,
    quantile_value,
    seeded,
    stratum,
)
from experiments.record.metrics.frames import ALLOWED, prepared
from experiments.record.metrics.latency import QUANTILES
from experiments.record.result import validity

PERCENTILES = ("p50", "p95", "p99")
_DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OSError)
_SET: dict[Any, str] = {True: "before", False: "after"}  # the first run, of an SLO


@dataclass(frozen=True)
class NightRun:
    """The circumstances of a run."""

    start: Start
    exit_code: int | None  # None: nobody was there to see it
    minutes: float | None
    trouble: str = ""  # why it is not what it should be, beyond what its files say


def lines_of(made: NightRun, folder: Path | None, results: Path, now: datetime) -> list[Run]:
    """Return a line per arm of a run; one without an arm where there is none, or no run at all."""
    head: dict[str, Any] = {
        **made.start.model_dump(exclude={"schema_", "what", "at"}),
        "at": now,
        "minutes": made.minutes,
        "exit_code": made.exit_code,
    }
    try:
        result = read_result(folder) if folder else None
        if result is not None and folder is not None:
            return _lines(made, head, result, folder, results)
    except SparecraftError as error:
        made = replace(made, trouble=f"{made.trouble} {error}".strip())
    except (*_DAMAGED, pl.exceptions.PolarsError) as error:
        said = f"{folder} is damaged: {type(error).__name__}: {error}"
        made = replace(made, trouble=f"{made.trouble} {said}".strip())
    reason = made.trouble or f"`sparecraft run` ended with {made.exit_code} and left no result"
    return [Run(**head, valid=False, reasons=(reason,))]


def _lines(
    made: NightRun, head: dict[str, Any], result: Result, folder: Path, results: Path
) -> list[Run]:
    manifest = manifest_if_any(folder)
    body = result[result["kind"]]
    head = head | _head_of(made, folder.relative_to(results), result, manifest)
    arms = body.get("arms")
    if not isinstance(arms, Mapping) or not arms:
        met = (result["slo"] or {}).get("met")  # of the run, whose one line has no arm
        return [Run(**{**head, "judged": None, "slo_met": met})]
    frame = _requests(folder, manifest)
    return [
        Run(**{**head, **_of_arm(str(arm), figures, result, body, manifest, frame),
               "cost": head["cost"] | _per_million(head["cost"], figures)})
        for arm, figures in arms.items()
    ]  # fmt: skip


def _head_of(
    made: NightRun, folder: Path, result: Result, manifest: Mapping[str, Any]
) -> dict[str, object]:
    """Return the facts that a run's arms share."""
    reasons = [made.trouble] if made.trouble else []
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
        "started": _time(result["started"]),
        "version": versions.get("sparecraft"),
        "commit": result["commit"],
        "host": result["host"],
        "valid": bool(result["valid"]) and not made.trouble,
        "reasons": tuple(reasons),
        "disturbed": validity(result) == "disturbed" and not made.trouble,
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
        "slo": {key: float(one) for key, one in (slo.get("asked") or {}).items() if _number(one)},
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
    """Cost of a million requests that are answered ok, at the rate and the fleet measured."""
    per_month, good_per_s = cost["usd_per_month"], figures.get("goodput_per_s")
    if per_month is None or not good_per_s:
        return {}
    return {"usd_per_million_good": 1e6 * per_month / (HOURS_PER_MONTH * 3600 * good_per_s)}


def _table(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a table of a kind's own part; what another kind calls so may be something else."""
    found = body.get(key)
    return found if isinstance(found, Mapping) else {}


def _of_arm(
    arm: str,
    figures: Mapping[str, Any],
    result: Result,
    body: Mapping[str, Any],
    manifest: Mapping[str, Any],
    frame: pl.DataFrame | None,
) -> dict[str, object]:
    slo = result["slo"] or {}
    own = None if frame is None else frame.filter(pl.col("arm") == arm)
    blocks = [one for one in body.get("host_blocks") or () if one.get("arm") == arm]
    return {
        "arm": arm,
        "requests": int(figures.get("requests") or 0),
        "errors": int(figures.get("errors") or 0),
        "core_speed": _median([one.get("core_speed") for one in blocks]),
        "stolen_share": _mean([one.get("stolen_share") for one in blocks]),
        "others_share": _mean([one.get("others_share") for one in blocks]),
        **_percentiles(figures, own, manifest),
        "slo_met": ((slo.get("arms") or {}).get(arm) or {}).get("met"),
        "burn": _burn(own, figures, slo.get("asked") or {}),
        "gains": _gains(arm, body),
    }


def _requests(folder: Path, manifest: Mapping[str, Any]) -> pl.DataFrame | None:
    """Return the requests that count; None if the table is not there any more."""
    path = folder / "requests.parquet"
    if not path.is_file():
        return None
    return measured(prepared(pl.read_parquet(path), time_out_of(manifest)))


def _percentiles(
    figures: Mapping[str, Any], own: pl.DataFrame | None, manifest: Mapping[str, Any]
) -> dict[str, Percentile | None]:
    """Percentiles with intervals that hold for correlated requests and for blocks that differ."""
    found: Mapping[str, tuple[float, float, float] | None] = {}
    if own is not None and own.height:
        blocks = [
            [stratum([rows]) for _, rows in block.group_by("phase", maintain_order=True)]
            for _, block in own.sort("repeat").group_by("repeat", maintain_order=True)
        ]
        values = {name: _single(QUANTILES[name]) for name in PERCENTILES}
        found = intervals(blocks, values, block_s=correlated_s(manifest), rng=seeded(manifest))
    few = figures.get("insufficient") or ()
    result: dict[str, Percentile | None] = {}
    for name in PERCENTILES:
        value, low, high = found.get(name) or (figures.get(f"{name}_ms"), None, None)
        result[name] = None if value is None else Percentile(
            ms=value, low_ms=low, high_ms=high, samples=int(figures.get("samples") or 0),
            sufficient=name not in few,
        )  # fmt: skip
    return result


def _single(quantile: float) -> Any:
    value = quantile_value(quantile)
    return lambda arms: value(arms[0]) or None  # a latency of zero has no logarithm


def _burn(
    own: pl.DataFrame | None, figures: Mapping[str, Any], asked: Mapping[str, Any]
) -> dict[str, float]:
    """Return the burn rate of each limit's error budget: 1 is just what the SLO allows."""
    burn = {}
    for key, allowed in ALLOWED.items():
        if asked.get(key) is not None and own is not None and own.height:
            bad = (pl.col("outcome") != "ok") | (pl.col("latency_ms") > float(asked[key]))
            burn[key] = own.filter(bad).height / own.height / allowed
    if asked.get("max_error_share") and figures.get("error_share") is not None:
        burn["max_error_share"] = float(figures["error_share"]) / float(asked["max_error_share"])
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
    """Cost against predicted p95, cheapest first, of the plan's fronts that are of a percentile;
    none where the plan has none, or is torn."""
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


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _log(value: Any) -> float | None:
    return math.log(value) if value else None


def _median(values: Sequence[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return statistics.median(known) if known else None


def _mean(values: Sequence[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _time(value: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
