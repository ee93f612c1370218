"""Sentences of a run's first screen under its verdict, on the page and on a terminal."""

from __future__ import annotations

from core.runfiles.manifest import manifest_if_any, spec_of
from core.runfiles.result import results_in
from experiments.design.feasible import infeasible_words
from experiments.kinds.compare.cost import cost_sentence
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.predicted import coverage_words
from experiments.kinds.compare.steps import closing_lines
from experiments.kinds.compare.verdict import headline_arms
from experiments.record.result import flat
from experiments.report.text import interval, number

# Of the spec of an earlier run of the same design; runs differ more than the blocks of one run.
_SAME = ("kind", "load", "interference", "faults", "arms", "failover", "fleet")


def summary_lines(run: RunFolder) -> list[str]:
    """Return the gain, the comparison with earlier runs, the cost of the fleets, and the arms that
    break sPARE's limits; a run that is not valid has the last two only."""
    sentences = [cost_sentence(run)]
    if run.arms and run.summary.get("valid") is not False:
        sentences[:0] = [*closing_lines(run), compare_with_previous(run, headline_arms(run)[1])]
        if run.summary.get("promise"):
            sentences.insert(0, coverage_words(run.summary))
    sentences += map(infeasible_words, run.summary.get("infeasible") or ())
    return [sentence for sentence in sentences if sentence]


def previous_factors(run: RunFolder, other_arm: str) -> list[float]:
    """Return the p95 factors of valid earlier runs of the same design in the same folder, in order
    of name.
    """
    started = str(run.manifest.get("started_at"))
    factors = []
    beside = run.path.resolve().parent
    for folder, result in results_in(beside, lambda error: run.notes.append(str(error)), ("*",)):
        spec = spec_of(manifest_if_any(folder))
        same = all(spec.get(key) == run.spec.get(key) for key in _SAME)
        if same and result["valid"] and str(result["started"]) < started:
            body = flat(result)
            comparison = body.get("comparison")
            entries = comparison.get(other_arm) if comparison else body.get("improvement")
            factors.append(((entries or {}).get("p95") or {}).get("factor"))
    return [factor for factor in factors if factor is not None]


def compare_with_previous(run: RunFolder, other_arm: str | None) -> str:
    """Return a sentence on the scope of this run's result, with the factors of earlier runs."""
    if other_arm is None:
        return ""
    factors = previous_factors(run, other_arm)
    if not factors:
        return "This holds within this run; no earlier valid run of this design lies beside it."
    if len(factors) == 1:
        return (
            f"This holds within this run; one earlier run had a p95 factor of {number(factors[0])}."
        )
    return (
        f"This holds within this run; {len(factors)} earlier runs had p95 factors from "
        f"{interval(min(factors), max(factors))}."
    )
