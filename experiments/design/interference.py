"""Noisy neighbours, drawn in advance: gaps and runs alternate on each affected machine.

sPARE section 6.1: neighbours arrive as a Poisson process (mean gap 40 s) and run for an
exponential time (mean 10 s), at the front tier, at the back tier, or at both. A measured window is
short in comparison, so it begins in the stationary state of the alternating renewal process: a
machine is in a run at second 0 with probability run / (gap + run). Both laws are memoryless, so the
rest of that run or gap is exponential with its full mean. Gaps shorter than a second last one
second: with a mean of 20 s one in twenty, which makes the mean gap 0.1 % longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments.design.contracts import CPU, IPERF
from experiments.design.experiment import Interference
from experiments.design.fleet import INFLUXDB, Fleet
from experiments.design.schedule import stream

# Between two runs on a machine: an agent refuses a neighbour while it ends one of the same kind.
GAP_S_MIN = 1.0
IPERF_FIRST_PORT = 5201  # every pair has a port of its own: runs overlap


@dataclass(frozen=True)
class Episode:
    """One run of a neighbour on `machine`, in seconds from the block's start.

    kind interference.cpu: parameters {workers}, no peer. kind interference.iperf: `machine` sends
    to `peer`, which needs interference.iperf_server with the same port; parameters {port, mbps},
    to which the caller adds the peer's data address. The peer is another node of the tier; that of
    a tier's only node is the telemetry's machine, so that no other tier is disturbed.
    """

    start_s: float
    duration_s: float
    kind: str
    machine: str
    peer: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def affected_tiers(pattern: str, tier_order: Sequence[str]) -> tuple[str, ...]:
    """Return the tiers that a pattern disturbs: front is tier 1, back is the last tier."""
    tiers = {
        "none": (),
        "front": (tier_order[0],),
        "back": (tier_order[-1],),
        "both": (tier_order[0], tier_order[-1]),
    }[pattern]
    return tuple(dict.fromkeys(tiers))


def episodes(
    interference: Interference, fleet: Fleet, window_s: float, seed: int
) -> tuple[Episode, ...]:
    """Return all episodes that begin in [0, window_s), cut at its end, by start."""
    result: list[Episode] = []
    for tier in affected_tiers(interference.pattern, fleet.tier_order):
        nodes = fleet.nodes_of(tier)
        for machine in nodes:
            peers = [name for name in nodes if name != machine] or [INFLUXDB]
            result.extend(_draw_on_machine(interference, machine, peers, window_s, seed))
    result.sort(key=lambda episode: (episode.start_s, episode.machine))
    return tuple(_add_port(episode, index) for index, episode in enumerate(result))


def _draw_on_machine(
    interference: Interference, machine: str, peers: Sequence[str], window_s: float, seed: int
) -> list[Episode]:
    rng = stream(seed, "interference", machine)
    gap_s, run_s = interference.mean_gap_s, interference.mean_run_s
    in_run = rng.random() < run_s / (gap_s + run_s)
    start_s = 0.0 if in_run else float(rng.exponential(gap_s))
    result: list[Episode] = []
    while start_s < window_s:
        length_s = float(rng.exponential(run_s))
        duration_s = min(length_s, window_s - start_s)
        result.append(_draw_episode(interference, machine, peers, start_s, duration_s, rng))
        start_s += length_s + max(GAP_S_MIN, float(rng.exponential(gap_s)))
    return result


def _draw_episode(
    interference: Interference,
    machine: str,
    peers: Sequence[str],
    start_s: float,
    duration_s: float,
    rng: np.random.Generator,
) -> Episode:
    kind = interference.kinds[int(rng.integers(len(interference.kinds)))]
    if kind == "cpu":
        workers = {"workers": interference.cpu_workers}
        return Episode(start_s, duration_s, CPU, machine, None, workers)
    peer = peers[int(rng.integers(len(peers)))]
    mbps = {"mbps": interference.iperf_mbps}
    return Episode(start_s, duration_s, IPERF, machine, peer, mbps)


def _add_port(episode: Episode, index: int) -> Episode:
    if episode.peer is None:
        return episode
    parameters = {"port": IPERF_FIRST_PORT + index, **episode.parameters}
    return replace(episode, parameters=parameters)
