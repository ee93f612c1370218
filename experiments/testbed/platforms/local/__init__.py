"""Docker on this host, or on several."""

from __future__ import annotations

from pathlib import Path

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


class _Local:
    name = "local"
    summary = "Docker on this host, or on several"
    options = (
        Option(
            "docker_hosts",
            str,
            "A file of Docker hosts to spread the fleet over. [default: those it is on, else this]",
            ("up", "down"),
        ),
    )

    def for_run(self, experiment: str) -> Platform:
        """Made for the run, and removed; one that is up is taken where it is."""
        return _platform(experiment, None)

    def attached(self, inventory: Inventory, identity: Identity) -> Platform:
        """Attach to the engine that `docker` finds."""
        from experiments.testbed.platforms.local.attached import AttachedLocalFleet

        return AttachedLocalFleet(inventory, identity)

    def elsewhere(self, design: Design, given: Given, narrator: Narrator) -> None:
        """Do nothing: the run continues here."""

    def for_up(self, design: Design, given: Given, narrator: Narrator) -> CostEstimate:
        """At once: it costs nothing."""
        del narrator
        return CostEstimate(_platform(design.fleet.experiment, given["docker_hosts"]), _where)

    def for_down(self, experiment: str, given: Given) -> Platform:
        """Return the same fleet."""
        return _platform(experiment, given.get("docker_hosts"))  # watch has no such option

    def experiments(self) -> list[str]:
        """Return the fleets that Terraform has a state of, and those that carry our label."""
        from experiments.testbed.platforms.local import docker
        from experiments.testbed.platforms.local.platform import STACK
        from experiments.testbed.platforms.terraform import stated

        return sorted({*stated(STACK), *(found.experiment for found in docker.find())})

    def fleets(self, given: Given) -> list[FleetRow]:
        """Return the fleets that carry our label, here and on the hosts of fleets that were made
        from here.
        """
        from experiments.testbed.platforms.local import docker
        from experiments.testbed.platforms.local.engines import HERE, engines_of
        from experiments.testbed.platforms.local.platform import STACK
        from experiments.testbed.platforms.terraform import Stack, stated

        del given
        given_hosts = [Stack(STACK, name).variables for name in stated(STACK)]
        engines = {HERE, *(engine for one in given_hosts for engine in engines_of(one))}
        # The same engine by two addresses has the same containers.
        found = {
            (one.kind, one.name): one
            for engine in sorted(engines, key=lambda one: one.address)
            for one in docker.find(on=engine)
        }.values()
        machines = [one.experiment for one in found if one.is_machine]
        names = sorted({one.experiment for one in found})
        return [{"experiment": name, "machines": machines.count(name)} for name in names]


def _platform(experiment: str, file: str | None) -> Platform:
    from experiments.testbed.platforms.local.engines import read
    from experiments.testbed.platforms.local.platform import LocalPlatform

    return LocalPlatform(experiment, read(Path(file)) if file else None)


def _where(inventory: Inventory) -> list[str]:
    entries = [f"{one.tier}: {', '.join(one.urls)}" for one in inventory.endpoints.entries]
    return [f"Entry {'; '.join(entries)}   InfluxDB: {inventory.endpoints.influxdb}"]


PLATFORM: PlatformEntry = _Local()
