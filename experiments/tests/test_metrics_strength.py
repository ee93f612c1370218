"""Time at full strength from a run's events, and the model beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.metrics.strength import cycles_of, schemes
from experiments.metrics.windows import Window, windows
from experiments.spec import Fleet
from optimizer.availability import YEAR_S, FailureRates, availability

BLOCK_S = 1000.0


def _window(what: str, machine: str, start_s: float, end_s: float, kind: str = "web") -> Window:
    return Window(what, kind, machine, "tad", 0, start_s, end_s, closed=True, text="")


def test_cycles_begin_where_the_tier_is_whole_again() -> None:
    block = _window("phase", "", 0.0, 100.0, "measure")
    served = [
        _window("member", "web-1", 0.0, 20.0),
        _window("member", "web-2", 0.0, 100.0),
        _window("member", "web-3", 25.0, 100.0),
        _window("member", "web-1", 60.0, 61.0),
    ]
    broken = [_window("fault", "web-1", 20.0, 40.0, "machine.crash")]
    found = cycles_of(block, served, broken, needed=2, nodes=2)
    # From 25 s on two serve, but until 40 s the broken one is not in the pool.
    assert [(cycle.length_s, cycle.below_s) for cycle in found] == [(40.0, 5.0), (60.0, 0.0)]
    one_enough = cycles_of(block, served, broken, needed=1, nodes=2)
    assert sum(cycle.below_s for cycle in one_enough) == 0.0


def _fleet(scheme: str, nodes: int, standby: int) -> Fleet:
    tier = {
        "role": "apache", "nodes": nodes, "standby": standby, "cpus": 0.2, "memory_mb": 128,
        "nic_mbps": 100.0, "disk_mbps": 80.0, "instance_type": "t3.small",
    }  # fmt: skip
    arbiter = {"policy": "tad", "replicas": 1, "tokens": 4}
    return Fleet.model_validate(
        {"experiment": "x", "scheme": scheme, "tiers": {"web": tier}, "arbiters": {"web": arbiter}}
    )


class _Events:
    """The events of a cloud tier that a simulation of the model itself makes."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def add(self, time_s: float, what: str, kind: str, action: str, **more: Any) -> None:
        line = {"time_s": time_s, "what": what, "kind": kind, "action": action, "machine": ""}
        self.lines.append({**line, "arm": "tad", "repeat": 0, "id": "", "parameters": {}, **more})


def _cloud(seed: int, crash_s: float, recovery_s: float, length_s: float) -> _Events:
    """Two nodes, exponential crashes, fail-overs one after another: PCRAFT Fig. 1, cloud."""
    rng, events = np.random.default_rng(seed), _Events()
    events.add(0.0, "phase", "measure", "start")
    due = {f"web-{i}": rng.exponential(crash_s) for i in (1, 2)}
    for name in due:
        events.add(0.0, "member", "web", "start", machine=name)
    free_s = 0.0
    while (at_s := min(due.values())) < length_s:
        name = min(due, key=lambda one: due[one])
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


def test_a_tier_that_behaves_as_the_model_is_measured_as_the_model_says() -> None:
    length_s, crash_s, recovery_s = 20_000.0, 60.0, 10.0
    events = _cloud(3, crash_s, recovery_s, length_s)
    manifest = {"spec": {"failover": {"heartbeat_s": 1.0, "needed": {"web": 2}}}}
    found = schemes(
        events.lines,
        windows(events.lines, length_s),
        manifest,
        _fleet("cloud", 2, 0),
        np.random.default_rng(1),
    )
    assert found is not None
    web = found["tiers"]["web"]
    rates = FailureRates(crash_per_year=YEAR_S / crash_s, failover_s=recovery_s)
    truth = availability(2, 0, rates, mechanism="ara", scheme="cloud", horizon_s=length_s)
    assert web["measured"]["ci_low"] < truth.availability < web["measured"]["ci_high"]
    assert web["predicted"]["ci_low"] < truth.availability < web["predicted"]["ci_high"]
    assert web["predicted"]["share"] == pytest.approx(web["measured"]["share"], abs=0.03)
    assert web["crash_mean_s"] == pytest.approx(crash_s, rel=0.15)
    assert not web["measured"]["insufficient"]


def test_without_enough_fail_overs_there_is_no_prediction_and_it_says_why() -> None:
    events = _Events()
    events.add(0.0, "phase", "measure", "start")
    events.add(0.0, "member", "web", "start", machine="web-1")
    events.add(BLOCK_S, "phase", "measure", "end")
    manifest = {"spec": {"failover": {"heartbeat_s": 1.0}}}
    lines = events.lines
    found = schemes(
        lines, windows(lines, BLOCK_S), manifest, _fleet("cloud", 1, 0), np.random.default_rng(1)
    )
    assert found is not None
    assert found["tiers"]["web"]["predicted"] == {"share": None, "reason": "the run saw no crash"}
    assert found["tiers"]["web"]["measured"]["share"] == 1.0
    assert found["tiers"]["web"]["measured"]["insufficient"]


def test_a_run_without_failover_has_no_schemes() -> None:
    rng = np.random.default_rng(1)
    assert schemes([], [], {"spec": {}}, _fleet("cloud", 1, 0), rng) is None
