"""A fleet on EC2 from its first load machine: inside the network, and without Terraform.

The stack leaves the inventory and the keys there in one file. The fleet was made elsewhere, and
stays until `sparecraft down` there, or until the end of its time to live.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from core.config_file import check, read_tfvars
from core.errors import EnvironmentMissing
from experiments.design.fleet import Fleet
from experiments.design.inventory import Identity, Inventory
from experiments.testbed.platforms.ec2.aws import Aws
from experiments.testbed.platforms.ec2.machines import Ec2Machines
from experiments.testbed.platforms.terraform import Progress

FLEET_FILE = Path("/etc/sparecraft/runner.json")


class FleetFile(BaseModel):
    """The content of the file that the stack leaves on the first load machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    region: str
    fleet: Inventory
    identity: Identity


class AttachedFleet(Ec2Machines):
    """One experiment's fleet, made elsewhere."""

    reachable = True
    is_attached = True

    def __init__(self, experiment: str, file: Path = FLEET_FILE) -> None:
        """Raises EnvironmentMissing if `file` is missing or of another experiment."""
        self._content = _read_fleet_file(file)
        if self._content.fleet.experiment != experiment:
            raise EnvironmentMissing(
                str(file),
                expected=f"the fleet of {experiment}",
                got=f"that of {self._content.fleet.experiment}",
                hint="Run that design, or make this one's fleet: "
                f"`sparecraft up {experiment} --platform ec2`.",
            )
        super().__init__(experiment, Aws(self._content.region))

    def check(self) -> None:
        """Do nothing, because the fleet was handed over."""

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        """Return the fleet as it is. Raises EnvironmentMissing if it is not the one of `tfvars`."""
        names = check(read_tfvars(tfvars), Fleet).machine_names
        missing = sorted(set(names) - {machine.name for machine in self.inventory().machines})
        if missing:
            raise EnvironmentMissing(
                f"fleet {self.experiment}",
                expected=f"the machines of {tfvars}",
                got=f"none called {', '.join(missing)}",
                hint="Use the design of this fleet, or make the fleet again.",
            )
        progress("the fleet was made elsewhere, and stays")
        return self.inventory()

    def inventory(self) -> Inventory:
        return self._content.fleet

    def identity(self) -> Identity:
        return self._content.identity

    def down(self, progress: Progress) -> list[str]:
        """Remove nothing, because the fleet is not this machine's."""
        progress("the fleet stays; `sparecraft down` removes it where it was made")
        return []

    def remaining(self) -> list[str]:
        """Return nothing, because this run made nothing."""
        return []


def _read_fleet_file(file: Path) -> FleetFile:
    try:
        return FleetFile.model_validate_json(file.read_text())
    except (OSError, ValidationError) as error:
        got = str(getattr(error, "strerror", None) or error)
        raise EnvironmentMissing(
            str(file),
            expected="the inventory and keys that the stack leaves on its first load machine",
            got=got,
            hint="A run on EC2 goes out from there, inside the fleet's network: "
            "`sparecraft up DESIGN --platform ec2` makes it and says how to get in.",
        ) from error
