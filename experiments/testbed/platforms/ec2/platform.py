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
from experiments.design.inventory import Inventory
from experiments.paths import ROOT
from experiments.testbed.platforms.ec2 import resources, sweep
from experiments.testbed.platforms.ec2.aws import Aws, advice
from experiments.testbed.platforms.ec2.machines import Ec2Machines
from experiments.testbed.platforms.ec2.resources import TaggedResource
from experiments.testbed.platforms.terraform import Progress, Stack, StackFleet

STACK = ROOT / "infra" / "stacks" / "ec2"
# Made by AWS along with an instance: no state holds them, their machine's tags say whose they are.
_FOLLOW = ("network interface", "volume")


@dataclass(frozen=True)
class Rental:
    """A fleet's request on EC2 beyond its description.

    `expires` is the time at which the fleet ends, `ttl_hours` after the request [h]; `usd_per_hour`
    is by instance type; `more` are other variables of the stack, by name.
    """

    ttl_hours: float
    expires: datetime
    spot: bool = False
    usd_per_hour: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def variables(self, region: str) -> JsonObject:
        expires = self.expires.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            **self.more,
            "region": region,
            "ttl_hours": self.ttl_hours,
            "expires": expires,
            "spot": self.spot,
            "usd_per_hour": dict(self.usd_per_hour),
        }


class Ec2Platform(StackFleet, Ec2Machines):
    """One experiment's fleet in an AWS account."""

    def __init__(self, experiment: str, region: str | None = None, *, stack: Path = STACK) -> None:
        """`region` None: that of the last `up` here, else of the environment or profile."""
        self.stack = Stack(stack, experiment)
        super().__init__(experiment, Aws(region or self.stack.variables.get("region")))
        self.rental: Rental | None = None

    def check(self) -> None:
        """Raises EnvironmentMissing if AWS does not answer, or has resources of this experiment's
        name that this workspace did not make: nothing may touch those without a request."""
        self.aws.account()
        own_ids = {str(resource.get("id")) for resource in self.stack.state_resources()}
        foreign = [
            resource
            for resource in resources.find(self.aws, self.experiment)
            if _is_foreign(resource, own_ids)
        ]
        if foreign:
            raise EnvironmentMissing(
                f"fleet {self.experiment}, region {self.aws.region}",
                expected="nothing of this experiment but what its own workspace made",
                got=_summarise(foreign),
                hint="Remove it where it was made, or call `sparecraft down "
                f"{self.experiment} --platform ec2`, which removes every trace.",
            )

    def plan(self, tfvars: Path, rental: Rental) -> JsonObject:
        """Return `terraform plan` as JSON: what `up` would make. Changes nothing."""
        return self.stack.plan(tfvars, rental.variables(self.aws.region))

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        """Call `terraform apply` for `rental`. If it fails half-way, the error lists the resources
        made until then."""
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
            raise self._incomplete_error(error) from error
        inventory = self.inventory()
        self.await_up([machine.name for machine in inventory.started], self.ready_timeout_s)
        standbys = [machine.name for machine in inventory.machines if machine.standby]
        self.await_off(standbys, self.ready_timeout_s)
        return inventory

    def down(self, progress: Progress) -> list[str]:
        """Call `terraform destroy`, then sweep by tag; returns what only the sweep found."""
        self.aws.account()

        def sweep_by_tag() -> list[str]:
            tagged = resources.find(self.aws, self.experiment)
            sweep.remove(self.aws, tagged, progress)
            return [str(resource) for resource in tagged]

        return self.stack.remove(progress, sweep_by_tag)

    def remaining(self) -> list[str]:
        """Return everything with this experiment's tag in the region."""
        return [str(resource) for resource in resources.find(self.aws, self.experiment)]

    def _incomplete_error(self, error: EnvironmentMissing) -> EnvironmentMissing:
        try:
            tagged = resources.find(self.aws, self.experiment)
            created = _summarise(tagged) if tagged else "nothing"
        except EnvironmentMissing as lookup_error:
            created = f"unknown ({lookup_error.got})"
        return EnvironmentMissing(
            error.place,
            expected=error.expected,
            got=f"{error.got}\nMade until then: {created}",
            hint=f"{advice(error.got) or 'Correct the named problem and call again.'} "
            f"`sparecraft down {self.experiment} --platform ec2` removes what was made.",
        )


def _is_foreign(resource: TaggedResource, own_ids: set[str]) -> bool:
    return resource.id not in own_ids and not resource.group and resource.kind not in _FOLLOW


def _summarise(tagged: list[TaggedResource]) -> str:
    kinds = dict[str, list[TaggedResource]]()
    for resource in tagged:
        kinds.setdefault(resource.kind, []).append(resource)
    counts = [
        str(members[0]) if len(members) == 1 else f"{len(members)} of kind {kind}"
        for kind, members in kinds.items()
    ]
    return f"{len(tagged)}: {', '.join(counts)}"
