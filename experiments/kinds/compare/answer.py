"""What a run's first screen says under its verdict, on the page and on a terminal."""

from __future__ import annotations

from experiments.design.feasible import infeasible_words
from experiments.kinds.compare.cost import cost_sentence
from experiments.kinds.compare.earlier import among_earlier
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.steps import then_said
from experiments.kinds.compare.verdict import headline_arms


def said(run: RunFolder) -> list[str]:
    """What was gained, where this run lies among the earlier ones, and what the fleets cost, and
    which arms break sPARE's limits; of a run from which nothing may be concluded the last two."""
    sentences = [cost_sentence(run)]
    if run.arms and run.summary.get("valid") is not False:
        sentences[:0] = [*then_said(run), among_earlier(run, headline_arms(run)[1])]
    sentences += map(infeasible_words, run.summary.get("infeasible") or ())
    return [sentence for sentence in sentences if sentence]
