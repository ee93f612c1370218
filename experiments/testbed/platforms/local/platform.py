"""The local platform: the stack `infra/stacks/local` and the Docker engines under it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from core.config_file import check, read_tfvars
from core.errors import EnvironmentMissing
from core.json_object import JsonObject
from experiments.design.fleet import Fleet
from experiments.design.inventory import Identity, Inventory
from experiments.design.roles import find_roles
from experiments.paths import ROOT
from experiments.testbed import runs
from experiments.testbed.platforms import terraform
from experiments.testbed.platforms.journal import MachineJournal, Note
from experiments.testbed.platforms.local import docker, jars, variants
from experiments.testbed.platforms.local.addresses import (
    choose_addresses,
    networks_of,
    ports_line,
    ports_of,
)
from experiments.testbed.platforms.local.engines import Engine, engines_of
from experiments.testbed.platforms.terraform import Progress, Stack

STACK = ROOT / "infra" / "stacks" / "local"
_POWER_LOSS = ("kill", "--signal=KILL")
_INJECTED = {
    "machine.crash": _POWER_LOSS,
    "machine.reboot": ("restart", "--time=0"),  # the reset button: SIGKILL, then power on
    "machine.freeze": ("pause",),
}


class LocalPlatform:
    """One experiment's fleet on this host, or on the Docker hosts of which this is the first."""

    name = "local"
    through_agent: Mapping[str, str] = {}
    ready_timeout_s = 120.0
    reachable = True
    is_attached = False

    def __init__(self, experiment: str, hosts: Mapping[str, Any] | None = None) -> None:
        """`hosts`: the variables that say where; None: where it is, else this host's engine."""
        self.experiment = experiment
        self.stack = Stack(STACK, experiment)
        self.journal = MachineJournal(self.name, experiment, runs.FOLDER / "machines" / experiment)
        self._hosts = hosts
        self._engine_of: dict[str, Engine] = {}

    @property
    def hosts(self) -> JsonObject:
        """The stack's variables that say where it is; none on this host's engine."""
        if self._hosts is not None:
            return dict(self._hosts)
        kept = self.stack.variables
        return {name: kept[name] for name in ("hosts", "underlay_mtu") if name in kept}

    @cached_property
    def engines(self) -> tuple[Engine, ...]:
        """All of them, the first first."""
        return engines_of(self.hosts)

    @property
    def on_this_host(self) -> bool:
        """True if there is one engine, and it is this host's."""
        first, *others = self.engines
        return not others and docker.is_here(first)

    def engine_of(self, machine: str) -> Engine:
        """Return the one that has the machine; the first where none has."""
        if len(self.engines) == 1:
            return self.engines[0]
        if machine not in self._engine_of:
            name = self.container(machine)
            having = (one for one in self.engines if docker.state(name, one) != "absent")
            self._engine_of[machine] = next(having, self.engines[0])
        return self._engine_of[machine]

    def _run(self, machine: str, *arguments: str) -> None:
        docker.run(*arguments, self.container(machine), on=self.engine_of(machine))

    def _state(self, machine: str) -> str:
        return docker.state(self.container(machine), self.engine_of(machine))

    def check(self) -> None:
        """Raises EnvironmentMissing where Docker does not answer, or machines of this experiment's
        name are there that this workspace did not make: nothing may touch those unasked."""
        for engine in self.engines:
            docker.check(engine)
        own = {str(o.get("container_name") or o.get("name")) for o in self.stack.state_resources()}
        others = [
            found.name
            for engine in self.engines
            for found in docker.find(self.experiment, engine)
            if found.name not in own and (found.is_machine or found.kind == "network")
        ]
        if others:
            raise EnvironmentMissing(
                f"fleet {self.experiment}",
                expected="nothing of this experiment but what its own workspace made",
                got=f"{len(others)} others: {', '.join(sorted(others)[:4])}"
                + (f" and {len(others) - 4} more" if len(others) > 4 else ""),
                hint="Measure that fleet as it is: `sparecraft run DESIGN --attach FOLDER`, of the "
                "Terraform configuration that made it. Or remove it there, or by "
                f"`sparecraft down {self.experiment}`, which removes every trace.",
            )

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        """`terraform apply` at ports and ranges that no other fleet has; returns what was made."""
        for note in self.journal.undo_ended(self.undo):
            progress(f"{note.machine}: {note.kind} of a run that was killed is undone")
        source = read_tfvars(tfvars)
        stated = source.values
        fleet = check(source, Fleet)
        others = [Stack(STACK, name) for name in terraform.stated(STACK) if name != self.experiment]
        given = [other.variables for other in others]
        taken = {one for on in self.engines for one in docker.subnets(but=self.experiment, on=on)}
        chosen = choose_addresses(
            stated,
            self.stack.variables if self.stack.state_resources() else {},
            further_entries=fleet.entry_tiers[1:],
            taken_ports=ports_of(given),
            taken_networks=networks_of(given) | taken,
        )
        progress(ports_line({**chosen, **stated}))
        if self.hosts:
            progress(f"Docker hosts: {', '.join(one.name for one in self.engines)}")
        self._engine_of.clear()
        folder = tfvars.resolve().parent
        roles = find_roles(folder)
        images = {roles[tier.role].image_of or tier.role for tier in fleet.tiers.values()}
        jars.fetch((roles[image].directory for image in images), progress)
        variants.build(variants.used_variants(folder, fleet, roles), progress)
        self.stack.apply(tfvars, progress, {**chosen, **self.hosts})
        return self.inventory()

    def inventory(self) -> Inventory:
        """Return the resources of the state."""
        return self.stack.inventory()

    def identity(self) -> Identity:
        """Return the client certificate for the agents' API."""
        return self.stack.identity()

    def down(self, progress: Progress) -> list[str]:
        """`terraform destroy`, then a sweep by label; returns what only the sweep found."""
        engines = self.engines  # the state, which is about to go, says so
        for engine in engines:
            docker.check(engine)

        def sweep() -> list[str]:
            return [str(f) for engine in engines for f in docker.sweep(self.experiment, engine)]

        found = self.stack.remove(progress, sweep)
        self.journal.clear_all()
        return found

    def remaining(self) -> list[str]:
        """Every container and network of this experiment that an engine holds."""
        return [str(f) for engine in self.engines for f in docker.find(self.experiment, engine)]

    def container(self, machine: str) -> str:
        """Return the Docker name of a machine."""
        return f"sc-{self.experiment}-{machine}"

    def machine_logs(self, machine: str, lines: int = 20) -> str:
        """Return the last lines that the machine printed, so many at most."""
        return docker.logs(self.container(machine), lines, on=self.engine_of(machine))

    def inject(self, kind: str, machine: str) -> None:
        """A fault that no agent can inject into its own machine. It ends with this process, however
        that ends."""
        self.journal.write(kind, machine)
        self._run(machine, *_INJECTED[kind])

    def revert(self, kind: str, machine: str) -> None:
        """Undo `inject`; idempotent."""
        self._undo(kind, machine)
        self.journal.clear(machine)

    def undo(self, note: Note) -> None:
        """`revert` of what may have been another process's; a machine that is gone has no fault."""
        self._undo(note.kind, note.machine)

    def _undo(self, kind: str, machine: str) -> None:
        state = self._state(machine)
        if kind == "machine.freeze" and state == "paused":
            self._run(machine, "unpause")
        elif kind in ("machine.crash", "machine.reboot") and state != "absent":
            self.start(machine)

    def start(self, machine: str) -> None:
        """`docker start`, where the machine does not run."""
        if not self.running(machine):
            self._run(machine, "start")
            self.journal.clear(machine)

    def stop(self, machine: str) -> None:
        """Power loss, where the machine runs."""
        if self.running(machine):
            self._run(machine, *_POWER_LOSS)

    def replace(self, machine: str, progress: Progress) -> None:
        """A new container, by `terraform apply -replace`; other machines are left as they are."""
        self.stack.replace(f'fleet_machine.this["{machine}"]', progress)
        self.journal.clear(machine)

    def load_helpers(self) -> int:
        """None: this host makes the load."""
        return 0

    def running(self, machine: str) -> bool:
        """True if the container runs; a frozen one does."""
        return self._state(machine) in ("running", "paused")

    def cpu_s(self) -> Mapping[str, float]:
        """Return the CPU times that the engines on this host count."""
        return {k: v for on in self.engines for k, v in docker.cpu_s(self.experiment, on).items()}
