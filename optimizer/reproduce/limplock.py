"""The limplock paper's Table 2 and Fig. 3: curves, claims of its text, and simulations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from core.json_object import JsonObject
from optimizer.limplock import Cluster, Limplock, Simulated, limplock, simulate
from optimizer.reproduce.published import Claim, is_printed_as, published
from optimizer.reproduce.replicas import Grid

NODES = (10, 20, 30, 50, 100, 200, 500, 1000, 10_000)
REQUESTS = (1, 10, 100, 1000)
BLOCKS = (800, 1600, 3200, 6400)
PAPER_CLUSTER = Cluster(nodes=30, blocks=3200, requests=100)
"""The paper's dead node of 200 GB."""
TRIALS = 300
RULE = "Match: less than one unit of the last printed digit off, or 5 %; or as the text says."


@dataclass(frozen=True)
class Compared:
    """The formulas, a simulation of their assumptions, and one of the protocol."""

    cluster: Cluster
    formula: Limplock
    average: Simulated
    in_turn: Simulated


def compared(trials: int = TRIALS) -> list[Compared]:
    """Compare clusters of 10 to 10,000 nodes, as the report behind Table 2 did (reference 23)."""
    rng = np.random.default_rng(1)
    comparisons = []
    for nodes in NODES:
        cluster = replace(PAPER_CLUSTER, nodes=nodes)
        average, in_turn = (simulate(cluster, trials, rng, order=o) for o in ("average", "in_turn"))
        comparisons.append(Compared(cluster, limplock(cluster), average, in_turn))
    return comparisons


def grids() -> dict[str, Grid]:
    """Return the curves of Fig. 3 as tables."""
    return {
        "figure_3a": _grid("Fig. 3a: P(a user's reads meet limplock)", "requests", "read"),
        "figure_3b": _grid("Fig. 3b: P(a user's writes meet limplock)", "requests", "write"),
        "figure_3c": _grid("Fig. 3c: P(a block is in limplock)", "blocks", "any_block"),
        "figure_3d": _grid(
            "Fig. 3d: P(all regeneration is in limplock)", "blocks", "cluster_regeneration"
        ),
    }


def _grid(title: str, varied: str, name: str) -> Grid:
    values = REQUESTS if varied == "requests" else BLOCKS
    rows = {
        f"{value}": tuple(
            getattr(limplock(replace(PAPER_CLUSTER, nodes=nodes, **{varied: value})), name)
            for nodes in NODES
        )
        for value in values
    }
    return Grid(title, f"{varied} \\ nodes", tuple(str(nodes) for nodes in NODES), rows)


def claims() -> list[Claim]:
    """Compare the claims of the paper's text with its formulas."""
    paper = published("limplock")
    return [
        *_figure_claims(paper),
        *_user_claims(paper),
        *_regeneration_claims(paper),
        _scale_claim(),
        _negative_claim(),
    ]


def _figure_claims(paper: JsonObject) -> Iterator[Claim]:
    dead, slow, small = paper["dead_node"], paper["regeneration"], paper["unnoticed"]
    writes, net = paper["buffered_writes"], paper["network"]
    for place, subject, printed, ours, unit in (
        ("5.2.3", f"blocks of {dead['block_mb']} MB on a dead node of {dead['gb']} GB",
         dead["printed_blocks"], dead["gb"] * 1024 / dead["block_mb"], ""),
        ("5.2.3", f"{slow['slowdown']} times F8's {slow['base_s']} s",
         slow["printed_hours"], slow["slowdown"] * slow["base_s"] / 3600, " h"),
        ("5.2.2", "slowest card that no time-out notices",
         small["printed_kb_per_s"], small["packet_kb"] / small["timeout_s"], " KB/s"),
        ("5.2.1", "writes that a slow disk would show in",
         writes["printed_mb_per_s"], writes["memory_mb"] / writes["flush_s"], " MB/s"),
        ("5.2.1", f"most that a card of {net['nic_mbps']} Mbit/s takes",
         net["printed_mb_per_s"], net["nic_mbps"] / 8, " MB/s"),
    ):  # fmt: skip
        same = is_printed_as(ours, printed)
        yield Claim(place, subject, f"{printed}{unit}", f"{ours:.4g}{unit}", same)


def _user_claims(paper: JsonObject) -> Iterator[Claim]:
    likely = paper["likely_for_a_user"]
    for figure, name in (("a", "read"), ("b", "write")):
        probabilities = [
            getattr(limplock(replace(PAPER_CLUSTER, nodes=likely["nodes"], requests=r)), name)
            for r in likely["requests"]
        ]
        by_requests = ", ".join(
            f"{100 * p:.3g} % of {r}"
            for p, r in zip(probabilities, likely["requests"], strict=True)
        )
        yield Claim(
            f"Fig. 3{figure}",
            f"{name}s, {likely['nodes']} nodes",
            "relatively high",
            f"{by_requests} requests",
            probabilities[2] > 0.5,
        )


def _regeneration_claims(paper: JsonObject) -> Iterator[Claim]:
    certain, below = paper["any_block_certain"], paper["cluster_prone_below_nodes"]
    any_block = limplock(Cluster(certain["nodes"], certain["blocks"])).any_block
    yield Claim(
        "Fig. 3c",
        f"a block in limplock, {certain['nodes']} nodes, {certain['blocks']} blocks",
        "there will be one",
        f"{100 * any_block:.2f} %",
        any_block > 0.99,
    )
    likely = [n for n in range(4, 100) if _cluster_share(n) > 0.5]
    yield Claim(
        "Fig. 3d",
        f"all regeneration in limplock, {PAPER_CLUSTER.blocks} blocks",
        f"below {below} nodes",
        f"more likely than not up to {max(likely)} nodes; "
        f"{100 * _cluster_share(below - 1):.0f} % at {below - 1}",
        below - 5 <= max(likely) < below,
    )


def _cluster_share(nodes: int) -> float:
    return limplock(replace(PAPER_CLUSTER, nodes=nodes)).cluster_regeneration


def _scale_claim() -> Claim:
    falls = all(
        a >= b for g in grids().values() for row in g.rows.values() for a, b in pairwise(row)
    )
    return Claim(
        "6",
        f"{NODES[0]} to {NODES[-1]} nodes, one of them limping",
        "less likely with scale",
        "never rises" if falls else "rises somewhere",
        falls,
    )


def _negative_claim() -> Claim:
    """Check Table 2's P_nl as printed, for a case where a source has half a block."""
    nodes, blocks = 41, 20
    share, kept_share = blocks / (nodes - 1), (nodes - 3) / (nodes - 2)
    printed = 1 - kept_share**share - share / (nodes - 2) * kept_share ** (share - 1)
    ours = limplock(Cluster(nodes, blocks)).node_regeneration
    return Claim(
        "Table 2",
        f"P_nl, {nodes} nodes, {blocks} blocks",
        f"{printed:.2g}",
        f"{ours:g}",
        printed >= 0,
        "The expression counts on a whole block for each source and is below 0 with less than one "
        "(b < n - 1). A source with fewer blocks than threads cannot be locked: 0.",
    )
