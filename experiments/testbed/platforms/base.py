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
    whether all machines share this host's cores and memory. `is_attached`: the fleet is somebody
    else's, so it is not made here, nor removed, and its arbiters are left as they were.
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
        """Make the fleet that `tfvars` describes; returns what was made."""

    def inventory(self) -> Inventory:
        """Return the inventory. Raises EnvironmentMissing if that is not known."""

    def identity(self) -> Identity:
        """Return the client certificate for the agents' API."""

    def down(self, progress: Progress) -> list[str]:
        """Remove the fleet, then a sweep by label or tag; returns what only the sweep found."""

    def remaining(self) -> list[str]:
        """Everything of this experiment that is still there."""

    def machine_logs(self, machine: str, lines: int = 20) -> str:
        """Return the last lines that the machine printed, so many at most."""

    def inject(self, kind: str, machine: str) -> None:
        """One of MACHINE_KINDS that is not in `through_agent`."""

    def revert(self, kind: str, machine: str) -> None:
        """Undo `inject`; idempotent."""

    def start(self, machine: str) -> None:
        """Power on: a standby, or one that was stopped. Nothing to do where it runs."""

    def stop(self, machine: str) -> None:
        """Power off at once. Nothing to do where it is off."""

    def replace(self, machine: str, progress: Progress) -> None:
        """Throw a machine of a `cloud` fleet away, running or not, and have it made anew under
        its name and addresses (EC2: its auto-scaling group does). Returns once the new one is
        under way; it is not ready then. Raises EnvironmentMissing."""

    def load_helpers(self) -> int:
        """Load machines beside this one, a load worker waiting on each."""

    def running(self, machine: str) -> bool:
        """True if the machine's power is on."""

    def cpu_s(self) -> Mapping[str, float]:
        """CPU seconds so far of each machine that runs on this host; empty if none does, or
        where that is not known.
        """


@dataclass(frozen=True)
class Option:
    """An option of `run`, `up`, `down`, `list` or `watch` that a platform has and others need not.

    `type`: bool, str, float or list[str] (may be repeated); nothing given is None, False for bool.
    """

    name: str  # ttl_hours is --ttl-hours
    type: Any
    help: str
    commands: tuple[str, ...]
    metavar: str | None = None
    minimum: float | None = None
    maximum: float | None = None


class Elsewhere(Protocol):
    """A run that a machine of the fleet carries out, as only that reaches the others; `question` is
    asked before anything is paid for."""

    @property
    def question(self) -> str: ...

    def carry_out(self, arguments: Sequence[str], *, results: Path, keep: bool) -> Path:
        """Return the run's folder, once it is in `results`, and the fleet is gone unless it is to
        be kept; `arguments` are further ones of `sparecraft run`.
        """


class FleetRow(TypedDict):
    """A fleet that is up, as `sparecraft list` shows it; the rest only where it costs money."""

    experiment: str
    machines: int
    running: NotRequired[int]
    things: NotRequired[int]
    expires: NotRequired[str]
    region: NotRequired[str]


Given = Mapping[str, Any]  # what was given of a platform's options, by name


@dataclass(frozen=True)
class CostEstimate:
    """A fleet that can be had: `question` is asked before (a fleet that costs nothing has none),
    `about` stands beside the inventory in JSON, `next_steps` tells a person where to go on."""

    platform: Platform
    next_steps: Callable[[Inventory], Sequence[str]]
    question: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)


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

    def attached(self, inventory: Inventory, identity: Identity) -> Platform:
        """Return the same fleet, of somebody else's. Raises InputError if that is not possible."""

    def elsewhere(self, design: Design, given: Given, narrator: Narrator) -> Elsewhere | None:
        """Return the run, where it cannot go on here; nothing is made yet."""

    def for_up(self, design: Design, given: Given, narrator: Narrator) -> CostEstimate:
        """Return the fleet that `sparecraft up` makes; nothing is made yet."""

    def for_down(self, experiment: str, given: Given) -> Platform:
        """Return the fleet that `sparecraft down` removes."""

    def experiments(self) -> list[str]:
        """Return the experiments whose fleets `sparecraft down --all` removes. Raises
        EnvironmentMissing.
        """

    def fleets(self, given: Given) -> list[FleetRow]:
        """Rows of `sparecraft list`. Raises EnvironmentMissing if nobody answers."""
