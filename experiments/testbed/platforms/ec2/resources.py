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
    """One resource of ours. `group` is the auto-scaling group that keeps a machine alive; `spot`
    is true for a machine that AWS may take back, and that cannot be stopped."""

    kind: str
    id: str
    tags: Mapping[str, str] = field(hash=False)
    state: str = ""
    group: str = ""
    spot: bool = False

    @property
    def experiment(self) -> str:
        return self.tags[EXPERIMENT]

    @property
    def expires(self) -> datetime | None:
        """The end of its time to live; None without a tag, or without a date in it."""
        try:
            end = datetime.fromisoformat(self.tags.get(EXPIRES, ""))
        except ValueError:
            return None
        return end if end.tzinfo else end.replace(tzinfo=UTC)

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
    """Return the existing resources of one experiment, or of all, in order of removal."""
    resources = [*_groups(aws), *instances(aws), *placement_groups(aws), *_ec2_resources(aws)]
    resources += _schedules(aws)
    return [resource for resource in resources if experiment in (None, resource.experiment)]


def find_expired(tagged: Iterable[TaggedResource], now: datetime) -> list[TaggedResource]:
    """Return the resources of experiments whose latest `expires` is past."""
    resources = list(tagged)
    ends = dict[str, datetime]()
    for resource in resources:
        if resource.expires is not None:
            ends[resource.experiment] = max(
                ends.get(resource.experiment, resource.expires), resource.expires
            )
    return [
        resource
        for resource in resources
        if resource.experiment in ends and ends[resource.experiment] <= now
    ]


def fleets(aws: Aws) -> list[FleetRow]:
    """Return the resources with our tags, a row for each experiment."""
    tagged = find(aws)
    rows: list[FleetRow] = []
    for name in sorted({resource.experiment for resource in tagged}):
        resources = [resource for resource in tagged if resource.experiment == name]
        states = Counter(resource.state for resource in resources if resource.kind == "instance")
        ends = [resource.expires.astimezone(UTC) for resource in resources if resource.expires]
        rows.append(
            {
                "experiment": name,
                "machines": sum(states.values()),
                "running": states["running"],
                "things": len(resources),
                "expires": f"{max(ends):%Y-%m-%dT%H:%M:%SZ}" if ends else "",
                "region": aws.region,
            }
        )
    return rows


def instances(
    aws: Aws, experiment: str | None = None, machine: str | None = None
) -> list[TaggedResource]:
    """Return the instances that are not gone, and not about to be; the newest first."""
    filters = [{"Name": "instance-state-name", "Values": list(ALIVE)}]
    for tag, value in ((EXPERIMENT, experiment), (MACHINE, machine)):
        if value is not None:
            filters.append({"Name": f"tag:{tag}", "Values": [value]})
    if experiment is None:
        filters += _BY_TAG
    reservations = aws.pages("ec2", "describe_instances", "Reservations", Filters=filters)
    entries = [entry for reservation in reservations for entry in reservation["Instances"]]
    entries.sort(key=lambda entry: entry["LaunchTime"], reverse=True)
    return [_instance(entry) for entry in entries]


def _instance(entry: Mapping[str, Any]) -> TaggedResource:
    tags = _tags(entry["Tags"])
    group = tags.get("aws:autoscaling:groupName", "")
    spot = entry.get("InstanceLifecycle") == "spot"
    return TaggedResource(
        "instance", entry["InstanceId"], tags, entry["State"]["Name"], group, spot
    )


def _groups(aws: Aws) -> Iterator[TaggedResource]:
    groups = aws.pages(
        "autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", Filters=_BY_TAG
    )
    for group in groups:
        yield TaggedResource(
            "auto-scaling group", group["AutoScalingGroupName"], _tags(group["Tags"])
        )


def placement_groups(aws: Aws) -> Iterator[TaggedResource]:
    """Yield placement groups; a region mostly has none, and then one call is enough."""
    filters = [
        {"Name": "key", "Values": [EXPERIMENT]},
        {"Name": "resource-type", "Values": ["placement-group"]},
    ]
    names = [
        tag["ResourceId"] for tag in aws.pages("ec2", "describe_tags", "Tags", Filters=filters)
    ]
    if names:
        groups = aws.call("ec2", "describe_placement_groups", GroupIds=names)["PlacementGroups"]
        for group in groups:
            yield TaggedResource("placement group", group["GroupName"], _tags(group["Tags"]))


def _ec2_resources(aws: Aws) -> Iterator[TaggedResource]:
    for kind, operation, key, identifier in _EC2:
        for entry in aws.pages("ec2", operation, key, Filters=_BY_TAG):
            if entry.get("GroupName") == "default" or entry.get("State") == "deleted":
                continue  # a VPC's own group goes with the VPC
            tags = _tags(entry.get("Tags") or entry.get("TagSet") or [])
            yield TaggedResource(kind, entry[identifier], tags)


def _schedules(aws: Aws) -> Iterator[TaggedResource]:
    """Yield groups of schedules, which AWS cannot list by tag."""
    for group in aws.pages("scheduler", "list_schedule_groups", "ScheduleGroups"):
        if group["State"] != "DELETING" and str(group["Name"]).startswith("sc-"):
            answer = aws.call("scheduler", "list_tags_for_resource", ResourceArn=group["Arn"])
            tags = _tags(answer.get("Tags", []))
            if EXPERIMENT in tags:
                yield TaggedResource("schedule group", str(group["Name"]), tags)


def _tags(pairs: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {pair["Key"]: pair["Value"] for pair in pairs}
