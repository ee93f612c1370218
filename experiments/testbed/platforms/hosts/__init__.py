"""Existing machines, by ssh."""

from __future__ import annotations

from pathlib import Path

from core.errors import InputError
from experiments.console import Narrator
from experiments.design import Design
from experiments.design.inventory import Identity, Inventory
from experiments.testbed.platforms.base import (
    CostEstimate,
    FleetRow,
    Given,
    Option,
    Platform,
    PlatformEntry,
)


class _Hosts:
    name = "hosts"
    summary = "machines that are there, by ssh"
    options = (
        Option(
            "hosts",
            str,
            "The file of hosts. [default: that of the last up, else hosts.toml]",
            ("up", "down"),
        ),
    )

    def for_run(self, experiment: str) -> Platform:
        """Return the hosts of the last `up`, or of hosts.toml."""
        return _platform(experiment, None)

    def attached(self, inventory: Inventory, identity: Identity) -> Platform:
        """Refused: its machines are powered from where they were made."""
        del identity
        raise InputError(
            "--attach",
            expected="a fleet on this host",
            got=f"{inventory.experiment}, which is on hosts",
            hint="`sparecraft run DESIGN --platform hosts` measures the fleet that `up` made.",
        )

    def elsewhere(self, design: Design, given: Given, narrator: Narrator) -> None:
        """Do nothing: the run continues here."""

    def for_up(self, design: Design, given: Given, narrator: Narrator) -> CostEstimate:
        """At once: the hosts are there."""
        del narrator
        return CostEstimate(_platform(design.fleet.experiment, given["hosts"]), _where)

    def for_down(self, experiment: str, given: Given) -> Platform:
        """Return the same fleet."""
        return _platform(experiment, given.get("hosts"))  # watch has no such option

    def experiments(self) -> list[str]:
        """Return the fleets that were made from here."""
        from experiments.testbed.platforms.hosts.platform import STACK
        from experiments.testbed.platforms.terraform import stated

        return stated(STACK)

    def fleets(self, given: Given) -> list[FleetRow]:
        """Return the fleets that were made from here."""
        del given
        rows: list[FleetRow] = []
        for name in self.experiments():
            machines = _platform(name, None).inventory().machines
            rows.append({"experiment": name, "machines": len(machines)})
        return rows


def _platform(experiment: str, file: str | None) -> Platform:
    from experiments.testbed.platforms.hosts.platform import HostsPlatform

    return HostsPlatform(experiment, Path(file) if file else None)


def _where(inventory: Inventory) -> list[str]:
    entries = [f"{one.tier}: {', '.join(one.urls)}" for one in inventory.endpoints.entries]
    return [f"Entry {'; '.join(entries)}   InfluxDB: {inventory.endpoints.influxdb}"]


PLATFORM: PlatformEntry = _Hosts()
