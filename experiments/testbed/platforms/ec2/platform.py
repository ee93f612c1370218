"""The platform EC2: the stack `infra/stacks/ec2`, and boto3 for operations on its machines.

Resources that are not in Terraform's state are found by their tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import EnvironmentMissing
from core.json_object import JsonObject
from experiments.design.inventory import Identity, Inventory
from experiments.paths import ROOT
from experiments.testbed.platforms.ec2 import resources, sweep
from experiments.testbed.platforms.ec2.aws import Aws, advice
from experiments.testbed.platforms.ec2.machines import Ec2Machines
from experiments.testbed.platforms.ec2.resources import TaggedResource
from experiments.testbed.platforms.terraform import Progress, Stack

STACK = ROOT / "infra" / "stacks" / "ec2"
# Made by AWS along with an instance: no state holds them, their machine's tags say whose they are.
_FOLLOW = ("network interface", "volume")


@dataclass(frozen=True)
class Rental:
    """A fleet's request on EC2 beyond its description.

    `expires` is when the fleet ends, `ttl_hours` after it was asked for [h]; `usd_per_hour` by
    instance type; `more` are other variables of the stack, by name.
    """

    ttl_hours: float
    expires: datetime
    spot: bool = False
    usd_per_hour: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def variables(self, region: str) -> JsonObject:
        """Return the variables of the stack."""
        expires = self.expires.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            **self.more,
            "region": region,
            "ttl_hours": self.ttl_hours,
            "expires": expires,
            "spot": self.spot,
            "usd_per_hour": dict(self.usd_per_hour),
        }


class Ec2Platform(Ec2Machines):
    """One experiment's fleet in an AWS account."""

    def __init__(self, experiment: str, region: str | None = None, *, stack: Path = STACK) -> None:
        """`region` None: that of the last `up` here, else of the environment or profile."""
        self.stack = Stack(stack, experiment)
        super().__init__(experiment, Aws(region or self.stack.variables.get("region")))
        self.rental: Rental | None = None

    def check(self) -> None:
        """Raises EnvironmentMissing where AWS does not answer, or there is something of this
        experiment's name that this workspace did not make: nothing may touch that unasked."""
        self.aws.account()
        own = {str(one.get("id")) for one in self.stack.state_resources()}
        others = [one for one in resources.find(self.aws, self.experiment) if _foreign(one, own)]
        if others:
            raise EnvironmentMissing(
                f"fleet {self.experiment}, region {self.aws.region}",
                expected="nothing of this experiment but what its own workspace made",
                got=_listed(others),
                hint="Remove it where it was made, or call `sparecraft down "
                f"{self.experiment} --platform ec2`, which removes every trace.",
            )

    def planned(self, tfvars: Path, rental: Rental) -> JsonObject:
        """`terraform plan` as JSON: what `up` would make. Changes nothing."""
        return self.stack.plan(tfvars, rental.variables(self.aws.region))

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        """`terraform apply` for `rental`. Where it fails half-way the error lists what was made."""
        if self.rental is None:
            raise EnvironmentMissing(
                f"fleet {self.experiment} on EC2",
                expected="a time to live, and a yes to its price",
                got="neither",
                hint="Call `sparecraft up DESIGN --platform ec2` first.",
            )
        try:
            self.stack.apply(tfvars, progress, self.rental.variables(self.aws.region))
        except EnvironmentMissing as error:
            raise self._incomplete(error) from error
        inventory = self.inventory()
        self.await_up([one.name for one in inventory.started], self.ready_timeout_s)
        standbys = [one.name for one in inventory.machines if one.standby]
        self.await_off(standbys, self.ready_timeout_s)
        return inventory

    def inventory(self) -> Inventory:
        """Return the resources of the state."""
        return self.stack.inventory()

    def identity(self) -> Identity:
        """Return the client certificate for the agents' API."""
        return self.stack.identity()

    def down(self, progress: Progress) -> list[str]:
        """`terraform destroy`, then a sweep by tag; returns what only the sweep found."""
        self.aws.account()

        def swept() -> list[str]:
            found = resources.find(self.aws, self.experiment)
            sweep.remove(self.aws, found, progress)
            return [str(one) for one in found]

        return self.stack.remove(progress, swept)

    def remaining(self) -> list[str]:
        """Everything with this experiment's tag in the region."""
        return [str(one) for one in resources.find(self.aws, self.experiment)]

    def _incomplete(self, error: EnvironmentMissing) -> EnvironmentMissing:
        try:
            found = resources.find(self.aws, self.experiment)
            made = _listed(found) if found else "nothing"
        except EnvironmentMissing as unseen:
            made = f"unknown ({unseen.got})"
        return EnvironmentMissing(
            error.place,
            expected=error.expected,
            got=f"{error.got}\nMade until then: {made}",
            hint=f"{advice(error.got) or 'Correct the named problem and call again.'} "
            f"`sparecraft down {self.experiment} --platform ec2` removes what was made.",
        )


def _foreign(one: TaggedResource, own: set[str]) -> bool:
    return one.id not in own and not one.group and one.kind not in _FOLLOW


def _listed(things: list[TaggedResource]) -> str:
    kinds = dict[str, list[TaggedResource]]()
    for one in things:
        kinds.setdefault(one.kind, []).append(one)
    named = [
        str(of_kind[0]) if len(of_kind) == 1 else f"{len(of_kind)} of kind {kind}"
        for kind, of_kind in kinds.items()
    ]
    return f"{len(things)}: {', '.join(named)}"
