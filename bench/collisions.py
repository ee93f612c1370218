"""The frequency of a collision on a database server by replicas of one page, beside sPARE Eq. 1.

The chain is real (`agents/arbiter/examples/collisions.rs`): clients, an HTTP arbiter at r1 = 2, two
small applications, a MySQL arbiter at r2, and M2 MariaDB servers. Each policy runs without and with
stamps.
"""

from __future__ import annotations

import json
import subprocess

from scipy import stats

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
        cwd=ROOT / "agents", stdout=subprocess.PIPE, text=True, check=True, timeout=1800,
    )  # fmt: skip
    return [_row(json.loads(line)) for line in done.stdout.splitlines()]


def _row(case: JsonObject) -> JsonObject:
    return {
        "r1": UPSTREAM,
        **case,
        "p_c": case["collided"] / case["requests"],
        "p_c_interval": _interval(case["collided"], case["requests"]),
        "eq_1": collision_probability(case["m2"], UPSTREAM, case["r2"]),
    }


def _interval(hits: int, trials: int) -> list[float]:
    """Wilson's 95 % interval of a share."""
    found = stats.binomtest(hits, trials).proportion_ci(method="wilson")
    return [float(found.low), float(found.high)]
