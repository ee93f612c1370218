"""Events of machines that fail as the model says they do."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.design.fleet import Fleet


def fleet_of(scheme: str, nodes: int, standby: int) -> Fleet:
    """One tier of small web servers."""
    tier = {
        "role": "apache", "nodes": nodes, "standby": standby, "cpus": 0.2, "memory_mb": 128,
        "nic_mbps": 100.0, "disk_mbps": 80.0, "instance_type": "t3.small",
    }  # fmt: skip
    arbiter = {"tokens": 4}
    return Fleet.model_validate(
        {"experiment": "x", "scheme": scheme, "tiers": {"web": tier}, "arbiters": {"web": arbiter}}
    )


class Events:
    """The events of a cloud tier that a simulation of the model itself makes."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def add(self, time_s: float, what: str, kind: str, action: str, **more: Any) -> None:
        line = {"time_s": time_s, "what": what, "kind": kind, "action": action, "machine": ""}
        self.lines.append({**line, "arm": "tad", "repeat": 0, "id": "", "parameters": {}, **more})


def cloud_events(seed: int, crash_s: float, recovery_s: float, length_s: float) -> Events:
    """Two nodes, exponential crashes, fail-overs one after another: PCRAFT Fig. 1, cloud."""
    rng, events = np.random.default_rng(seed), Events()
    events.add(0.0, "phase", "measure", "start")
    due = {f"web-{i}": rng.exponential(crash_s) for i in (1, 2)}
    for name in due:
        events.add(0.0, "member", "web", "start", machine=name)
    free_s = 0.0
    while (at_s := min(due.values())) < length_s:
        name = min(due, key=lambda node: due[node])
        takes_s = rng.exponential(recovery_s)
        back_s = max(at_s, free_s) + takes_s
        events.add(at_s, "fault", "machine.crash", "inject", machine=name)
        events.add(at_s, "member", "web", "end", machine=name)
        events.add(back_s, "fault", "machine.crash", "revert", machine=name)
        events.add(back_s, "member", "web", "start", machine=name)
        parts = {"replacement": name, "total_s": back_s - at_s, "recovery_s": takes_s}
        events.add(back_s, "failover", "cloud", "end", machine=name, parameters=parts)
        free_s, due[name] = back_s, back_s + rng.exponential(crash_s)
    events.add(length_s, "phase", "measure", "end")
    return events
