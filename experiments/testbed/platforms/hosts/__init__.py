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
    Option,
    OptionValues,
    Platform,
    PlatformEntry,
    entry_lines,
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

    def attach_to(self, inventory: Inventory, identity: Identity) -> Platform:
        """Raise InputError: its machines are powered from where they were made."""
        del identity
        raise InputError(
            "--attach",
            expected="a fleet on this host",
            got=f"{inventory.experiment}, which is on hosts",
            hint="`sparecraft run DESIGN --platform hosts` measures the fleet that `up` made.",
        )

    def elsewhere(self, design: Design, options: OptionValues, narrator: Narrator) -> None:
        """Do nothing: the run continues here."""

    def for_up(self, design: Design, options: OptionValues, narrator: Narrator) -> CostEstimate:
        """Return the fleet at once, because the hosts exist."""
        del narrator
        return CostEstimate(_platform(design.fleet.experiment, options["hosts"]), entry_lines)

    def for_down(self, experiment: str, options: OptionValues) -> Platform:
        return _platform(experiment, options.get("hosts"))  # watch has no such option

    def experiments(self) -> list[str]:
        from experiments.testbed.platforms.hosts.platform import STACK
        from experiments.testbed.platforms.terraform import list_experiments

        return list_experiments(STACK)

    def fleets(self, options: OptionValues) -> list[FleetRow]:
        """Return the fleets that were made from here."""
        del options
        rows: list[FleetRow] = []
        for name in self.experiments():
            machines = _platform(name, None).inventory().machines
            rows.append({"experiment": name, "machines": len(machines)})
        return rows


def _platform(experiment: str, file: str | None) -> Platform:
    from experiments.testbed.platforms.hosts.platform import HostsPlatform

    return HostsPlatform(experiment, Path(file) if file else None)


PLATFORM: PlatformEntry = _Hosts()
