"""Docker on this host."""

from __future__ import annotations

from typing import Any

from experiments.console import Narrator
from experiments.design import Design
from experiments.design.inventory import Inventory
from experiments.stage.platforms.base import Given, Offer, Option, Platform, PlatformEntry


class _Local:
    name = "local"
    summary = "Docker on this host"
    options: tuple[Option, ...] = ()

    def for_run(self, experiment: str) -> Platform:
        """Made for the run, and removed."""
        from experiments.stage.platforms.local.platform import LocalPlatform

        return LocalPlatform(experiment)

    def for_up(self, design: Design, given: Given, narrator: Narrator) -> Offer:
        """At once: it costs nothing."""
        del given, narrator
        return Offer(self.for_run(design.fleet.experiment), _where)

    def for_down(self, experiment: str, given: Given) -> Platform:
        """The same fleet."""
        del given
        return self.for_run(experiment)

    def made(self) -> list[str]:
        """What Terraform has a state of, and what carries our label."""
        from experiments.stage.platforms.local import docker
        from experiments.stage.platforms.local.platform import STACK
        from experiments.stage.platforms.terraform import stated

        return sorted({*stated(STACK), *(found.experiment for found in docker.find())})

    def fleets(self, given: Given) -> list[dict[str, Any]]:
        """What carries our label."""
        from experiments.stage.platforms.local import docker

        del given
        found = docker.find()
        machines = [one.experiment for one in found if one.kind == "container"]
        names = sorted({one.experiment for one in found})
        return [{"experiment": name, "machines": machines.count(name)} for name in names]


def _where(inventory: Inventory) -> list[str]:
    entries = [f"{one.tier}: {', '.join(one.urls)}" for one in inventory.endpoints.entries]
    return [f"Entry {'; '.join(entries)}   InfluxDB: {inventory.endpoints.influxdb}"]


PLATFORM: PlatformEntry = _Local()
