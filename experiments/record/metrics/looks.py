"""Looks at a run that continues until its figure is decided.

A look decides if every arm is distinguished from the baseline by the metric that was named in
advance (`core.statistics.sequential`: its interval excludes 1, or lies within 15 %), or if the SLO
was set in advance and each arm is known to meet or to miss it. The error of a comparison, 5 %, is
divided over its looks; so is that of the SLO's answers. Each comparison has its own error, so of
several comparisons one errs more often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import polars as pl

from core.statistics.sequential import decision, look_levels
from experiments.record.metrics.bootstrap import CONFIDENCE, Block, correlated_s, intervals, seeded
from experiments.record.metrics.improvement import STATISTICS, pairs_of, ratio_of
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, samples_beyond
from experiments.record.metrics.slo import CONFIDENCE as SLO_CONFIDENCE
from experiments.record.metrics.slo import slo_verdict
from experiments.record.result import WORDS

MARGIN = 0.15
ERROR = 1.0 - CONFIDENCE
SLO_ERROR = 1.0 - SLO_CONFIDENCE
OPEN = "undecided"


class Comparison(TypedDict):
    """An arm against the baseline; `decided` faster, slower, equivalent or undecided."""

    factor: float | None
    ci_low: float | None
    ci_high: float | None
    decided: str


class Look(TypedDict):
    """Comparisons, and by arm the verdict of an SLO that was set before.

    decided_by: "figure", "slo" or None.
    """

    comparisons: dict[str, Comparison]
    slo: dict[str, str]
    decided_by: str | None


def levels(shares: Sequence[float], *, ends: bool) -> tuple[float, float]:
    """Return the levels of the newest look, of factors and of the SLO.

    Parameters: shares of all repeats in each look so far; ends, True if the newest is the last.
    """
    metric, slo = (look_levels(shares, error, ends=ends)[-1] for error in (ERROR, SLO_ERROR))
    return metric, slo


def look(
    requests: pl.DataFrame,
    arms: Sequence[str],
    manifest: Mapping[str, Any],
    level: float,
    slo_level: float,
) -> Look:
    """Return a look's part of the manifest.

    Parameters: requests from `prepared`, without the warm-up, of the blocks so far; arms, the
    baseline first; manifest with spec and seed.
    """
    spec = manifest["spec"]
    metric = spec["design"]["decide"]
    comparisons = {
        arm: compared(pairs_of(requests, arms[0], arm), metric, manifest, level) for arm in arms[1:]
    }
    outcome: Look = {"comparisons": comparisons, "slo": {}, "decided_by": None}
    slo = spec.get("slo") or {}
    if slo.get("preregistered"):
        arm_verdicts = slo_verdict(
            requests, arms, slo, block_s=correlated_s(manifest), level=slo_level
        )["arms"]
        outcome["slo"] = {arm: WORDS[verdict["met"]] for arm, verdict in arm_verdicts.items()}
    if comparisons and all(comparison["decided"] != OPEN for comparison in comparisons.values()):
        outcome["decided_by"] = "figure"
    elif outcome["slo"] and OPEN not in outcome["slo"].values():
        outcome["decided_by"] = "slo"
    return outcome


def compared(
    pairs: Sequence[Block], metric: str, manifest: Mapping[str, Any], level: float
) -> Comparison:
    entry: Comparison = {"factor": None, "ci_low": None, "ci_high": None, "decided": OPEN}
    sizes = [
        sum(stratum.arms[arm].latency_ms.size for pair in pairs for stratum in pair)
        for arm in (0, 1)
    ]
    if not min(sizes):
        return entry
    statistic, quantile = STATISTICS[metric]
    estimate = intervals(
        pairs, {metric: ratio_of(statistic)},
        block_s=correlated_s(manifest), rng=seeded(manifest), level=level,
    )[metric]  # fmt: skip
    if estimate is None:
        return entry
    factor, low, high = estimate
    entry = {"factor": factor, "ci_low": low, "ci_high": high, "decided": OPEN}
    if quantile is None or samples_beyond(quantile, min(sizes)) >= SAMPLES_BEYOND_MIN:
        entry["decided"] = decision(low, high, MARGIN) or OPEN
    return entry


def levels_of(manifest: Mapping[str, Any]) -> tuple[float, float]:
    """Return the levels of a run's intervals: those of its last look, or without looks of one."""
    looks = (manifest.get("decided") or {}).get("looks") or ()
    return (looks[-1]["level"], looks[-1]["slo_level"]) if looks else (ERROR, SLO_ERROR)


def look_words(decided: Mapping[str, Any], index: int) -> tuple[str, str]:
    """Return the name of a look, "look 2 of 4", and its answers.

    Parameters: decided, from the manifest; index of the look, from 0.
    """
    looks = decided["looks"]
    this_look = looks[index]
    comparison_words = [
        f"{arm} {entry['decided']}{_gain(entry)}" for arm, entry in this_look["comparisons"].items()
    ]
    slo_words = [f"{arm} {word}" for arm, word in this_look["slo"].items()]
    text = [f"{decided['figure']}: {', '.join(comparison_words)}"] if comparison_words else []
    text += [f"SLO: {', '.join(slo_words)}"] if slo_words else []
    return f"look {index + 1} of {looks_most(decided)}", "; ".join(text)


def looks_most(decided: Mapping[str, Any]) -> int:
    """Return the number of planned looks; of looks made, if the end of the time added one."""
    return max(len(decided["planned"]), len(decided["looks"]))


def _gain(entry: Mapping[str, Any]) -> str:
    if entry["factor"] is None:
        return ""
    return f", factor {entry['factor']:.3g} ({entry['ci_low']:.3g} to {entry['ci_high']:.3g})"
