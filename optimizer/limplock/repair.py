r"""A store whose nodes crash, limp and are healed, as a Markov chain that ends when data are lost.

j counts the crashed nodes whose blocks are not all copied again, l the limping ones of the others.
With l of them limping a regeneration is in limplock with probability P(l).

    a healthy node crashes  (n - j - l) lambda  j + 1; locks with P(l)
    a limping node crashes  l lambda            j + 1, l - 1; unlocks as when healed, then locks
                                                with P(l-1)
    one starts to limp      (n - j - l) alpha   l + 1; locks with (P(l+1) - P(l)) / (1 - P(l))
    one is healed           l omega             l - 1; unlocks with 1 - P(l-1) / P(l)
    blocks are copied       mu; locked mu / S   j - 1: one node's after the other's

The crash after j others loses data if a block has all R copies on those nodes, which for
B = n b / R blocks placed at random is h = 1 - (1 - 1/C(n, R))^(B C(j, R-1)). What was copied before
a regeneration ends does not count as saved, and blocks with one copy left are not served first:
both make the modelled store less safe than HDFS, with limping nodes and without.

Method: elimination without subtraction, the highest l first (a level meets only its neighbours), so
that no digit is lost, however rare a loss is. j is cut off at a further crash, which counts as a
loss or as none: the two answers bracket the truth.
Source: Grassmann, Taksar, Heyman 1985.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from core.arrays import Floats
from optimizer.limplock.cluster import Cluster


@dataclass(frozen=True)
class Store:
    """The rates [1/h] of the module's table; locks: P(l) for each level, and one more."""

    cluster: Cluster
    crash_per_h: float
    limp_per_h: float
    healed_per_h: float
    regenerated_per_h: float
    slowdown: float
    locks: Floats


def hours_until_loss(
    store: Store, crashed_max: int, rewards: Floats, lost_past_cut: bool
) -> Floats:
    """Return the expected hours from j = l = 0 until data are lost, by state.

    Parameters: crashed_max J >= 1; rewards (levels, k) of an hour with l limping nodes;
    lost_past_cut: True if the crash after J is a loss (lower bound), False if it does not happen
    (upper bound).
    Returns: (k + 2,) hours: each reward, a regeneration under way, one in limplock.
    """
    width = 2 * crashed_max + 1
    above: tuple[Floats, Floats, Floats, Floats] | None = None
    for limping in reversed(range(len(rewards))):
        within, up, down, loss = _rates(store, limping, crashed_max, lost_past_cut)
        reward = np.column_stack([np.tile(rewards[limping], (width, 1)), _states(crashed_max)])
        if above is not None:
            window = np.block([[within, up], [above[1], above[0]]])
            loss, reward = np.concatenate([loss, above[2]]), np.vstack([reward, above[3]])
            _eliminate(window, loss, reward, width)
            within, loss, reward = window[:width, :width], loss[:width], reward[:width]
        above = within, down, loss, reward
    _eliminate(within, loss, reward, 1)
    hours: Floats = reward[0] / loss[0]
    return hours


def loss_share(cluster: Cluster, crashed: int) -> float:
    """Return the probability that the crash after `crashed` others loses data not lost before."""
    n, copies = cluster.nodes, cluster.replicas
    places = math.comb(n, copies)
    each = places * math.log1p(-1 / places) if places < 10**15 else -1.0
    sets = math.comb(crashed, copies - 1) * n * cluster.blocks
    return -math.expm1(each * (sets / (copies * places)))


def _states(crashed_max: int) -> Floats:
    """Return two flags for each state: 1 if a node regenerates, 1 if a node is in limplock."""
    crashed = np.concatenate([np.arange(crashed_max + 1), np.arange(1, crashed_max + 1)])
    return np.column_stack([crashed > 0, np.arange(len(crashed)) > crashed_max]).astype(float)


def _rates(
    store: Store, limping: int, crashed_max: int, lost_past_cut: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the rates [1/h] out of the states with l limping nodes.

    The states are j = 0 to J, then locked j = 1 to J. The rates are to states with as many limping
    nodes, one more, one fewer, and to a loss.
    """
    lock, fewer = store.locks[limping], store.locks[max(limping - 1, 0)]
    kept_lock = fewer / lock if lock > 0 else 0.0
    j = np.arange(crashed_max + 1)
    one_more = np.minimum(j + 1, crashed_max)
    free, locked = j, crashed_max + j[1:]
    healthy = np.maximum(store.cluster.nodes - j - limping, 0)
    lost = np.array([loss_share(store.cluster, crashed) for crashed in range(len(j))])
    if lost_past_cut:
        lost[-1] = 1.0
    within, up, down = np.zeros((3, 2 * crashed_max + 1, 2 * crashed_max + 1))
    for rates, crashes, share, locks_left in (
        (within, healthy, lock, 1.0),
        (down, np.minimum(limping, store.cluster.nodes - j), fewer, kept_lock),
    ):
        rate = crashes * store.crash_per_h * (1.0 - lost)
        rates[free, one_more] += rate * (1.0 - share)
        rates[free, crashed_max + one_more] += rate * share
        rates[locked, one_more[1:]] += rate[1:] * (1.0 - locks_left) * (1.0 - share)
        rates[locked, crashed_max + one_more[1:]] += rate[1:] * (
            locks_left + (1.0 - locks_left) * share
        )
    if limping + 1 < len(store.locks) - 1:
        _start_to_limp(up, store, limping, healthy * store.limp_per_h)
    heal = limping * store.healed_per_h
    down[free, free] += heal
    down[locked, locked] += heal * kept_lock
    down[locked, free[1:]] += heal * (1.0 - kept_lock)
    within[free[1:], free[:-1]] += store.regenerated_per_h
    within[locked, [0, *locked[:-1]]] += store.regenerated_per_h / store.slowdown
    np.fill_diagonal(within, 0.0)
    crashes = (healthy + np.minimum(limping, store.cluster.nodes - j)) * store.crash_per_h
    return within, up, down, np.concatenate([crashes * lost, (crashes * lost)[1:]])


def _start_to_limp(up: Floats, store: Store, limping: int, rate: Floats) -> None:
    lock, next_lock = store.locks[limping], store.locks[limping + 1]
    locks = (next_lock - lock) / (1.0 - lock) if lock < 1.0 else 0.0
    crashed_max = len(rate) - 1
    free, locked = np.arange(1, crashed_max + 1), np.arange(crashed_max + 1, 2 * crashed_max + 1)
    up[0, 0] += rate[0]
    up[free, free] += rate[1:] * (1.0 - locks)
    up[free, locked] += rate[1:] * locks
    up[locked, locked] += rate[1:]


def _eliminate(rates: Floats, loss: Floats, reward: Floats, least: int) -> None:
    """Censor the states from the last down to `least`; their events count where they are entered.

    All terms are sums of numbers that are not negative.
    """
    for last in reversed(range(least, len(rates))):
        entered = rates[:last, last] / (rates[last, :last].sum() + loss[last])
        rates[:last, :last] += np.outer(entered, rates[last, :last])
        loss[:last] += entered * loss[last]
        reward[:last] += np.outer(entered, reward[last])
        rates[np.arange(last), np.arange(last)] = 0.0
