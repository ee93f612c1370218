"""The promise of a plan, compared with a run of its fleet: kept, broken or undecided.

A plan promises that its fleet keeps the SLO, at a cost. A clause is one limit of the SLO that a run
can measure. It is judged by the rule of the SLO's verdict: by the interval of the share of requests
beyond the limit, faults included. The promise is kept if all clauses are, broken if one is, and
otherwise undecided: then more blocks are needed. `predicted.py` compares each predicted figure; a
plan may keep its promise with a poor prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from core.runfiles.result import Clause, FiguresJudged, Promise
from experiments.design.prediction import PLANNED_ARM, Prediction
from experiments.record.metrics.predicted import Compared, PercentileEntry
from experiments.record.metrics.slo import Share, SloVerdict

Answer = Literal["kept", "broken", "undecided"]
KEPT: Answer = "kept"
BROKEN: Answer = "broken"
UNDECIDED: Answer = "undecided"
_WORDS: Mapping[bool | None, Answer] = {True: KEPT, False: BROKEN, None: UNDECIDED}


def promise_of(prediction: Prediction, compared: Compared, slo: SloVerdict) -> Promise:
    """Return the promise of the plan, with a clause for each limit of the SLO.

    `claimed` is False if the plan was undecided, or refused this fleet (`refused`).
    """
    arm = slo["arms"].get(PLANNED_ARM)
    clauses = {
        key: _clause(key, met, arm_slo["shares"][key], prediction, compared, slo)
        for arm_slo in ([arm] if arm else ())
        for key, met in arm_slo["limits"].items()
    }
    answers = {clause["verdict"] for clause in clauses.values()}
    verdict: Answer = BROKEN if BROKEN in answers else KEPT if answers == {KEPT} else UNDECIDED
    reasons = list(arm["reasons"]) if arm else []
    if not clauses:
        reasons = reasons or ["the design asks for no limit that a run can measure"]
    if differences := compared["cost_usd_per_month"]["errors"]:
        verdict, reasons = UNDECIDED, [f"another fleet ran: {'; '.join(differences)}", *reasons]
    before = prediction.present.usd_per_month if prediction.present else None
    return {
        "verdict": verdict,
        "claimed": prediction.claimed,
        "refused": prediction.refused,
        "reasons": reasons,
        "source_run": prediction.source_run,
        "usd_per_month": {"before": before, "after": compared["cost_usd_per_month"]["measured"]},
        "clauses": clauses,
        "figures": _figures(compared, clauses),
    }


def _clause(
    key: str,
    met: bool | None,
    share: Share,
    prediction: Prediction,
    compared: Compared,
    slo: SloVerdict,
) -> Clause:
    faults = any(map(_has_faults, compared["latency"].values()))
    limit = slo["asked"][key]
    expected = prediction.expected_in_all(faults).clause(key, limit)
    return {
        "verdict": _WORDS[met],
        "limit": limit,
        **share,
        "predicted": expected.point if expected else None,
        "predicted_low": expected.low if expected else None,
        "predicted_high": expected.high if expected else None,
        "covered": None if expected is None else expected.covers(share["share"]),
    }


def _figures(compared: Compared, clauses: Mapping[str, Clause]) -> FiguresJudged:
    """Return the figures that can be judged: those with an interval, and enough requests."""
    latency = list(compared["latency"].values())
    answers = [
        *(entry["covered"] for entry in latency),
        *(entry["in_all"]["covered"] for entry in latency if _has_faults(entry)),
        *(entry["covered"] for entry in compared["utilisation"].values()),
        *(entry["covered"] for entry in clauses.values()),
    ]
    known = [entry for entry in answers if entry is not None]
    return {"judged": len(known), "covered": sum(known)}


def _has_faults(entry: PercentileEntry) -> bool:
    """Return True if the run had faults, so that the figure of all requests differs."""
    return entry["samples_with_faults"] > entry["samples"]
