"""The time of one choice among 64 servers, per policy; sPARE's took 20 microseconds.

`agents/policy/examples/select_ns.rs` does acquire, observe and release of one request, with as many
others under way as there are servers.
"""

from __future__ import annotations

from bench.process import run_example
from bench.turns import spread
from core.json_object import JsonObject

SERVERS = 64
TURNS = 5


def measure() -> JsonObject:
    """Return nanoseconds per policy and r: the median over turns, and the range."""
    options = f"--release -p policy --example select_ns -- {SERVERS} {TURNS}"
    result: JsonObject = {"servers": SERVERS, "turns": TURNS, "policies": {}}
    for row in run_example(options, limit_s=900):
        policy_rows = result["policies"].setdefault(row["policy"], {})
        policy_rows[str(row["r"])] = spread("ns", row["ns"])
    return result
