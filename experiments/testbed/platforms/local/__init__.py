"""Docker on this host, or on several."""

from __future__ import annotations

from pathlib import Path

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
        """Return a fleet that is made for the run and removed; one that is up is used as it is."""
        return _platform(experiment, None)

    def attach_to(self, inventory: Inventory, identity: Identity) -> Platform:
        """Attach to the engine that `docker` finds."""
        from experiments.testbed.platforms.local.attached import AttachedLocalFleet

        return AttachedLocalFleet(inventory, identity)

    def elsewhere(self, design: Design, options: OptionValues, narrator: Narrator) -> None:
        """Do nothing: the run continues here."""

    def for_up(self, design: Design, options: OptionValues, narrator: Narrator) -> CostEstimate:
        """Return the fleet at once, because it costs nothing."""
        del narrator
        return CostEstimate(
            _platform(design.fleet.experiment, options["docker_hosts"]), entry_lines
        )

    def for_down(self, experiment: str, options: OptionValues) -> Platform:
        return _platform(experiment, options.get("docker_hosts"))  # watch has no such option

    def experiments(self) -> list[str]:
        """Return the fleets that Terraform has a state of, and those that carry our label."""
        from experiments.testbed.platforms.local import docker
        from experiments.testbed.platforms.local.platform import STACK
        from experiments.testbed.platforms.terraform import list_experiments

        return sorted({*list_experiments(STACK), *(owned.experiment for owned in docker.find())})

    def fleets(self, options: OptionValues) -> list[FleetRow]:
        """Return the fleets that carry our label, here and on the hosts of fleets that were made
        from here.
        """
        from experiments.testbed.platforms.local import docker
        from experiments.testbed.platforms.local.engines import HERE, engines_of
        from experiments.testbed.platforms.local.platform import STACK
        from experiments.testbed.platforms.terraform import Stack, list_experiments

        del options
        host_variables = [Stack(STACK, name).variables for name in list_experiments(STACK)]
        engines = {HERE, *(engine for hosts in host_variables for engine in engines_of(hosts))}
        # The same engine by two addresses has the same containers.
        owned = {
            (item.kind, item.name): item
            for engine in sorted(engines, key=lambda item: item.address)
            for item in docker.find(on=engine)
        }.values()
        machines = [item.experiment for item in owned if item.is_machine]
        names = sorted({item.experiment for item in owned})
        return [{"experiment": name, "machines": machines.count(name)} for name in names]


def _platform(experiment: str, file: str | None) -> Platform:
    from experiments.testbed.platforms.local.engines import read
    from experiments.testbed.platforms.local.platform import LocalPlatform

    return LocalPlatform(experiment, read(Path(file)) if file else None)


PLATFORM: PlatformEntry = _Local()
