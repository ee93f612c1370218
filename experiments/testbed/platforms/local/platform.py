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
from experiments.design.inventory import Inventory
from experiments.design.roles import find_roles
from experiments.paths import ROOT
from experiments.testbed import runs
from experiments.testbed.platforms import terraform
from experiments.testbed.platforms.journal import MachineJournal, Note
from experiments.testbed.platforms.local import docker, on_demand_build
from experiments.testbed.platforms.local.addresses import (
    choose_addresses,
    networks_of,
    ports_line,
    ports_of,
)
from experiments.testbed.platforms.local.engines import Engine, engines_of
from experiments.testbed.platforms.terraform import Progress, Stack, StackFleet

STACK = ROOT / "infra" / "stacks" / "local"
_POWER_LOSS = ("kill", "--signal=KILL")
_INJECTED = {
    "machine.crash": _POWER_LOSS,
    "machine.reboot": ("restart", "--time=0"),  # the reset button: SIGKILL, then power on
    "machine.freeze": ("pause",),
}


class LocalPlatform(StackFleet):
    """One experiment's fleet on this host, or on the Docker hosts of which this is the first."""

    name = "local"
    through_agent: Mapping[str, str] = {}
    ready_timeout_s = 120.0
    reachable = True
    is_attached = False

    def __init__(self, experiment: str, hosts: Mapping[str, Any] | None = None) -> None:
        """`hosts`: the variables with the Docker hosts; None: those of the fleet if it is up, else
        this host's engine."""
        self.experiment = experiment
        self.stack = Stack(STACK, experiment)
        self.journal = MachineJournal(self.name, experiment, runs.FOLDER / "machines" / experiment)
        self._hosts = hosts
        self._engine_of: dict[str, Engine] = {}

    @property
    def hosts(self) -> JsonObject:
        """The stack's variables with its Docker hosts; none on this host's engine."""
        if self._hosts is not None:
            return dict(self._hosts)
        variables = self.stack.variables
        return {name: variables[name] for name in ("hosts", "underlay_mtu") if name in variables}

    @cached_property
    def engines(self) -> tuple[Engine, ...]:
        """All engines of the fleet, in the order of the hosts."""
        return engines_of(self.hosts)

    @property
    def on_this_host(self) -> bool:
        """True if there is one engine, and it is this host's."""
        first, *further = self.engines
        return not further and docker.is_here(first)

    def engine_of(self, machine: str) -> Engine:
        """Return the engine that has the machine; the first if none has it."""
        if len(self.engines) == 1:
            return self.engines[0]
        if machine not in self._engine_of:
            name = self.container(machine)
            engines = (engine for engine in self.engines if docker.state(name, engine) != "absent")
            self._engine_of[machine] = next(engines, self.engines[0])
        return self._engine_of[machine]

    def _run(self, machine: str, *arguments: str) -> None:
        docker.run(*arguments, self.container(machine), on=self.engine_of(machine))

    def _state(self, machine: str) -> str:
        return docker.state(self.container(machine), self.engine_of(machine))

    def check(self) -> None:
        """Raises EnvironmentMissing if Docker does not answer, or has machines of this experiment's
        name that this workspace did not make: nothing may touch those without a request."""
        for engine in self.engines:
            docker.check(engine)
        own_names = {
            str(resource.get("container_name") or resource.get("name"))
            for resource in self.stack.state_resources()
        }
        foreign = [
            item.name
            for engine in self.engines
            for item in docker.find(self.experiment, engine)
            if item.name not in own_names and (item.is_machine or item.kind == "network")
        ]
        if foreign:
            raise EnvironmentMissing(
                f"fleet {self.experiment}",
                expected="nothing of this experiment but what its own workspace made",
                got=f"{len(foreign)} others: {', '.join(sorted(foreign)[:4])}"
                + (f" and {len(foreign) - 4} more" if len(foreign) > 4 else ""),
                hint="Measure that fleet as it is: `sparecraft run DESIGN --attach FOLDER`, of the "
                "Terraform configuration that made it. Or remove it there, or by "
                f"`sparecraft down {self.experiment}`, which removes every trace.",
            )

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        """Call `terraform apply` with ports and ranges that no other fleet has; returns the
        inventory."""
        for note in self.journal.undo_ended(self.undo):
            progress(f"{note.machine}: {note.kind} of a run that was killed is undone")
        source = read_tfvars(tfvars)
        values = source.values
        fleet = check(source, Fleet)
        other_stacks = [
            Stack(STACK, name)
            for name in terraform.list_experiments(STACK)
            if name != self.experiment
        ]
        other_variables = [stack.variables for stack in other_stacks]
        used_networks = {
            network
            for engine in self.engines
            for network in docker.subnets(but=self.experiment, on=engine)
        }
        addresses = choose_addresses(
            values,
            self.stack.variables if self.stack.state_resources() else {},
            further_entries=fleet.entry_tiers[1:],
            taken_ports=ports_of(other_variables),
            taken_networks=networks_of(other_variables) | used_networks,
        )
        progress(ports_line({**addresses, **values}))
        if self.hosts:
            progress(f"Docker hosts: {', '.join(engine.name for engine in self.engines)}")
        self._engine_of.clear()
        folder = tfvars.resolve().parent
        roles = find_roles(folder)
        images = {roles[tier.role].image_of or tier.role for tier in fleet.tiers.values()}
        on_demand_build.fetch_jars((roles[image].directory for image in images), progress)
        used = on_demand_build.used_variants(folder, fleet, roles)
        on_demand_build.build_variants(used, progress)
        self.stack.apply(tfvars, progress, {**addresses, **self.hosts})
        return self.inventory()

    def down(self, progress: Progress) -> list[str]:
        """Call `terraform destroy`, then sweep by label; returns what only the sweep found."""
        engines = self.engines  # the state, which is about to go, says so
        for engine in engines:
            docker.check(engine)

        def sweep() -> list[str]:
            return [
                str(item) for engine in engines for item in docker.sweep(self.experiment, engine)
            ]

        swept = self.stack.remove(progress, sweep)
        self.journal.clear_all()
        return swept

    def remaining(self) -> list[str]:
        """Return every container and network of this experiment that an engine holds."""
        return [
            str(item) for engine in self.engines for item in docker.find(self.experiment, engine)
        ]

    def container(self, machine: str) -> str:
        return f"sc-{self.experiment}-{machine}"

    def machine_logs(self, machine: str, lines: int = 20) -> str:
        """Return at most `lines` last lines that the machine printed."""
        return docker.logs(self.container(machine), lines, on=self.engine_of(machine))

    def inject(self, kind: str, machine: str) -> None:
        """Inject a fault that no agent can inject into its own machine. It ends with this process,
        however that ends."""
        self.journal.write(kind, machine)
        self._run(machine, *_INJECTED[kind])

    def revert(self, kind: str, machine: str) -> None:
        """Undo `inject`; idempotent."""
        self._undo(kind, machine)
        self.journal.clear(machine)

    def undo(self, note: Note) -> None:
        """Revert a fault that may be another process's; a machine that is gone has no fault."""
        self._undo(note.kind, note.machine)

    def _undo(self, kind: str, machine: str) -> None:
        state = self._state(machine)
        if kind == "machine.freeze" and state == "paused":
            self._run(machine, "unpause")
        elif kind in ("machine.crash", "machine.reboot") and state != "absent":
            self.start(machine)

    def start(self, machine: str) -> None:
        """Call `docker start` if the machine does not run."""
        if not self.running(machine):
            self._run(machine, "start")
            self.journal.clear(machine)

    def stop(self, machine: str) -> None:
        """Cut the machine's power if it runs."""
        if self.running(machine):
            self._run(machine, *_POWER_LOSS)

    def replace(self, machine: str, progress: Progress) -> None:
        """Make a new container by `terraform apply -replace`; other machines stay as they are."""
        self.stack.replace(f'fleet_machine.this["{machine}"]', progress)
        self.journal.clear(machine)

    def load_helpers(self) -> int:
        """Return 0: this host makes the load."""
        return 0

    def running(self, machine: str) -> bool:
        """True if the container runs; a frozen one does."""
        return self._state(machine) in ("running", "paused")

    def cpu_s(self) -> Mapping[str, float]:
        """Return the CPU times that the engines on this host count."""
        return {
            container: seconds
            for engine in self.engines
            for container, seconds in docker.cpu_s(self.experiment, engine).items()
        }
