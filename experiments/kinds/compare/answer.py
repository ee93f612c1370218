"""What a run's first screen says under its verdict, on the page and on a terminal."""

from __future__ import annotations

from experiments.kinds.compare.cost import cost_sentence
from experiments.kinds.compare.earlier import among_earlier
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.verdict import gain, headline_arms


def said(run: RunFolder) -> list[str]:
    """What was gained, where this run lies among the earlier ones, and what the fleets cost."""
    if not run.arms:
        return []
    sentences = (gain(run), among_earlier(run, headline_arms(run)[1]), cost_sentence(run))
    return [sentence for sentence in sentences if sentence]
