"""A run of a planned fleet as a line of the history: each figure predicted and measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.runfiles.manifest import read_manifest
from core.runfiles.result import Result, read_result
from experiments.design.prediction import Prediction as Plan
from experiments.design.prediction import read_prediction
from experiments.nightly.history import PredictedValue, Prediction, Start

_DAMAGED = (KeyError, TypeError, ValueError, AttributeError)


def predictions_of(
    start: Start, folder: Path | None, results: Path, now: datetime
) -> Sequence[Prediction]:
    """Return the line of the run in `folder`, which measured a plan of the run that was started;
    none where there is no such run, or it left no result.
    """
    if folder is None:
        return ()
    try:
        result = read_result(folder)
        plan = read_prediction(folder / "predicted.json")
        return (_line(start, folder, results, now, result, plan),)
    except (InputError, *_DAMAGED):  # it was ended before it measured anything
        return ()


def _line(
    start: Start, folder: Path, results: Path, now: datetime, result: Result, plan: Plan
) -> Prediction:
    promise, compared = result["promise"], result[result["kind"]]["predicted"]
    reasons = [why for one in result["verdicts"].values() for why in one.get("reasons") or ()]
    used = [tier.utilisation for tier in plan.tiers.values() if tier.utilisation is not None]
    cost = promise["usd_per_month"]
    return Prediction(
        night=start.night,
        at=now,
        number=start.number,
        entry=start.entry,
        run=str(result["run"]),
        folder=str(folder.relative_to(results)),
        source_run=promise["source_run"],
        started=datetime.fromisoformat(result["started"]) if result["started"] else None,
        commit=result["commit"],
        valid=bool(result["valid"]),
        reasons=tuple(map(str, reasons)),
        promise=promise["verdict"] if promise.get("claimed", True) else "undecided",
        services=_services(read_manifest(folder)),
        policy=plan.policy,
        utilisation=max(used, default=None),
        confidence=compared["predicted_confidence"],
        usd_before=cost["before"],
        usd_after=cost["after"],
        figures=dict(_values(promise, compared)),
    )


def _services(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the roles of the tiers, as the fleet names them."""
    tiers = ((manifest.get("spec") or {}).get("fleet") or {}).get("tiers") or {}
    return tuple(str(tier["role"]) for tier in tiers.values())


def _values(
    promise: Mapping[str, Any], compared: Mapping[str, Any]
) -> Iterator[tuple[str, PredictedValue]]:
    """Percentiles without faults, shares beyond the SLO's limits, and each tier's CPU; those that
    were predicted, and measured by enough requests."""
    for name, one in compared["latency"].items():
        if not one["insufficient"]:
            yield from _value(name, one, "ci_low", "ci_high")
    for limit, one in promise["clauses"].items():
        share = {**one, "measured": one["share"]}
        yield from _value(f"beyond/{limit}", share, "low", "high")
    for tier, one in compared["utilisation"].items():
        yield from _value(f"cpu/{tier}", one, "ci_low", "ci_high")


def _value(
    name: str, one: Mapping[str, Any], low: str, high: str
) -> Iterator[tuple[str, PredictedValue]]:
    if one["predicted"] is not None and one["measured"] is not None:
        yield (
            name,
            PredictedValue(
                predicted=one["predicted"],
                low=one["predicted_low"],
                high=one["predicted_high"],
                measured=one["measured"],
                measured_low=one[low],
                measured_high=one[high],
                covered=one["covered"],
            ),
        )
