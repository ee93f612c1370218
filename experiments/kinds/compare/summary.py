"""Sentences of a run's first screen under its verdict, on the page and on a terminal."""

from __future__ import annotations

from experiments.design.feasible import infeasible_words
from experiments.kinds.compare.cost import cost_sentence
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.predicted import coverage_words
from experiments.kinds.compare.previous_runs import compare_with_previous
from experiments.kinds.compare.steps import closing_lines
from experiments.kinds.compare.verdict import headline_arms


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
