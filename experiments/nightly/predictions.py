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
    """Return the line of the run in `folder`, which measured the plan of the started run.

    There is none if there is no such run, or it left no result.
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
    reasons = [
        reason for verdict in result["verdicts"].values() for reason in verdict.get("reasons") or ()
    ]
    utilisations = [
        tier.utilisation for tier in plan.tiers.values() if tier.utilisation is not None
    ]
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
        promise=promise["verdict"] if promise["claimed"] else "undecided",
        services=_services(read_manifest(folder)),
        policy=plan.policy,
        utilisation=max(utilisations, default=None),
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
    """Yield percentiles without faults, shares beyond the SLO's limits, and each tier's CPU.

    Only those that were predicted, and measured by enough requests.
    """
    for name, figure in compared["latency"].items():
        if not figure["insufficient"]:
            yield from _value(name, figure, "ci_low", "ci_high")
    for limit, figure in promise["clauses"].items():
        share = {**figure, "measured": figure["share"]}
        yield from _value(f"beyond/{limit}", share, "low", "high")
    for tier, figure in compared["utilisation"].items():
        yield from _value(f"cpu/{tier}", figure, "ci_low", "ci_high")


def _value(
    name: str, figure: Mapping[str, Any], low: str, high: str
) -> Iterator[tuple[str, PredictedValue]]:
    if figure["predicted"] is not None and figure["measured"] is not None:
        yield (
            name,
            PredictedValue(
                predicted=figure["predicted"],
                low=figure["predicted_low"],
                high=figure["predicted_high"],
                measured=figure["measured"],
                measured_low=figure[low],
                measured_high=figure[high],
                covered=figure["covered"],
            ),
        )
