"""The contract of every platform. Code that measures uses this interface only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, Protocol, TypedDict

from experiments.console import Narrator
from experiments.design import Design
from experiments.design.inventory import Identity, Inventory
from experiments.testbed.platforms.terraform import Progress


class Platform(Protocol):
    """One experiment's fleet, wherever it lives.

    `through_agent` maps the machine faults that this platform cannot inject itself to the agent's
    kind that comes nearest. `ready_timeout_s` is how long a new machine may take to be ready [s].
    `reachable`: whether this process reaches the fleet's agents and arbiters. `on_this_host`:
    whether all machines share this host's cores and memory. `is_attached`: the fleet is another
    owner's, so it is neither made nor removed here, and its arbiters are left as they were.
    """

    @property
    def name(self) -> str: ...
    @property
    def experiment(self) -> str: ...
    @property
    def through_agent(self) -> Mapping[str, str]: ...
    @property
    def ready_timeout_s(self) -> float: ...
    @property
    def reachable(self) -> bool: ...
    @property
    def on_this_host(self) -> bool: ...
    @property
    def is_attached(self) -> bool: ...

    def check(self) -> None:
        """Raises EnvironmentMissing if the platform does not answer, or machines of this
        experiment's name are there that this workspace did not make.
        """

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        """Make the fleet that `tfvars` describes; returns its inventory."""

    def inventory(self) -> Inventory:
        """Return the inventory. Raises EnvironmentMissing if that is not known."""

    def identity(self) -> Identity:
        """Return the client certificate for the agents' API."""

    def down(self, progress: Progress) -> list[str]:
        """Remove the fleet, then a sweep by label or tag; returns what only the sweep found."""

    def remaining(self) -> list[str]:
        """Return everything of this experiment that is still there."""

    def machine_logs(self, machine: str, lines: int = 20) -> str:
        """Return at most `lines` last lines that the machine printed."""

    def inject(self, kind: str, machine: str) -> None:
        """Inject one of MACHINE_KINDS that is not in `through_agent`."""

    def revert(self, kind: str, machine: str) -> None:
        """Undo `inject`; idempotent."""

    def start(self, machine: str) -> None:
        """Power on a standby, or a stopped machine. Does nothing if the machine runs."""

    def stop(self, machine: str) -> None:
        """Power off at once. Does nothing if the machine is off."""

    def replace(self, machine: str, progress: Progress) -> None:
        """Throw a machine of a `cloud` fleet away, running or not, and have a new one made with
        its name and addresses (on EC2 by its auto-scaling group). Returns once the new one is
        under way; it is not ready then. Raises EnvironmentMissing."""

    def load_helpers(self) -> int:
        """Return the number of load machines beside this one; a load worker waits on each."""

    def running(self, machine: str) -> bool:
        """True if the machine's power is on."""

    def cpu_s(self) -> Mapping[str, float]:
        """Return the CPU seconds so far of each machine that runs on this host; empty if none
        does, or if they are not known.
        """


@dataclass(frozen=True)
class Option:
    """An option of `run`, `up`, `down`, `list` or `watch` that a platform has and others need not.

    `type`: bool, str, float or list[str] (may be repeated). Without the option the value is None,
    for bool False.
    """

    name: str  # ttl_hours is --ttl-hours
    type: Any
    help: str
    commands: tuple[str, ...]
    metavar: str | None = None
    minimum: float | None = None
    maximum: float | None = None


class Elsewhere(Protocol):
    """A run that a machine of the fleet carries out, because only that machine reaches the others;
    the user answers `question` before anything is paid for."""

    @property
    def question(self) -> str: ...

    def carry_out(self, arguments: Sequence[str], *, results: Path, keep: bool) -> Path:
        """Return the run's folder, once it is in `results` and the fleet is gone, which it is not
        with `keep`. `arguments` are further ones of `sparecraft run`.
        """


class FleetRow(TypedDict):
    """A fleet that is up, as `sparecraft list` shows it; optional keys only if it costs money."""

    experiment: str
    machines: int
    running: NotRequired[int]
    things: NotRequired[int]
    expires: NotRequired[str]
    region: NotRequired[str]


OptionValues = Mapping[str, Any]  # values of a platform's options, by name


@dataclass(frozen=True)
class CostEstimate:
    """A fleet that can be made. The user answers `question` before (a free fleet has none); `about`
    stands beside the inventory in JSON; `next_steps` tells a person where to go on."""

    platform: Platform
    next_steps: Callable[[Inventory], Sequence[str]]
    question: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)


def entry_lines(inventory: Inventory) -> list[str]:
    """Return the addresses of a fleet that this host reaches, for a person."""
    entries = [f"{entry.tier}: {', '.join(entry.urls)}" for entry in inventory.endpoints.entries]
    return [f"Entry {'; '.join(entries)}   InfluxDB: {inventory.endpoints.influxdb}"]


class PlatformEntry(Protocol):
    """A platform as the command line meets it: before there is an experiment."""

    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str:
        """A few words for --help."""

    @property
    def options(self) -> Sequence[Option]: ...

    def for_run(self, experiment: str) -> Platform:
        """Return the fleet that `sparecraft run` makes, or finds, and measures from here."""

    def attach_to(self, inventory: Inventory, identity: Identity) -> Platform:
        """Return another owner's fleet. Raises InputError if the platform cannot attach to it."""

    def elsewhere(
        self, design: Design, options: OptionValues, narrator: Narrator
    ) -> Elsewhere | None:
        """Return the run if it cannot be carried out here, else None; nothing is made yet."""

    def for_up(self, design: Design, options: OptionValues, narrator: Narrator) -> CostEstimate:
        """Return the fleet that `sparecraft up` makes; nothing is made yet."""

    def for_down(self, experiment: str, options: OptionValues) -> Platform:
        """Return the fleet that `sparecraft down` removes."""

    def experiments(self) -> list[str]:
        """Return the experiments whose fleets `sparecraft down --all` removes. Raises
        EnvironmentMissing.
        """

    def fleets(self, options: OptionValues) -> list[FleetRow]:
        """Return the rows of `sparecraft list`. Raises EnvironmentMissing if nobody answers."""
