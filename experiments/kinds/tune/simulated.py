"""The start of the search: the optimum of a simulation with the measurements at r = 1.

The model is coarse on purpose, because it only gives a start and the fleet decides. The work of a
page at the front is the estimate of sPARE 5.1.1, less the time in which the page waited for its
queries. All work is exponential. The work of copies is independent, because windows at r = 1 do
not show their correlation. Neighbours arrive as the design draws them, and leave a server the rest
of its cores.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.design.experiment import Interference
from experiments.kinds.tune.loads import TierWindow
from experiments.kinds.tune.section import Target
from optimizer.replication import Replicas, TierLoad
from optimizer.simulation import program
from optimizer.simulation.forms import Report, Scenario, TierScenario

_REQUESTS = 20_000  # of each simulation: some seconds for a dozen of them
_IPERF_SPEED = 0.5  # a stream's interrupts cost about as much as the service (sPARE section 2)
_WORK_LEAST = 0.1  # of a front tier's processing time: waiting cannot be all of it


def simulated_optimum(
    loads: Sequence[TierLoad],
    windows: Sequence[TierWindow],
    interference: Interference,
    policy: str,
    feasible: Sequence[Replicas],
    target: Target,
    seed: int,
) -> Replicas:
    """Return the feasible r with the least simulated target; among equals, the one with the fewest
    copies.

    Parameters: loads and windows, both measured at r = 1, tiers from the front; feasible not empty.
    Raises: EnvironmentMissing without the simulator.
    """
    work_s = _work_s(loads, windows)
    scenarios = [
        _scenario(loads, work_s, interference, policy, replicas, seed) for replicas in feasible
    ]
    reports = zip(feasible, program.reports(scenarios), strict=True)
    stable = {r: _value_s(report, target) for r, report in reports if report["stopped"] == "done"}
    return min(stable, key=lambda r: (stable[r], sum(r))) if stable else feasible[0]


def _work_s(loads: Sequence[TierLoad], windows: Sequence[TierWindow]) -> list[float]:
    """Return the core seconds of one copy in each tier, without its wait for the tier below."""
    work_s = []
    for index, load in enumerate(loads):
        waiting_s = 0.0
        if index + 1 < len(loads):
            calls = loads[index + 1].request_per_s / load.request_per_s
            share = min(1.0, load.cores)  # the estimator's share for a request that is alone
            waiting_s = share * calls * windows[index + 1].mean_us() / 1e6
        work_s.append(max(load.processing_s - waiting_s, _WORK_LEAST * load.processing_s))
    return work_s


def _scenario(
    loads: Sequence[TierLoad],
    work_s: Sequence[float],
    interference: Interference,
    policy: str,
    replicas: Replicas,
    seed: int,
) -> Scenario:
    """Return the simulator's scenario for one r; all have the same seed."""
    tiers: list[TierScenario] = []
    for index, (load, r) in enumerate(zip(loads, replicas, strict=True)):
        tier: TierScenario = {
            "name": load.name,
            "servers": load.servers,
            "cores": load.cores,
            "work": {"kind": "exponential", "mean_s": work_s[index]},
            "policy": policy,
            "replicas": r,
            "tokens": load.tokens_per_server or 1,
            "hold": "connection" if index else "request",
        }
        if index + 1 < len(loads):
            calls = loads[index + 1].request_per_s / load.request_per_s
            tier["calls"] = {"kind": "geometric", "mean": max(1.0, calls)}
        if _is_disturbed(interference.pattern, index, len(loads)):
            tier["interference"] = {
                "gap_s": interference.mean_gap_s + interference.mean_run_s,
                "run_s": interference.mean_run_s,
                "speed": _speed(interference),
            }
        tiers.append(tier)
    rate_per_s = loads[0].request_per_s
    arrivals = {"kind": "poisson", "rate_per_s": rate_per_s}
    return {"name": str(replicas), "seed": seed, "arrivals": arrivals, "requests": _REQUESTS,
            "in_flight_max": 20_000, "tiers": tiers}  # fmt: skip


def _is_disturbed(pattern: str, index: int, tiers: int) -> bool:
    front, back = index == 0, index == tiers - 1
    return {"none": False, "front": front, "back": back, "both": front or back}[pattern]


def _speed(interference: Interference) -> float:
    """Return the share of speed that a neighbour leaves, the mean over the design's kinds."""
    speeds = {"cpu": 1.0 / (1.0 + interference.cpu_workers), "iperf": _IPERF_SPEED}
    return sum(speeds[kind] for kind in interference.kinds) / len(interference.kinds)


def _value_s(report: Report, target: Target) -> float:
    latency = report["latency"]
    if target == "mean":
        return latency["mean_s"]
    return program.percentile_s(latency, {"p95": 95.0, "p99": 99.0}[target])
