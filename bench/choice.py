"""The time of one choice among 64 servers, per policy; sPARE's took 20 microseconds.

`agents/policy/examples/select_ns.rs` does acquire, observe and release of one request, with as many
others under way as there are servers.
"""

from __future__ import annotations

import json
import subprocess

from bench.process import ROOT
from bench.turns import spread
from core.json_object import JsonObject

SERVERS = 64
TURNS = 5


def measure() -> JsonObject:
    """Return nanoseconds per policy and r: the median over turns, and the range."""
    command = ["cargo", "run", "-q", "--release", "--locked", "-p", "policy"]
    command += ["--example", "select_ns", "--", str(SERVERS), str(TURNS)]
    done = subprocess.run(
        command,
        cwd=ROOT / "agents", stdout=subprocess.PIPE, text=True, check=True, timeout=900,
    )  # fmt: skip
    found: JsonObject = {"servers": SERVERS, "turns": TURNS, "policies": {}}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        of_policy = found["policies"].setdefault(row["policy"], {})
        of_policy[str(row["r"])] = spread("ns", row["ns"])
    return found
