"""The simulator beside Ciw and SimPy on the same model, turn by turn, one thread each.

Two stations of ten cores, first come, first served, exponential work, 70 % load: each request is
served at the first and then at the second. All must agree on the mean. Then the simulator alone on
two tiers of 10,000 servers, round-robin, one call a request.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path

from core.json_object import JsonObject
from optimizer.simulation import simulate

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "build" / "peers" / "bin" / "python"
TURNS = 3
CORES, RATE_PER_S = 10, 7.0
REQUESTS, PEER_REQUESTS = 1_000_000, 8_000
LARGE_SERVERS, LARGE_REQUESTS = 10_000, 1_000_000
LIMIT_S = 120.0
EVENTS = 3  # a request: its arrival and two ends of work


def measure() -> JsonObject:
    """Return events per second, medians over turns with their range, and the ratios."""
    turns: dict[str, list[JsonObject]] = {"ours": [], "ciw": [], "simpy": [], "large": []}
    for turn in range(TURNS):
        turns["ours"].append(_ours(_same_model(turn)))
        turns["ciw"].append(_peer("ciw", turn))
        turns["simpy"].append(_peer("simpy", turn))
        turns["large"].append(_ours(_large(turn)))
    found: JsonObject = {"turns": TURNS, "model": "two stations of 10 cores, 70 % load"}
    for name, runs in turns.items():
        speeds = [run["events_per_s"] for run in runs]
        found[name] = {
            "events_per_s": statistics.median(speeds),
            "range": [min(speeds), max(speeds)],
            "mean_s": statistics.fmean(run["mean_s"] for run in runs),
            **({"version": runs[0]["version"]} if "version" in runs[0] else {}),
        }
    ours = found["ours"]["events_per_s"]
    found["events_per_s"] = found["large"]["events_per_s"]
    found["servers_a_tier"] = LARGE_SERVERS
    found["ratio_ciw"] = ours / found["ciw"]["events_per_s"]
    found["ratio_simpy"] = ours / found["simpy"]["events_per_s"]
    return found


def _same_model(seed: int) -> JsonObject:
    station = {
        "servers": 1,
        "cores": CORES,
        "discipline": "first-come-first-served",
        "work": {"kind": "exponential", "mean_s": 1.0},
    }
    return {
        "seed": seed + 1,
        "arrivals": {"kind": "poisson", "rate_per_s": RATE_PER_S},
        "requests": REQUESTS,
        "tiers": [
            {"name": "first", **station, "calls": {"kind": "fixed", "value": 1}},
            {"name": "second", **station},
        ],
    }


def _large(seed: int) -> JsonObject:
    tier = {"servers": LARGE_SERVERS, "work": {"kind": "exponential", "mean_s": 1.0}}
    return {
        "seed": seed + 1,
        "arrivals": {"kind": "poisson", "rate_per_s": 0.5 * LARGE_SERVERS},
        "requests": LARGE_REQUESTS,
        "tiers": [
            {"name": "web", **tier, "calls": {"kind": "fixed", "value": 1}},
            {"name": "db", **tier},
        ],
    }


def _ours(scenario: JsonObject) -> JsonObject:
    found = simulate(json.dumps(scenario), threads=1)
    report = found["reports"][0]
    return {
        "events_per_s": found["events"] / found["wall_s"],
        "mean_s": report["latency"]["mean_s"],
    }


def _peer(name: str, seed: int) -> JsonObject:
    command = [str(PEERS), "bench/queues.py", name, str(CORES), str(RATE_PER_S)]
    done = subprocess.run(
        [*command, str(PEER_REQUESTS), str(seed + 1)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    found: JsonObject = json.loads(done.stdout.splitlines()[-1])
    return {**found, "events_per_s": EVENTS * found["requests"] / found["seconds"]}
