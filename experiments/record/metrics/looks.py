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
    """Comparisons and, where it was set before, the SLO's verdict by arm; and whether it decides:
    by "figure", by "slo", or not."""

    comparisons: dict[str, Comparison]
    slo: dict[str, str]
    decided_by: str | None


def levels(shares: Sequence[float], *, ends: bool) -> tuple[float, float]:
    """Return the levels of the newest look, of factors and of the SLO.

    Parameters: shares of all repeats that each look so far had; ends, whether it is the last.
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

    Parameters: requests as `prepared` gives them, without the warm-up, of the blocks so far; arms,
    the baseline first; manifest, of which spec and seed are read.
    """
    spec = manifest["spec"]
    metric = spec["design"]["decide"]
    comparisons = {
        arm: compared(pairs_of(requests, arms[0], arm), metric, manifest, level) for arm in arms[1:]
    }
    found: Look = {"comparisons": comparisons, "slo": {}, "decided_by": None}
    asked = spec.get("slo") or {}
    if asked.get("preregistered"):
        judged = slo_verdict(
            requests, arms, asked, block_s=correlated_s(manifest), level=slo_level
        )["arms"]
        found["slo"] = {arm: WORDS[one["met"]] for arm, one in judged.items()}
    if comparisons and all(one["decided"] != OPEN for one in comparisons.values()):
        found["decided_by"] = "figure"
    elif found["slo"] and OPEN not in found["slo"].values():
        found["decided_by"] = "slo"
    return found


def compared(
    pairs: Sequence[Block], metric: str, manifest: Mapping[str, Any], level: float
) -> Comparison:
    """Return an arm against the baseline."""
    entry: Comparison = {"factor": None, "ci_low": None, "ci_high": None, "decided": OPEN}
    sizes = [sum(s.arms[arm].latency_ms.size for pair in pairs for s in pair) for arm in (0, 1)]
    if not min(sizes):
        return entry
    statistic, quantile = STATISTICS[metric]
    found = intervals(
        pairs, {metric: ratio_of(statistic)},
        block_s=correlated_s(manifest), rng=seeded(manifest), level=level,
    )[metric]  # fmt: skip
    if found is None:
        return entry
    factor, low, high = found
    entry = {"factor": factor, "ci_low": low, "ci_high": high, "decided": OPEN}
    if quantile is None or samples_beyond(quantile, min(sizes)) >= SAMPLES_BEYOND_MIN:
        entry["decided"] = decision(low, high, MARGIN) or OPEN
    return entry


def levels_of(manifest: Mapping[str, Any]) -> tuple[float, float]:
    """Return the levels at which a run's intervals are to be made: those of its last look; where it
    was not looked at while it went on, of one look.
    """
    looks = (manifest.get("decided") or {}).get("looks") or ()
    return (looks[-1]["level"], looks[-1]["slo_level"]) if looks else (ERROR, SLO_ERROR)


def look_words(decided: Mapping[str, Any], index: int) -> tuple[str, str]:
    """Return the name of a look, "look 2 of 4", and its answers.

    Parameters: decided, as the manifest has it; index of the look, from 0.
    """
    looks = decided["looks"]
    one = looks[index]
    seen = [f"{arm} {entry['decided']}{_gain(entry)}" for arm, entry in one["comparisons"].items()]
    kept = [f"{arm} {word}" for arm, word in one["slo"].items()]
    text = [f"{decided['figure']}: {', '.join(seen)}"] if seen else []
    text += [f"SLO: {', '.join(kept)}"] if kept else []
    return f"look {index + 1} of {looks_most(decided)}", "; ".join(text)


def looks_most(decided: Mapping[str, Any]) -> int:
    """Number of looks planned, or made, where the end of the time added one."""
    return max(len(decided["planned"]), len(decided["looks"]))


def _gain(entry: Mapping[str, Any]) -> str:
    if entry["factor"] is None:
        return ""
    return f", factor {entry['factor']:.3g} ({entry['ci_low']:.3g} to {entry['ci_high']:.3g})"
