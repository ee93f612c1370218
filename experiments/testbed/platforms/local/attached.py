"""A fleet on this host's Docker engine that somebody else applied; it is not changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from core.config_file import check, read_tfvars
from core.errors import EnvironmentMissing
from experiments.design.fleet import Fleet, Tier
from experiments.design.inventory import Identity, Inventory, Machine
from experiments.testbed.platforms.local import docker
from experiments.testbed.platforms.local.platform import LocalPlatform
from experiments.testbed.platforms.terraform import Progress

_TOLERANCE = 0.01  # of the cap in CPUs: a quota is a whole number of microseconds
_SHOWN = 6


class AttachedLocalFleet(LocalPlatform):
    """A fleet that stays: none of its machines is made, changed or removed."""

    is_attached = True

    def __init__(self, inventory: Inventory, identity: Identity) -> None:
        super().__init__(inventory.experiment, {})
        self._inventory = inventory
        self._identity = identity

    def check(self) -> None:
        """Raises EnvironmentMissing if Docker does not answer, or a machine does not run."""
        docker.check()
        off = {
            machine.name: state
            for machine in self._inventory.started
            if (state := docker.state(self.container(machine.name))) != "running"
        }
        if off:
            raise self._difference_error(
                "running machines",
                _abbreviate(f"{name} {state}" for name, state in off.items()),
                "Apply it again where it was made: that starts what is down.",
            )

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        """Return the fleet as it is. Raises EnvironmentMissing if it is not the one of `tfvars`."""
        for note in self.journal.undo_ended(self.undo):
            progress(f"{note.machine}: {note.kind} of a run that was killed is undone")
        fleet = check(read_tfvars(tfvars), Fleet)
        if different := list(self._differences(fleet)):
            raise self._difference_error(
                f"the fleet of {tfvars}",
                _abbreviate(different),
                "Apply that file where the fleet was made, or give the design the fleet's own.",
            )
        progress(f"{len(self._inventory.machines)} machines, made elsewhere, stay as they are")
        return self._inventory

    def _differences(self, fleet: Fleet) -> Iterator[str]:
        """Yield the differences that would make this run's figures those of another fleet."""
        inventory = self._inventory
        if inventory.scheme != fleet.scheme:
            yield f"scheme {inventory.scheme}"
        machines = {machine.name: machine for machine in inventory.machines}
        names = {
            *fleet.machine_names,
            *(name for tier in fleet.tiers for name in _standby_names(fleet, tier)),
        }
        yield from (f"no machine {name}" for name in sorted(names - machines.keys()))
        yield from (f"a machine {name} too" for name in sorted(machines.keys() - names))
        for name in sorted(machines.keys() & names):
            if (tier := machines[name].tier) and machines[name] not in inventory.arbiters:
                yield from self._machine_differences(
                    machines[name], fleet.tiers[tier], _standby_names(fleet, tier)
                )

    def _machine_differences(
        self, machine: Machine, tier: Tier, spares: Collection[str]
    ) -> Iterator[str]:
        if machine.role != tier.role:
            yield f"{machine.name}: role {machine.role}, not {tier.role}"
        if machine.standby != (machine.name in spares):
            yield f"{machine.name}: {'a' if machine.standby else 'no'} standby"
        cpus, memory_mb = docker.limits(self.container(machine.name))
        if cpus is not None and abs(cpus - tier.cpus) > _TOLERANCE * tier.cpus:
            yield f"{machine.name}: {cpus:g} CPUs, not {tier.cpus:g}"
        if memory_mb is not None and memory_mb != tier.memory_mb:
            yield f"{machine.name}: {memory_mb:g} MB of memory, not {tier.memory_mb}"

    def inventory(self) -> Inventory:
        return self._inventory

    def identity(self) -> Identity:
        return self._identity

    def down(self, progress: Progress) -> list[str]:
        progress("the fleet stays as it was")
        return []

    def remaining(self) -> list[str]:
        """Return nothing, because this run made nothing."""
        return []

    def replace(self, machine: str, progress: Progress) -> None:
        """Raise EnvironmentMissing; `attach` refuses designs that replace machines."""
        del progress
        raise self._difference_error(
            "no machine to be made anew", machine, "Run it without --attach."
        )

    def _difference_error(self, expected: str, got: str, hint: str) -> EnvironmentMissing:
        return EnvironmentMissing(
            f"attached fleet {self.experiment}", expected=expected, got=got, hint=hint
        )


def _standby_names(fleet: Fleet, tier: str) -> set[str]:
    """Return the names of a tier's standbys, which come after its nodes."""
    spec = fleet.tiers[tier]
    return {f"{tier}-{index}" for index in range(spec.nodes + 1, spec.nodes + spec.standby + 1)}


def _abbreviate(texts: Iterable[str]) -> str:
    items = list(texts)
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more
