"""The promise of a plan, held against a run of its fleet: kept, broken or undecided.

A plan promises that its fleet keeps the SLO, at a cost. A clause is one limit of the SLO that a run
can measure; it is answered as the SLO's own verdict answers it, by the interval of the share of
requests beyond the limit, faults included. The promise is kept where all clauses are, broken where
one is, and undecided otherwise: then more blocks are needed. How near each predicted figure came is
another question, which `predicted.py` answers; a plan may keep its promise with a poor prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.design.prediction import PLANNED_ARM, Prediction

KEPT, BROKEN, UNDECIDED = "kept", "broken", "undecided"
_WORDS = {True: KEPT, False: BROKEN, None: UNDECIDED}


def promise_of(
    prediction: Prediction, compared: Mapping[str, Any], slo: Mapping[str, Any]
) -> dict[str, Any]:
    """`promise` of result.json.

    Parameters: compared, the figures as `predicted.compare` returns them; slo, the verdict of all
    arms as `slo_verdict` returns it.
    Returns verdict, claimed (False where the plan was undecided), reasons, source_run,
    usd_per_month (before: of the fleet that the plan was made from; after: of the planned one),
    clauses by the SLO's key: verdict, limit, allowed, share, low, high, requests, predicted,
    predicted_low, predicted_high, covered; and figures: of how many the plan gave an interval, and
    how many of these lie in it.
    """
    arm = (slo.get("arms") or {}).get(PLANNED_ARM) or {}
    clauses = {
        key: _clause(key, met, arm["shares"][key], prediction, compared, slo)
        for key, met in (arm.get("limits") or {}).items()
    }
    answers = {one["verdict"] for one in clauses.values()}
    verdict = BROKEN if BROKEN in answers else KEPT if answers == {KEPT} else UNDECIDED
    reasons = list(arm.get("reasons") or ())
    if not clauses:
        reasons = reasons or ["the design asks for no limit that a run can measure"]
    if others := compared["cost_usd_per_month"]["errors"]:
        verdict, reasons = UNDECIDED, [f"another fleet ran: {'; '.join(others)}", *reasons]
    before = prediction.present.usd_per_month if prediction.present else None
    return {
        "verdict": verdict,
        "claimed": prediction.claimed,
        "reasons": reasons,
        "source_run": prediction.source_run,
        "usd_per_month": {"before": before, "after": compared["cost_usd_per_month"]["measured"]},
        "clauses": clauses,
        "figures": _figures(compared, clauses),
    }


def _clause(
    key: str,
    met: bool | None,
    share: Mapping[str, Any],
    prediction: Prediction,
    compared: Mapping[str, Any],
    slo: Mapping[str, Any],
) -> dict[str, Any]:
    faults = any(map(_has_faults, compared["latency"].values()))
    limit = slo["asked"][key]
    expected = prediction.expected_in_all(faults).clause(key, limit)
    return {
        "verdict": _WORDS[met],
        "limit": limit,
        **share,
        "predicted": expected and expected.point,
        "predicted_low": expected and expected.low,
        "predicted_high": expected and expected.high,
        "covered": None if expected is None else expected.covers(share["share"]),
    }


def _figures(
    compared: Mapping[str, Any], clauses: Mapping[str, Mapping[str, Any]]
) -> dict[str, int]:
    """The figures that can be judged: those with an interval, and enough requests."""
    latency = list(compared["latency"].values())
    entries = [*latency, *(one["in_all"] for one in latency if _has_faults(one))]
    entries += [*compared["utilisation"].values(), *clauses.values()]
    said = [one["covered"] for one in entries if one["covered"] is not None]
    return {"judged": len(said), "covered": sum(said)}


def _has_faults(entry: Mapping[str, Any]) -> bool:
    """With faults in the run the figure of all requests is another; else it is the same."""
    return bool(entry["samples_with_faults"] > entry["samples"])
