r"""Limplock by simulation: the probabilities of `cluster.py`, drawn instead of derived.

average    as Table 2 assumes: every living node is the source of b / (n - 1) blocks, each is sent
           to a node drawn from the others, and a block's holders are drawn independently
in_turn    the protocol: blocks wait in one queue. The master takes the next, skips sources whose
           t threads are lost, draws one of the other holders and a node that has no
           copy. If either limps, the thread is lost (nothing revokes it) and the block, after its
           time-out, goes to the end of the queue. A block is in limplock when all its
           holders have lost their threads; the end is when only such blocks are left.

A healthy copy takes no time, because the paper's slowest limping ones are 1000 times slower.
Trials are independent; shares of nodes and blocks are averaged per trial, so that an interval needs
no independence within one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from core.arrays import Floats, Ints, Mask
from core.errors import InputError, require_count, require_share
from optimizer.limplock.cluster import Cluster, Limplock

ORDERS = ("average", "in_turn")
AT_A_TIME = 4_000_000  # numbers of one array: 32 MB


@dataclass(frozen=True)
class Estimate:
    """A probability by simulation, with its interval."""

    value: float
    low: float
    high: float

    def holds(self, probability: float) -> bool:
        return self.low <= probability <= self.high


@dataclass(frozen=True)
class Simulated:
    """The six probabilities of `Limplock`, simulated."""

    read: Estimate
    write: Estimate
    node_regeneration: Estimate
    cluster_regeneration: Estimate
    block: Estimate
    any_block: Estimate


NAMES = tuple(field.name for field in fields(Limplock))


def simulate(
    cluster: Cluster,
    trials: int,
    rng: np.random.Generator,
    *,
    order: str = "in_turn",
    confidence: float = 0.95,
) -> Simulated:
    """Return the six probabilities from `trials` crashes in independently drawn clusters.

    Parameters: trials >= 2; order average or in_turn; confidence in (0, 1), of each interval alone.
    Returns: Simulated.  An interval is Student's of the trials' shares; if all are equal, and for
    yes-or-no results of a trial, it is Clopper and Pearson's.
    """
    require_count("trials", trials, least=2)
    require_share("confidence", confidence, one=False)
    if order not in ORDERS:
        raise InputError("order", expected=" or ".join(ORDERS), got=repr(order))
    largest = max(
        cluster.blocks * cluster.holders, cluster.nodes, cluster.requests * cluster.replicas
    )
    if largest > 10 * AT_A_TIME:
        raise InputError(
            "simulation",
            expected=f"at most {10 * AT_A_TIME:,} nodes, requests x replicas, and blocks x others",
            got=f"{largest:,}",
            hint="Simulate a smaller cluster, or do without: the formulas have no such bound.",
        )
    chunks = [
        np.stack(_trials(cluster, chunk_trials, rng, order), axis=1)
        for chunk_trials in _chunk_sizes(trials, max(1, AT_A_TIME // largest))
    ]
    columns = np.concatenate(chunks).T
    return Simulated(*(_estimate(column, confidence) for column in columns))


def _chunk_sizes(total: int, size_max: int) -> Iterator[int]:
    while total > 0:
        yield min(total, size_max)
        total -= size_max


def _trials(
    cluster: Cluster, trials: int, rng: np.random.Generator, order: str
) -> tuple[Floats, ...]:
    """Return each of the six probabilities by trial, as a share in [0, 1]."""
    regenerate = _regenerate_average if order == "average" else _regenerate_in_turn
    locked, stuck = regenerate(cluster, trials, rng)
    return (
        _requests(cluster, trials, rng, 1),
        _requests(cluster, trials, rng, cluster.replicas),
        locked.mean(axis=1),
        locked.all(axis=1).astype(float),
        stuck.mean(axis=1),
        stuck.any(axis=1).astype(float),
    )


def _requests(cluster: Cluster, trials: int, rng: np.random.Generator, nodes_each: int) -> Floats:
    """Return 1.0 if a request goes to a limping node (0, 1, ..., m - 1), by trial."""
    drawn = _draw_distinct(rng, cluster.nodes, nodes_each, (trials, cluster.requests))
    return (drawn < cluster.limping).any(axis=(1, 2)).astype(float)


def _regenerate_average(
    cluster: Cluster, trials: int, rng: np.random.Generator
) -> tuple[Mask, Mask]:
    """Return the locked sources (trials, healthy) and the locked blocks (trials, blocks)."""
    n, m = cluster.nodes, cluster.limping
    least, rest = divmod(cluster.blocks, n - 1)
    tasks = least + (np.arange(cluster.healthy) < rest)
    slow = rng.binomial(np.broadcast_to(tasks, (trials, len(tasks))), m / (n - 2))
    locked = slow >= cluster.threads
    full = np.concatenate([np.ones((trials, m), dtype=bool), locked], axis=1)
    holders = _draw_distinct(rng, n - 1, cluster.holders, (trials, cluster.blocks))
    held_by_full = full[np.arange(trials)[:, None, None], holders]
    return locked, np.logical_and.reduce(held_by_full, axis=2)


def _regenerate_in_turn(
    cluster: Cluster, trials: int, rng: np.random.Generator
) -> tuple[Mask, Mask]:
    """Return the locked sources (trials, healthy) and the locked blocks (trials, blocks)."""
    n, m = cluster.nodes, cluster.limping
    rows = np.arange(trials)
    holders = _draw_distinct(rng, n - 1, cluster.holders, (trials, cluster.blocks))
    limping_to_send_to = m - (holders < m).sum(axis=2)
    lost = np.zeros((trials, n - 1), dtype=np.int32)
    waits = np.ones((trials, cluster.blocks), dtype=bool)
    stuck = np.zeros_like(waits)
    while waits.any():
        for block in _waiting_blocks(waits):
            block_holders = holders[rows, block]
            free = lost[rows[:, None], block_holders] < cluster.threads
            chances = np.where(free, rng.random(block_holders.shape), -1.0)
            source = block_holders[rows, chances.argmax(axis=1)]
            asks = waits[rows, block]
            stuck[rows, block] |= asks & ~free.any(axis=1)
            slow = rng.integers(n - cluster.replicas, size=trials) < limping_to_send_to[rows, block]
            slow |= source < m
            sends = asks & free.any(axis=1)
            lost[rows, source] += sends & slow
            waits[rows, block] = sends & slow
    return lost[:, m:] >= cluster.threads, stuck


def _waiting_blocks(waits: Mask) -> Iterator[NDArray[np.intp]]:
    """Yield each trial's next waiting block, or without one a block that does not wait."""
    behind = np.argsort(~waits, axis=1, kind="stable")
    for index in range(int(waits.sum(axis=1).max())):
        yield behind[:, index]


def _draw_distinct(
    rng: np.random.Generator, population: int, count: int, shape: tuple[int, ...]
) -> Ints:
    """Draw `count` different numbers of 0, 1, ..., population - 1, each set equally likely.

    Returns: an array (*shape, count).
    """
    drawn = np.empty((*shape, count), dtype=np.int64)
    for i in range(count):
        draw = rng.integers(population - i, size=shape)
        for earlier in np.moveaxis(np.sort(drawn[..., :i], axis=-1), -1, 0):
            draw += draw >= earlier
        drawn[..., i] = draw
    return drawn


def _estimate(shares: Floats, confidence: float) -> Estimate:
    from scipy.special import betaincinv, stdtrit

    trials, mean = len(shares), float(shares.mean())
    beyond = (1.0 - confidence) / 2.0
    if np.isin(shares, (0.0, 1.0)).all() or (shares == shares[0]).all():
        yes = mean * trials
        low = float(betaincinv(yes, trials - yes + 1.0, beyond)) if yes > 0 else 0.0
        high = float(betaincinv(yes + 1.0, trials - yes, 1.0 - beyond)) if yes < trials else 1.0
        return Estimate(mean, low, high)
    width = float(stdtrit(trials - 1, 1.0 - beyond) * shares.std(ddof=1) / np.sqrt(trials))
    return Estimate(mean, max(0.0, mean - width), min(1.0, mean + width))
