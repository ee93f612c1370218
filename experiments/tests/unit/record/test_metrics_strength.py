"""Time at full strength from a run's events, and the model beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.runfiles.events import Window, windows
from core.units import YEAR_S
from experiments.kinds.schemes.strength import cycles_of, strength
from experiments.tests.strength_fixture import Events, cloud_events, fleet_of
from optimizer.availability import FailureRates, availability

BLOCK_S = 1000.0


def _window(what: str, machine: str, start_s: float, end_s: float, kind: str = "web") -> Window:
    return Window(what, kind, machine, "tad", 0, start_s, end_s, closed=True, text="")


def test_cycles_begin_where_the_tier_is_whole_again() -> None:
    block = _window("phase", "", 0.0, 100.0, "measure")
    served = [_window("member", "web-1", 0.0, 20.0), _window("member", "web-2", 0.0, 100.0),
              _window("member", "web-3", 25.0, 100.0),
              _window("member", "web-1", 60.0, 61.0)]  # fmt: skip
    broken = [_window("fault", "web-1", 20.0, 40.0, "machine.crash")]
    cycles = cycles_of(block, served, broken, needed=2, nodes=2)
    # From 25 s on two serve, but until 40 s the broken one is not in the pool.
    assert [(cycle.length_s, cycle.below_s) for cycle in cycles] == [(40.0, 5.0), (60.0, 0.0)]
    one_enough = cycles_of(block, served, broken, needed=1, nodes=2)
    assert sum(cycle.below_s for cycle in one_enough) == 0.0


def test_a_tier_that_behaves_as_the_model_is_measured_as_the_model_says() -> None:
    length_s, crash_s, recovery_s = 20_000.0, 60.0, 10.0
    events = cloud_events(3, crash_s, recovery_s, length_s)
    manifest = {"spec": {"failover": {"heartbeat_s": 1.0, "needed": {"web": 2}}}}
    report: Any = strength(events.lines, windows(events.lines, length_s), manifest,
                     fleet_of("cloud", 2, 0), np.random.default_rng(1))  # fmt: skip
    assert report is not None
    web = report["tiers"]["web"]
    rates = FailureRates(crash_per_year=YEAR_S / crash_s, failover_s=recovery_s)
    truth = availability(2, 0, rates, mechanism="ara", scheme="cloud", horizon_s=length_s)
    assert web["measured"]["ci_low"] < truth.availability < web["measured"]["ci_high"]
    assert web["predicted"]["ci_low"] < truth.availability < web["predicted"]["ci_high"]
    assert web["predicted"]["share"] == pytest.approx(web["measured"]["share"], abs=0.03)
    assert web["crash_mean_s"] == pytest.approx(crash_s, rel=0.15)
    assert not web["measured"]["insufficient"]


def test_without_enough_fail_overs_there_is_no_prediction_and_it_says_why() -> None:
    events = Events()
    events.add(0.0, "phase", "measure", "start")
    events.add(0.0, "member", "web", "start", machine="web-1")
    events.add(BLOCK_S, "phase", "measure", "end")
    manifest = {"spec": {"failover": {"heartbeat_s": 1.0}}}
    lines = events.lines
    report: Any = strength(
        lines, windows(lines, BLOCK_S), manifest, fleet_of("cloud", 1, 0), np.random.default_rng(1)
    )
    assert report is not None
    assert report["tiers"]["web"]["predicted"] == {"share": None, "reason": "the run saw no crash"}
    assert report["tiers"]["web"]["measured"]["share"] == 1.0
    assert report["tiers"]["web"]["measured"]["insufficient"]
