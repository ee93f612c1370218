"""Resources of a region with our tags, in the order of their removal.

Machines first, then the resources that they used, then the network, then schedules. Each kind is
listed separately, because a tag outlives its resource, and some services have lists only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from experiments.testbed.platforms.base import FleetRow
from experiments.testbed.platforms.ec2.aws import Aws

EXPERIMENT = "sparecraft:experiment"
MACHINE = "sparecraft:machine"
EXPIRES = "sparecraft:expires"
ALIVE = ("pending", "running", "stopping", "stopped")
_BY_TAG = [{"Name": "tag-key", "Values": [EXPERIMENT]}]


@dataclass(frozen=True)
class TaggedResource:
    """One thing of ours; `group` is the auto-scaling group that keeps a machine alive, `spot`
    whether AWS may take it back, which cannot be stopped."""

    kind: str
    id: str
    tags: Mapping[str, str] = field(hash=False)
    state: str = ""
    group: str = ""
    spot: bool = False

    @property
    def experiment(self) -> str:
        """The experiment that owns it."""
        return self.tags[EXPERIMENT]

    @property
    def expires(self) -> datetime | None:
        """The end of its time to live; None without a tag, or without a date in it."""
        try:
            when = datetime.fromisoformat(self.tags.get(EXPIRES, ""))
        except ValueError:
            return None
        return when if when.tzinfo else when.replace(tzinfo=UTC)

    def __str__(self) -> str:
        name = self.tags.get(MACHINE) or self.tags.get("Name", "")
        return f"{self.kind} {self.id}" + (f" ({name})" if name else "")


# kind, listing, key of its entries, key of an entry's id
_EC2 = (
    ("launch template", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    ("elastic IP", "describe_addresses", "Addresses", "AllocationId"),
    ("network interface", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
    ("volume", "describe_volumes", "Volumes", "VolumeId"),
    ("VPC endpoint", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    ("security group", "describe_security_groups", "SecurityGroups", "GroupId"),
    ("route table", "describe_route_tables", "RouteTables", "RouteTableId"),
    ("internet gateway", "describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    ("subnet", "describe_subnets", "Subnets", "SubnetId"),
    ("VPC", "describe_vpcs", "Vpcs", "VpcId"),
)


def find(aws: Aws, experiment: str | None = None) -> list[TaggedResource]:
    """Everything of one experiment, or of all, that is still there; in order of removal."""
    found = [*_groups(aws), *instances(aws), *placement_groups(aws), *_of_ec2(aws)]
    found += _schedules(aws)
    return [one for one in found if experiment in (None, one.experiment)]


def outlived(found: Iterable[TaggedResource], now: datetime) -> list[TaggedResource]:
    """Return the resources of experiments whose time is over: the latest of their `expires` is
    past.
    """
    things = list(found)
    ends = dict[str, datetime]()
    for one in things:
        if one.expires is not None:
            ends[one.experiment] = max(ends.get(one.experiment, one.expires), one.expires)
    return [one for one in things if one.experiment in ends and ends[one.experiment] <= now]


def fleets(aws: Aws) -> list[FleetRow]:
    """Return the resources with our tags, a row for each experiment."""
    found = find(aws)
    rows: list[FleetRow] = []
    for name in sorted({one.experiment for one in found}):
        things = [one for one in found if one.experiment == name]
        states = Counter(one.state for one in things if one.kind == "instance")
        ends = [one.expires.astimezone(UTC) for one in things if one.expires]
        rows.append(
            {
                "experiment": name,
                "machines": sum(states.values()),
                "running": states["running"],
                "things": len(things),
                "expires": f"{max(ends):%Y-%m-%dT%H:%M:%SZ}" if ends else "",
                "region": aws.region,
            }
        )
    return rows


def instances(
    aws: Aws, experiment: str | None = None, machine: str | None = None
) -> list[TaggedResource]:
    """Instances that are not gone, and not about to be; the newest first."""
    filters = [{"Name": "instance-state-name", "Values": list(ALIVE)}]
    for tag, value in ((EXPERIMENT, experiment), (MACHINE, machine)):
        if value is not None:
            filters.append({"Name": f"tag:{tag}", "Values": [value]})
    if experiment is None:
        filters += _BY_TAG
    held = aws.pages("ec2", "describe_instances", "Reservations", Filters=filters)
    entries = [one for reservation in held for one in reservation["Instances"]]
    entries.sort(key=lambda one: one["LaunchTime"], reverse=True)
    return [_instance(one) for one in entries]


def _instance(entry: Mapping[str, Any]) -> TaggedResource:
    tags = _tags(entry["Tags"])
    group = tags.get("aws:autoscaling:groupName", "")
    spot = entry.get("InstanceLifecycle") == "spot"
    return TaggedResource(
        "instance", entry["InstanceId"], tags, entry["State"]["Name"], group, spot
    )


def _groups(aws: Aws) -> Iterator[TaggedResource]:
    held = aws.pages(
        "autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", Filters=_BY_TAG
    )
    for one in held:
        yield TaggedResource("auto-scaling group", one["AutoScalingGroupName"], _tags(one["Tags"]))


def placement_groups(aws: Aws) -> Iterator[TaggedResource]:
    """Placement groups: a region mostly has none, and then one call is enough."""
    wanted = [
        {"Name": "key", "Values": [EXPERIMENT]},
        {"Name": "resource-type", "Values": ["placement-group"]},
    ]
    held = [one["ResourceId"] for one in aws.pages("ec2", "describe_tags", "Tags", Filters=wanted)]
    if held:
        groups = aws.call("ec2", "describe_placement_groups", GroupIds=held)["PlacementGroups"]
        for one in groups:
            yield TaggedResource("placement group", one["GroupName"], _tags(one["Tags"]))


def _of_ec2(aws: Aws) -> Iterator[TaggedResource]:
    for kind, operation, key, identifier in _EC2:
        for one in aws.pages("ec2", operation, key, Filters=_BY_TAG):
            if one.get("GroupName") == "default" or one.get("State") == "deleted":
                continue  # a VPC's own group goes with the VPC
            tags = _tags(one.get("Tags") or one.get("TagSet") or [])
            yield TaggedResource(kind, one[identifier], tags)


def _schedules(aws: Aws) -> Iterator[TaggedResource]:
    """Groups of schedules, which no list can be asked for by tag."""
    for one in aws.pages("scheduler", "list_schedule_groups", "ScheduleGroups"):
        if one["State"] != "DELETING" and str(one["Name"]).startswith("sc-"):
            said = aws.call("scheduler", "list_tags_for_resource", ResourceArn=one["Arn"])
            tags = _tags(said.get("Tags", []))
            if EXPERIMENT in tags:
                yield TaggedResource("schedule group", str(one["Name"]), tags)


def _tags(pairs: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {pair["Key"]: pair["Value"] for pair in pairs}
