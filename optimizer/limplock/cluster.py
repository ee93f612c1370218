r"""Table 2 of the limplock paper: probabilities that a limping node locks up reads, writes and
regeneration.

A store of n nodes keeps each block on R of them. m nodes have a slow network card (the paper: one),
a node has crashed, and the b blocks that it held are copied again from the remaining holders.

    k = b / (n - 1)                   blocks to send by each of the n - 1 living nodes
    q = m / (n - 2)                   a block that a healthy node sends goes to a limping one
    P_rl = 1 - (1 - m/n)^r            one of r reads goes to a limping node
    P_wl = 1 - (C(n-m,R)/C(n,R))^r    one of r pipelines of R nodes has a limping one in it
    P_nl = P(Bin(k, q) >= t)          all t threads of a healthy source send to limping nodes
    P_cl = P_nl^(n - 1 - m)           so do those of all healthy sources
    p_bl = sum_a H(a) P_nl^(R-1-a)    all R - 1 holders of a block are locked: a of them limp, with
                                      the hypergeometric probability H(a), which locks them anyway
    P_bl = 1 - (1 - p_bl)^b           one of the b blocks is locked

With m = 1, R = 3, t = 2 these are the paper's formulas, the double sum of p_bl included: nodes are
locked independently of each other, so E[C(i + 1, 2)] / C(n - 1, 2) needs no sum over i.
Where k is no integer, P_nl is continued by the incomplete beta function I_q(t, k - t + 1), which is
the paper's expression for t = 2. That falls below 0 where k < 1; a source with fewer than t blocks
cannot be locked, and here it is 0.

Not in the formulas: sources have k blocks each on average, not always; blocks that share their
holders are locked together, so P_bl is too high; the master skips a locked source, and blocks that
were regenerated before a source was locked are safe. `protocol.py` simulates the effect.

Source: Do, Hao, Leesatapornwongsa, Patana-anake, Gunawi, SoCC 2013, section 5.2, Table 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from core.arrays import Floats
from core.errors import InputError, require_count


@dataclass(frozen=True)
class Cluster:
    """A block store with limping nodes, and its requests.

    nodes n; blocks b: of the crashed node; requests r of one user; replicas R of a block;
    threads t: regenerations that a node sends at a time; limping m: nodes with a slow card.
    """

    nodes: int
    blocks: int
    requests: int = 1
    replicas: int = 3
    threads: int = 2
    limping: int = 1

    def __post_init__(self) -> None:
        require_count("replicas", self.replicas, least=2)
        require_count("blocks", self.blocks, least=1)
        require_count("requests", self.requests)
        require_count("threads", self.threads, least=1)
        require_count("limping", self.limping)
        require_count("nodes", self.nodes, least=1)
        if self.nodes < self.replicas + 1:
            raise InputError(
                "nodes",
                expected=f"at least {self.replicas + 1}: {self.replicas} replicas and, once a node "
                "has crashed, one more to copy them to",
                got=str(self.nodes),
            )
        if self.limping > self.nodes - 2:
            raise InputError(
                "limping",
                expected=f"at most {self.nodes - 2} of {self.nodes} nodes: one has crashed, one is "
                "healthy",
                got=str(self.limping),
            )

    @property
    def healthy(self) -> int:
        """Nodes that neither crashed nor limp: the sources that may be locked."""
        return self.nodes - 1 - self.limping

    @property
    def holders(self) -> int:
        """Nodes that still have a block of the crashed one."""
        return self.replicas - 1

    @property
    def blocks_per_source(self) -> float:
        """k, on average."""
        return self.blocks / (self.nodes - 1)


@dataclass(frozen=True)
class Limplock:
    """Six probabilities: a user's reads, a user's writes, a healthy node's and all healthy nodes'
    regeneration, a block, any of the crashed node's blocks."""

    read: float
    write: float
    node_regeneration: float
    cluster_regeneration: float
    block: float
    any_block: float


def limplock(cluster: Cluster) -> Limplock:
    """Table 2 for this cluster: P_rl, P_wl, P_nl, P_cl, p_bl, P_bl.

    Returns: probabilities, each to about 1e-12 of itself; 0.0 below 1e-308.
    Source: Table 2.
    """
    node, not_node = _node_probability(cluster)
    log_node = math.log1p(-not_node) if node > 0.5 else math.log(node) if node else -math.inf
    block = _block_probability(cluster, node)
    return Limplock(
        read=_any_probability(cluster.requests, cluster.limping / cluster.nodes),
        write=_any_probability(cluster.requests, _limping_probability(cluster)),
        node_regeneration=node,
        cluster_regeneration=math.exp(cluster.healthy * log_node),
        block=block,
        any_block=_any_probability(cluster.blocks, block),
    )


def nodes_in_limplock(cluster: Cluster) -> Floats:
    """p_nl(i): the probability that i healthy nodes are in regeneration limplock, i = 0, 1, ...

    Returns: (n - m,) floats with sum 1: Bin(n - 1 - m, P_nl).  Source: Table 2.
    """
    from scipy.special import gammaln, xlogy

    node, not_node = _node_probability(cluster)
    i = np.arange(cluster.healthy + 1.0)
    ways = gammaln(cluster.healthy + 1) - gammaln(i + 1) - gammaln(cluster.healthy - i + 1)
    return np.exp(ways + xlogy(i, node) + xlogy(cluster.healthy - i, not_node))


def any_block_together(cluster: Cluster) -> float:
    """Return P_bl without its assumption that blocks are locked independently of each other.

    Nodes are drawn first, then the places of the blocks:
    sum_i p_nl(i) (1 - (1 - C(i+m, R-1)/C(n-1, R-1))^b).

    Returns: a probability, at most Table 2's P_bl.
    """
    law = nodes_in_limplock(cluster)
    locked = np.arange(len(law)) + cluster.limping
    share = np.ones(len(law))
    for index in range(cluster.holders):
        share *= np.clip(locked - index, 0, None) / (cluster.nodes - 1 - index)
    inside = share < 1
    lock_probability = np.ones(len(law))
    lock_probability[inside] = -np.expm1(cluster.blocks * np.log1p(-share[inside]))
    return min(1.0, float(law @ lock_probability))


def _any_probability(times: int, probability: float) -> float:
    """Return 1 - (1 - p)^times, exact for the smallest p."""
    if probability >= 1.0:
        return float(times > 0)
    return -math.expm1(times * math.log1p(-probability))


def _limping_probability(cluster: Cluster) -> float:
    """Return the probability that at least one of R distinct nodes limps."""
    n, m = cluster.nodes, cluster.limping
    if m > n - cluster.replicas:
        return 1.0
    return -math.expm1(math.fsum(math.log1p(-m / (n - i)) for i in range(cluster.replicas)))


def _node_probability(cluster: Cluster) -> tuple[float, float]:
    """Return P_nl and 1 - P_nl."""
    from scipy.special import betainc, betaincc

    threads, blocks = cluster.threads, cluster.blocks_per_source
    beyond = blocks - threads + 1
    if beyond <= 0 or not cluster.limping:
        return 0.0, 1.0
    to_limping = cluster.limping / (cluster.nodes - 2)
    return (
        float(betainc(threads, beyond, to_limping)),
        float(betaincc(threads, beyond, to_limping)),
    )


def _block_probability(cluster: Cluster, node: float) -> float:
    """Return p_bl, a sum over the holders that limp."""
    m, holders, alive = cluster.limping, cluster.holders, cluster.nodes - 1
    return math.fsum(
        math.comb(m, a)
        * math.comb(alive - m, holders - a)
        / math.comb(alive, holders)
        * node ** (holders - a)
        for a in range(min(m, holders) + 1)
    )
