"""Fig. 7 with what our own injections found, beside the paper's probabilities.

The counts are those of a results page (`data/bitflips.json` names it). Where nothing was corrupt,
the probability is not zero: its upper bound at 95 % stands beside it (Clopper, Pearson 1934).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.integrity import NODE_TYPES, FaultOutcomes, integrity
from optimizer.reproduce.published import published

FAULTS_PER_MONTH = (1, 3, 10, 27, 30, 100, 300, 660)  # Fig. 7: 1 to 27 a month, 1 to 22 a day


@dataclass(frozen=True)
class Node:
    """A node type of the paper and ours in its place; `most` has corruption at its upper bound."""

    name: str
    paper_name: str
    paper: FaultOutcomes
    ours: FaultOutcomes
    most: FaultOutcomes


@dataclass(frozen=True)
class Row:
    """Shares of a month [%] at one rate of faults, in the cloud, from Correct."""

    name: str
    paper_name: str
    faults_per_month: int
    corrupt_paper: float
    corrupt: float
    corrupt_most: float
    down_paper: float
    down: float


def nodes() -> list[Node]:
    """Return the variants that were injected into."""
    from scipy.special import betaincinv

    body = published("bitflips")
    found = []
    for name, one in body["counts"].items():
        of, corrupt = one["injections"], one["corrupt"]
        crash, retry = one["crash"] / of, one["retry"] / of
        most = float(betaincinv(corrupt + 1, of - corrupt, body["confidence"]))
        most = min(most, 1.0 - crash - retry)
        ours, high = (FaultOutcomes(p, crash, retry) for p in (corrupt / of, most))
        found.append(Node(name, one["paper"], NODE_TYPES[one["paper"]], ours, high))
    return found


def rows() -> Iterator[Row]:
    """Fig. 7 both ways, every node at every rate."""
    for node in nodes():
        for faults in FAULTS_PER_MONTH:
            paper, ours, most = (
                integrity(outcomes, float(faults))
                for outcomes in (node.paper, node.ours, node.most)
            )
            shares = (paper.corrupt, ours.corrupt, most.corrupt, paper.down, ours.down)
            yield Row(node.name, node.paper_name, faults, *(100 * share for share in shares))
