"""The frequency of a collision on a database server by replicas of one page, beside sPARE Eq. 1.

The chain is real (`agents/arbiter/examples/collisions.rs`): clients, an HTTP arbiter at r1 = 2, two
small applications, a MySQL arbiter at r2, and M2 MariaDB servers. Each policy runs without and with
stamps.
"""

from __future__ import annotations

import json
import math
import subprocess

from bench.process import ROOT
from core.json_object import JsonObject
from optimizer.replication.closed_forms import collision_probability

UPSTREAM = 2
REQUESTS = 400
POLICIES = ("random", "round-robin", "tad")


def measure() -> list[JsonObject]:
    """One row per M2, r2, policy, with and without avoidance: P_c, its 95 % interval, Eq. 1."""
    command = ["cargo", "run", "-q", "--locked", "-p", "arbiter", "--example", "collisions", "--"]
    done = subprocess.run(
        [*command, str(REQUESTS), *POLICIES],
        cwd=ROOT / "agents",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=1800,
    )
    return [_row(json.loads(line)) for line in done.stdout.splitlines()]


def _row(case: JsonObject) -> JsonObject:
    return {
        "r1": UPSTREAM,
        **case,
        "p_c": case["collided"] / case["requests"],
        "p_c_interval": wilson(case["collided"], case["requests"]),
        "eq_1": collision_probability(case["m2"], UPSTREAM, case["r2"]),
    }


def wilson(hits: int, trials: int, z: float = 1.96) -> list[float]:
    r"""Wilson's score interval: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).

    Parameters: hits 0..trials; trials >= 1; z the normal quantile (1.96: 95 %).
    Returns: [low, high] within [0, 1].
    Source: E. B. Wilson, JASA 22 (1927) 209.
    """
    share, square = hits / trials, z * z / trials
    middle = share + square / 2
    half = z * math.sqrt(share * (1 - share) / trials + square / (4 * trials))
    return [max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square))]
