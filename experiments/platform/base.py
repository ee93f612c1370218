"""What every platform does. The runner knows this surface and nothing below it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from experiments.platform.inventory import Identity, Inventory
from experiments.platform.terraform import Progress

MACHINE_KINDS = ("machine.crash", "machine.reboot", "machine.freeze")


class Platform(Protocol):
    """One experiment's fleet, wherever it lives.

    `through_agent` maps the machine faults that this platform cannot inject itself to the agent's
    kind that comes nearest. `ready_timeout_s` is how long a new machine may take to be ready [s].
    """

    @property
    def name(self) -> str: ...
    @property
    def experiment(self) -> str: ...
    @property
    def through_agent(self) -> Mapping[str, str]: ...
    @property
    def ready_timeout_s(self) -> float: ...

    def check(self) -> None:
        """Raises EnvironmentMissing where the platform does not answer, or machines of this
        experiment's name are there that this workspace did not make."""

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        """Make the fleet that `tfvars` describes; returns what was made."""

    def inventory(self) -> Inventory:
        """What the state says is there."""

    def identity(self) -> Identity:
        """The client certificate for the agents' API."""

    def changes(self) -> list[str]:
        """What differs from the description (drift)."""

    def down(self, progress: Progress) -> list[str]:
        """Remove the fleet, then a sweep by label or tag; returns what only the sweep found."""

    def left(self) -> list[str]:
        """Everything of this experiment that is still there."""

    def machine_logs(self, machine: str) -> str:
        """The last lines that the machine printed."""

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
        """Load machines beside this one, a load worker waiting on each (`load/worker.py`)."""

    def running(self, machine: str) -> bool:
        """Whether the machine's power is on."""
