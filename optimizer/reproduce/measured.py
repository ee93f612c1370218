"""Fig. 7 with the probabilities of our own injections, beside those of the paper.

The counts are those of a results page (`data/bitflips.json` names it). Where nothing was corrupt,
the probability is not zero: its upper bound at 95 % is given too (Clopper, Pearson 1934).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.integrity import NODE_TYPES, FaultOutcomes, integrity
from optimizer.reproduce.published import published

FAULTS_PER_MONTH = (1, 3, 10, 27, 30, 100, 300, 660)  # Fig. 7: 1 to 27 a month, 1 to 22 a day


@dataclass(frozen=True)
class Node:
    """A node type of the paper, and our variant of it; `most` has corruption at its upper bound."""

    name: str
    paper_name: str
    paper: FaultOutcomes
    ours: FaultOutcomes
    most: FaultOutcomes


@dataclass(frozen=True)
class Row:
    """Shares of a month [%] at one rate of faults, in the cloud, starting in state Correct."""

    name: str
    paper_name: str
    faults_per_month: int
    corrupt_paper: float
    corrupt: float
    corrupt_most: float
    down_paper: float
    down: float


def nodes() -> list[Node]:
    """Return the variants that had injections."""
    from scipy.special import betaincinv

    body = published("bitflips")
    types = []
    for name, counts in body["counts"].items():
        injections, corrupt = counts["injections"], counts["corrupt"]
        crash, retry = counts["crash"] / injections, counts["retry"] / injections
        most = float(betaincinv(corrupt + 1, injections - corrupt, body["confidence"]))
        most = min(most, 1.0 - crash - retry)
        ours, high = (FaultOutcomes(p, crash, retry) for p in (corrupt / injections, most))
        types.append(Node(name, counts["paper"], NODE_TYPES[counts["paper"]], ours, high))
    return types


def rows() -> Iterator[Row]:
    """Yield Fig. 7 with both probabilities, for every node at every rate."""
    for node in nodes():
        for faults in FAULTS_PER_MONTH:
            paper, ours, most = (
                integrity(outcomes, float(faults))
                for outcomes in (node.paper, node.ours, node.most)
            )
            shares = (paper.corrupt, ours.corrupt, most.corrupt, paper.down, ours.down)
            yield Row(node.name, node.paper_name, faults, *(100 * share for share in shares))
