"""Machines rented from AWS."""

from __future__ import annotations

from core.errors import InputError
from experiments.console import Narrator
from experiments.design import Design
from experiments.design.inventory import Identity, Inventory
from experiments.testbed.platforms.base import (
    CostEstimate,
    Elsewhere,
    FleetRow,
    Option,
    OptionValues,
    Platform,
    PlatformEntry,
)

TTL_HOURS = 4.0
OPTIONS = (
    Option(
        "region",
        str,
        "AWS region; else that of the environment or profile.",
        ("run", "up", "down", "list", "watch"),
    ),
    Option(
        "ttl_hours",
        float,
        f"Hours until the machines end themselves. [default: {TTL_HOURS:g}]",
        ("run", "up"),
        minimum=0.5,
        maximum=168.0,
    ),
    Option(
        "max_usd",
        float,
        "Refuse a fleet that could cost more until its end, before anything is made.",
        ("run", "up"),
        minimum=0.0,
    ),
    Option("spot", bool, "Spot machines, which AWS may take back.", ("run", "up")),
    Option(
        "var",
        list[str],
        "A variable of the stack, such as load_machines=2; may be repeated.",
        ("run", "up"),
        metavar="NAME=VALUE",
    ),
    Option(
        "book",
        str,
        "Prices where AWS's pricing API gives none: a file. [default: ec2]",
        ("run", "up"),
    ),
)


class _Ec2:
    name = "ec2"
    summary = "machines rented from AWS, for money"
    options = OPTIONS

    def for_run(self, experiment: str) -> Platform:
        """Return the fleet that `sparecraft up` made, from its first load machine."""
        from experiments.testbed.platforms.ec2.attached import AttachedFleet

        return AttachedFleet(experiment)

    def attach_to(self, inventory: Inventory, identity: Identity) -> Platform:
        """Raise InputError: its machines are powered from where they were made."""
        del identity
        raise InputError(
            "--attach",
            expected="a fleet on this host",
            got=f"{inventory.experiment}, which is on ec2",
            hint="`sparecraft run DESIGN --platform ec2` measures it from its first load machine.",
        )

    def elsewhere(
        self, design: Design, options: OptionValues, narrator: Narrator
    ) -> Elsewhere | None:
        """Return a run on the first load machine; None if this is that machine."""
        from experiments.testbed.platforms.ec2 import attached, platform
        from experiments.testbed.platforms.ec2.bundle import pack
        from experiments.testbed.platforms.ec2.remote_run import RemoteRun

        if attached.FLEET_FILE.exists():
            return None
        ec2_platform = platform.Ec2Platform(design.fleet.experiment, options["region"])
        ec2_platform.aws.account()  # before the packing, which takes a minute
        pack(ec2_platform.stack.directory, design, narrator)
        return RemoteRun(design, ec2_platform, options, narrator)

    def for_up(self, design: Design, options: OptionValues, narrator: Narrator) -> CostEstimate:
        """Return the fleet with a plan and a price."""
        from experiments.testbed.platforms.ec2 import platform
        from experiments.testbed.platforms.ec2.bundle import pack
        from experiments.testbed.platforms.ec2.cost_estimate import offer

        ec2_platform = platform.Ec2Platform(design.fleet.experiment, options["region"])
        ec2_platform.aws.account()  # before the packing, which takes a minute
        pack(ec2_platform.stack.directory, design, narrator)
        return offer(design, ec2_platform, options, narrator)

    def for_down(self, experiment: str, options: OptionValues) -> Platform:
        """Return the fleet, from wherever there are credentials."""
        from experiments.testbed.platforms.ec2 import platform

        return platform.Ec2Platform(experiment, options["region"])

    def experiments(self) -> list[str]:
        from experiments.testbed.platforms.ec2.platform import STACK
        from experiments.testbed.platforms.terraform import list_experiments

        return list_experiments(STACK)

    def fleets(self, options: OptionValues) -> list[FleetRow]:
        """Return the resources with our tags in one region of the account."""
        from experiments.testbed.platforms.ec2.aws import Aws
        from experiments.testbed.platforms.ec2.resources import fleets

        return fleets(Aws(options["region"]))


PLATFORM: PlatformEntry = _Ec2()
