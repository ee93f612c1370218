"""Settings of an arm for a role reach the real servers of its tier, and no other tier."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from experiments.design import Design, load_design
from experiments.paths import ROOT
from experiments.testbed import held_settings
from experiments.testbed.fleet import await_ready, revert_everything
from experiments.testbed.held_settings import HeldSettings
from experiments.testbed.live_fleet import Fleet, serving
from experiments.testbed.schemes import MachineOperations
from experiments.testbed.settings import configure, role_settings
from experiments.tests.engine import docker
from experiments.tests.fleets import live
from experiments.tests.started import until

FOLDER = ROOT / "experiments" / "tests" / "designs" / "settings"
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
EXPERIMENT = "tst-settings"


@pytest.fixture(scope="module")
def design() -> Design:
    return load_design(FOLDER)


@pytest.fixture(scope="module")
def fleet(design: Design) -> Iterator[Fleet]:
    with live(EXPERIMENT, FOLDER / "fleet.tfvars", design.roles) as live_fleet:
        yield live_fleet


def _redis(machine: str, *command: str) -> list[str]:
    return docker("exec", f"sc-{EXPERIMENT}-{machine}", "redis-cli", *command).split()


def _policies(*machines: str) -> list[str]:
    return [_redis(name, "config", "get", "maxmemory-policy")[1] for name in machines]


def _process(machine: str) -> str:
    (line,) = [row for row in _redis(machine, "info", "server") if row.startswith("process_id")]
    return line


MACHINES = ("store-1", "direct-1", "other-1")


def test_servers_have_the_settings_of_the_arm_and_other_tiers_are_left_alone(
    design: Design, fleet: Fleet
) -> None:
    assert _policies(*MACHINES) == ["noeviction"] * 3
    other_process = _process("other-1")
    configure(design, "lru", fleet)
    assert _policies(*MACHINES) == ["allkeys-lru", "allkeys-random", "noeviction"]
    store = _process("store-1")
    configure(design, "lru", fleet)
    assert _process("store-1") == store, "what is so already is left"
    configure(design, "lfu", fleet)
    assert _policies(*MACHINES) == ["allkeys-lfu", "noeviction", "noeviction"]
    configure(design, "baseline", fleet)
    assert _policies(*MACHINES) == ["noeviction"] * 3
    configure(design, "lru", fleet)
    assert revert_everything(fleet) == []
    await_ready(fleet, design.roles, fleet.agents)
    assert _policies(*MACHINES) == ["noeviction"] * 3
    assert _process("other-1") == other_process


def test_settings_of_a_run_that_is_killed_are_taken_back_by_the_agents(
    design: Design, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_settings, "LEASE_S", 3.0)
    killed = replace(fleet, settings=HeldSettings())
    configure(design, "lru", killed)
    killed.settings.close()  # the settings are renewed no more, as after a kill
    store = fleet.agents["store-1"]
    until("end of the lease", lambda: store.faults()[-1]["state"] == "reverted")
    assert store.faults()[-1]["revert_reason"] == "lease"
    await_ready(fleet, design.roles, fleet.agents)
    assert _policies("store-1") == ["noeviction"]


@pytest.mark.parametrize("tier", ["store", "direct"])
def test_a_standby_that_is_powered_on_has_the_settings_of_the_arm(
    design: Design, fleet: Fleet, tier: str
) -> None:
    """In a tier with an arbiter, and in one without."""
    settings_of_tier: dict[str, Any] = role_settings(design.experiment, "lru")
    standby = f"{tier}-2"
    tiers = {machine.name: str(machine.tier) for machine in serving(fleet.inventory, [tier])}
    settings = dict.fromkeys(tiers, settings_of_tier[tier])
    agents = {**fleet.agents, **fleet.standbys}
    operations = MachineOperations(
        fleet.platform, agents, fleet.arbiters, tiers, settings, HeldSettings()
    )
    still = threading.Event()
    operations.power_on(standby, as_new=False)
    operations.wait_ready(standby, 60.0, still)
    operations.let_in(standby, still)
    assert _policies(standby) == [settings_of_tier[tier]["MAXMEMORY_POLICY"]]
    operations.take_out(standby)
    operations.forget_settings(standby)
    fleet.platform.stop(standby)
    fleet.platform.start(standby)
    replace(operations, settings={}).wait_ready(standby, 60.0, still)
    assert _policies(standby) == ["noeviction"], "another arm may set nothing"
    fleet.platform.stop(standby)
