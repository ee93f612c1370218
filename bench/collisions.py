"""The frequency of a collision on a database server by replicas of one page, beside sPARE Eq. 1.

The chain is real (`agents/arbiter/examples/collisions.rs`): clients, an HTTP arbiter at r1 = 2, two
small applications, a MySQL arbiter at r2, and M2 MariaDB servers. Each policy runs without and with
stamps.
"""

from __future__ import annotations

from scipy import stats

from bench.process import run_example
from core.json_object import JsonObject
from optimizer.replication.closed_forms import collision_probability

UPSTREAM = 2
REQUESTS = 400
POLICIES = ("random", "round-robin", "tad")


def measure() -> list[JsonObject]:
    """Return a row per M2, r2, policy, with and without avoidance: P_c, its interval, Eq. 1."""
    options = f"-p arbiter --example collisions -- {REQUESTS} {' '.join(POLICIES)}"
    return [_row(case) for case in run_example(options, limit_s=1800)]


def _row(case: JsonObject) -> JsonObject:
    return {
        "r1": UPSTREAM,
        **case,
        "p_c": case["collided"] / case["requests"],
        "p_c_interval": _interval(case["collided"], case["requests"]),
        "eq_1": collision_probability(case["m2"], UPSTREAM, case["r2"]),
    }


def _interval(hits: int, trials: int) -> list[float]:
    """Return Wilson's 95 % interval of a share."""
    interval = stats.binomtest(hits, trials).proportion_ci(method="wilson")
    return [float(interval.low), float(interval.high)]
