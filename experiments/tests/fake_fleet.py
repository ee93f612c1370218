"""A fleet whose agents and arbiters are objects in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.design.inventory import Endpoints, Inventory, Machine
from experiments.testbed.live_fleet import Fleet
from experiments.testbed.platforms.local.platform import LocalPlatform


def machine(name: str, tier: str, role: str, *, standby: bool = False) -> Machine:
    return Machine(
        name=name, tier=tier, role=role, place=None, standby=standby, address="198.18.0.2",
        agent_url="https://198.19.0.2:7443", instance_type=None, usd_per_hour=None,
    )  # fmt: skip


def fake_fleet(
    agents: Mapping[str, Any],
    arbiters: Mapping[str, Any] | None = None,
    machines: Sequence[Machine] = (),
) -> Fleet:
    endpoints = Endpoints(entries=(), influxdb="http://198.19.0.5", grafana=None)
    inventory = Inventory(
        experiment="tst", platform="local", scheme="on-prem", machines=tuple(machines),
        endpoints=endpoints,
    )  # fmt: skip
    return Fleet(
        LocalPlatform("tst"), inventory, endpoints.influxdb, dict(agents), dict(arbiters or {})
    )
