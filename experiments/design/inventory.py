"""The inventory, `terraform output -json fleet`: the machines of a fleet, and the keys to them."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

ARBITER_ADMIN_PORT = 9300


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Machine(_Frozen):
    """One machine of the fleet; for an arbiter, `tier` is the tier that it serves."""

    name: str
    tier: str | None
    role: str
    place: Literal["first", "others"] | None
    standby: bool
    address: str
    agent_url: str
    instance_type: str | None
    usd_per_hour: float | None

    @property
    def admin_url(self) -> str:
        """The arbiter's admin API: the same host as the agent's, on the control network."""
        return f"https://{urlsplit(self.agent_url).hostname}:{ARBITER_ADMIN_PORT}"


class Entry(_Frozen):
    """A tier that takes load: at its arbiter, or at each of its machines where it has none."""

    tier: str
    protocol: str
    urls: tuple[str, ...]


class Endpoints(_Frozen):
    """Addresses that a load generator, a runner and a person use."""

    entries: tuple[Entry, ...]
    influxdb: str
    grafana: str | None


class Inventory(_Frozen):
    """All machines of one experiment."""

    experiment: str
    platform: str
    scheme: str
    machines: tuple[Machine, ...]
    endpoints: Endpoints

    def machine(self, name: str) -> Machine:
        """Return the machine called `name`; KeyError if there is none."""
        return {machine.name: machine for machine in self.machines}[name]

    @property
    def arbiters(self) -> tuple[Machine, ...]:
        """The arbiters, at most one a tier."""
        return tuple(machine for machine in self.machines if machine.role == "arbiter")

    @property
    def started(self) -> tuple[Machine, ...]:
        """Every machine that should be running."""
        return tuple(machine for machine in self.machines if not machine.standby)

    @property
    def with_agent(self) -> tuple[Machine, ...]:
        """The started machines that run a node agent (Grafana's own image has none)."""
        return tuple(machine for machine in self.started if machine.role != "grafana")


class Identity(_Frozen):
    """The experiment's client certificate, whose holder may inject faults, and InfluxDB's user."""

    model_config = ConfigDict(hide_input_in_errors=True)

    ca_certificate_pem: str
    client_certificate_pem: str
    client_private_key_pem: str
    influxdb_login: str  # USER:PASSWORD

    def influxdb(self, inventory: Inventory) -> str:
        """Return the address of the fleet's InfluxDB for a client. It has the password, so it must
        not be shown.
        """
        return inventory.endpoints.influxdb.replace("//", f"//{self.influxdb_login}@", 1)
