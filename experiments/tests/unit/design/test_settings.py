"""Settings of an arm for a role reach the machines of its tier, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from experiments.design import Design, load_design
from experiments.design.experiment import Arm, TierSettings
from experiments.paths import ROOT
from experiments.testbed.fleet import revert_everything
from experiments.testbed.settings import configure, role_settings
from experiments.tests.fake_fleet import fake_fleet, machine

FOLDER = ROOT / "experiments" / "tests" / "designs" / "settings"


@pytest.fixture(scope="module")
def design() -> Design:
    return load_design(FOLDER)


def test_a_tier_that_any_arm_sets_is_set_by_every_arm(design: Design) -> None:
    settings = {arm: role_settings(design.experiment, arm) for arm in design.experiment.arms}
    assert settings == {
        "baseline": {"direct": {}, "store": {}},
        "lru": {
            "direct": {"MAXMEMORY_POLICY": "allkeys-random"},
            "store": {"MAXMEMORY_POLICY": "allkeys-lru"},
        },
        "lfu": {"direct": {}, "store": {"MAXMEMORY_POLICY": "allkeys-lfu"}},
    }


class _Node:
    """An agent and an arbiter in memory: what its role was told, and how often it was restarted."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.restarts = 0
        self.policy: tuple[str, int | None, int | None] | None = None
        self.replicas = 0
        self.compare = "off"

    def set_settings(self, settings: Mapping[str, Any], lease_s: float) -> tuple[bool, str | None]:
        assert lease_s > 0.0
        changed = self.settings != settings
        self.settings = dict(settings)
        self.restarts += changed
        return changed, "f1" if settings else None

    def revert_all(self) -> list[str]:
        self.restarts += self.settings != {}
        self.settings = {}
        return []

    def health(self) -> dict[str, Any]:
        return {"ready": True, "service": "running"}

    def is_in(self, server: str) -> bool:
        return server.startswith("store")

    def set_policy(self, policy: str, tokens: int | None, look_ahead: int | None) -> None:
        self.policy = (policy, tokens, look_ahead)

    def set_replicas(self, replicas: int) -> None:
        assert replicas > 1 or self.compare == "off", "an arbiter refuses that"
        self.replicas = replicas

    def set_compare(self, mode: str) -> None:
        assert mode == "off" or self.replicas > 1, "an arbiter refuses that"
        self.compare = mode


def test_an_arm_reaches_the_tiers_that_some_arm_sets_and_their_arbiters(design: Design) -> None:
    machines = [machine(f"{tier}-1", tier, "redis") for tier in design.fleet.tiers]
    machines += [machine("arbiter-store", "store", "arbiter")]
    machines += [machine("store-2", "store", "redis", standby=True)]
    nodes = {entry.name: _Node() for entry in machines if not entry.standby}
    fleet = fake_fleet(nodes, {"store": nodes["arbiter-store"]}, machines)
    configure(design, "lru", fleet)
    assert nodes["store-1"].settings == {"MAXMEMORY_POLICY": "allkeys-lru"}
    assert nodes["direct-1"].settings == {"MAXMEMORY_POLICY": "allkeys-random"}
    arbiter = nodes["arbiter-store"]
    assert (arbiter.policy, arbiter.replicas) == (("random", 2, None), 1)
    configure(design, "lfu", fleet)
    configure(design, "lfu", fleet)
    assert nodes["direct-1"].settings == {}
    assert revert_everything(fleet) == []
    assert {name: (node.settings, node.restarts) for name, node in nodes.items()} == {
        "store-1": ({}, 3), "direct-1": ({}, 2), "other-1": ({}, 0), "arbiter-store": ({}, 0),
    }  # fmt: skip


def _configure(design: Design, arms: Mapping[str, Arm], arm: str, arbiter: _Node) -> None:
    experiment = design.experiment.model_copy(update={"arms": arms})
    configure(replace(design, experiment=experiment), arm, fake_fleet({}, {"store": arbiter}))


def test_the_look_ahead_of_an_arm_reaches_its_arbiter_and_ends_with_the_next(
    design: Design,
) -> None:
    few = Arm(settings={"store": TierSettings(policy="tad", tokens=3, look_ahead=0)})
    arms = {"few": few, "all": Arm(settings={"store": TierSettings(policy="tad", tokens=3)})}
    arbiter = _Node()
    for arm, look_ahead in [("few", 0), ("all", None)]:
        _configure(design, arms, arm, arbiter)
        assert arbiter.policy == ("tad", 3, look_ahead)


def test_replies_are_compared_as_the_arm_says_in_an_order_that_an_arbiter_takes(
    design: Design,
) -> None:
    settings = TierSettings(replicas=2, compare="refuse")
    arms = {"compared": Arm(settings={"store": settings}), "plain": Arm()}
    arbiter = _Node()
    for arm, expected in [("compared", (2, "refuse")), ("plain", (1, "off"))] * 2:
        _configure(design, arms, arm, arbiter)
        assert (arbiter.replicas, arbiter.compare) == expected
