"""The simulator beside Ciw and SimPy on the same model, turn by turn, one thread each.

Two stations of ten cores, first come, first served, exponential work, 70 % load: each request is
served at the first and then at the second. All must agree on the mean. Then the simulator alone on
two tiers of 10,000 servers, round-robin, one call a request.
"""

from __future__ import annotations

import json
import statistics

from bench.process import run_peer
from core.json_object import JsonObject
from optimizer.simulation import simulate

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
        turns["ours"].append(_run_ours(_two_stations(turn)))
        turns["ciw"].append(_run_peer("ciw", turn))
        turns["simpy"].append(_run_peer("simpy", turn))
        turns["large"].append(_run_ours(_large_scenario(turn)))
    result: JsonObject = {"turns": TURNS, "model": "two stations of 10 cores, 70 % load"}
    for name, runs in turns.items():
        speeds = [run["events_per_s"] for run in runs]
        result[name] = {
            "events_per_s": statistics.median(speeds),
            "range": [min(speeds), max(speeds)],
            "mean_s": statistics.fmean(run["mean_s"] for run in runs),
            **({"version": runs[0]["version"]} if "version" in runs[0] else {}),
        }
    ours = result["ours"]["events_per_s"]
    result["events_per_s"] = result["large"]["events_per_s"]
    result["servers_a_tier"] = LARGE_SERVERS
    result["ratio_ciw"] = ours / result["ciw"]["events_per_s"]
    result["ratio_simpy"] = ours / result["simpy"]["events_per_s"]
    return result


def _two_stations(seed: int) -> JsonObject:
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


def _large_scenario(seed: int) -> JsonObject:
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


def _run_ours(scenario: JsonObject) -> JsonObject:
    answer = simulate(json.dumps(scenario), threads=1)
    report = answer["reports"][0]
    return {
        "events_per_s": answer["events"] / answer["wall_s"],
        "mean_s": report["latency"]["mean_s"],
    }


def _run_peer(name: str, seed: int) -> JsonObject:
    arguments = (name, CORES, RATE_PER_S, PEER_REQUESTS, seed + 1)
    figures = run_peer("queues.py", *arguments, limit_s=LIMIT_S)
    return {**figures, "events_per_s": EVENTS * figures["requests"] / figures["seconds"]}
