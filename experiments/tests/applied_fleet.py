"""Outputs of a fleet that somebody applied, of the design in `spec_fixture`."""

from __future__ import annotations

from typing import Any

IDENTITY = {
    "ca_certificate_pem": "ca", "client_certificate_pem": "one", "client_private_key_pem": "key",
    "influxdb_login": "sparecraft:secret",
}  # fmt: skip


def machine(name: str, role: str, tier: str | None, standby: bool = False) -> dict[str, Any]:
    return {
        "name": name, "tier": tier, "role": role, "place": None, "standby": standby,
        "address": "198.18.0.9", "agent_url": "https://198.19.0.9:7443", "instance_type": None,
        "usd_per_hour": None,
    }  # fmt: skip


def fleet(**changed: Any) -> dict[str, Any]:
    """The inventory of `spec_fixture`'s fleet."""
    web = [machine(f"web-{i}", "mediawiki", "web", i == 5) for i in range(1, 6)]
    db = [machine(f"db-{i}", "mariadb", "db") for i in range(1, 4)]
    arbiters = [machine(f"arbiter-{tier}", "arbiter", tier) for tier in ("web", "db")]
    machines = [*web, *db, *arbiters, machine("influxdb-1", "influxdb", None)]
    ends: dict[str, Any] = {"entries": [], "influxdb": "http://198.19.0.5:8086", "grafana": None}
    head = {"experiment": "mediawiki-noisy", "platform": "local", "scheme": "on-prem"}
    return {**head, "machines": machines, "endpoints": ends, **changed}


def outputs(**changed: Any) -> dict[str, Any]:
    """As `terraform output -json` prints them."""
    values = {"fleet": fleet(**changed), "identity": IDENTITY, "published": {}}
    return {
        name: {"sensitive": False, "type": "any", "value": value} for name, value in values.items()
    }
