"""Ends billed resources that have outlived their fleet; an administrator schedules it every hour.

    python3 sweep.py --region eu-west-1 --region us-east-1      # --dry-run lists the resources

A fleet normally ends by its machines, its groups and AWS's schedules. This program ends the rest: a
standby whose `up` was killed before the schedule was made, a machine with termination protection,
or one whose tag was extended without end. A machine, group or disk with the tag
`sparecraft:experiment` is removed when the latest end that the tags of its experiment name is past,
and in any case eight days after its creation. The network is free: `sparecraft reap` removes it.

Needs boto3 and the policy `role-sweep.json`; as a function of AWS Lambda its handler is `handler`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3  # type: ignore[import-untyped]

EXPERIMENT, EXPIRES = "sparecraft:experiment", "sparecraft:expires"
LONGEST = timedelta(days=8)  # no fleet is meant to live longer than a week
_OURS = [{"Name": "tag-key", "Values": [EXPERIMENT]}]


@dataclass(frozen=True)
class Resource:
    """A billed resource; `end` is None if its tag is missing or is no date."""

    kind: str
    id: str
    experiment: str
    created: datetime
    end: datetime | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--region", action="append", required=True)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    sweep(options.region, datetime.now(UTC), dry_run=options.dry_run)


def handler(event: dict[str, Any], _: object) -> list[str]:
    """Sweep the regions of the event {"regions": ["eu-west-1"]}, as an AWS Lambda function."""
    return sweep(event["regions"], datetime.now(UTC))


def sweep(regions: Sequence[str], now: datetime, *, dry_run: bool = False) -> list[str]:
    """Remove outlived resources, unless `dry_run`; returns and prints "kind id" of each."""
    removed = []
    for region in regions:
        ec2 = boto3.client("ec2", region_name=region)
        scaling = boto3.client("autoscaling", region_name=region)
        for resource in select_outlived(list_resources(ec2, scaling), now):
            if not dry_run:
                _end(resource, ec2, scaling)
            removed.append(f"{resource.kind} {resource.id}")
            print(f"{region}: {resource.kind} {resource.id} of {resource.experiment}", flush=True)
    return removed


def select_outlived(resources: Iterable[Resource], now: datetime) -> list[Resource]:
    """Select the resources to remove; groups come first, because they replace their machines."""
    all_resources = list(resources)
    ends = dict[str, datetime]()
    for resource in all_resources:
        if resource.end is not None:
            ends[resource.experiment] = max(
                ends.get(resource.experiment, resource.end), resource.end
            )
    return [
        resource
        for resource in all_resources
        if resource.created + LONGEST <= now
        or ends.get(resource.experiment, resource.created + LONGEST) <= now
    ]


def list_resources(ec2: Any, scaling: Any) -> Iterator[Resource]:
    """Yield groups, running or stopped machines and unattached disks with our tag."""
    groups = scaling.get_paginator("describe_auto_scaling_groups").paginate(Filters=_OURS)
    for group in (group for page in groups for group in page["AutoScalingGroups"]):
        yield _expiring(
            "group", group["AutoScalingGroupName"], group["Tags"], [group["CreatedTime"]]
        )
    alive = [
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}
    ]
    pages = ec2.get_paginator("describe_instances").paginate(Filters=[*_OURS, *alive])
    for machine in (
        machine
        for page in pages
        for group in page["Reservations"]
        for machine in group["Instances"]
    ):
        if not any(tag["Key"] == "aws:autoscaling:groupName" for tag in machine["Tags"]):
            yield _expiring("machine", machine["InstanceId"], machine["Tags"], _beginnings(machine))
    free = [{"Name": "status", "Values": ["available"]}]
    disks = ec2.get_paginator("describe_volumes").paginate(Filters=[*_OURS, *free])
    for disk in (disk for page in disks for disk in page["Volumes"]):
        yield _expiring("disk", disk["VolumeId"], disk["Tags"], [disk["CreateTime"]])


def _beginnings(machine: dict[str, Any]) -> list[datetime]:
    """Return times at which a machine existed: LaunchTime is only that of its last start."""
    disks = [mapping["Ebs"]["AttachTime"] for mapping in machine.get("BlockDeviceMappings", [])]
    cards = [card.get("Attachment", {}) for card in machine.get("NetworkInterfaces", [])]
    attached = [card["AttachTime"] for card in cards if "AttachTime" in card]
    return [machine["LaunchTime"], *disks, *attached]


def _expiring(kind: str, name: str, pairs: list[dict[str, str]], times: list[datetime]) -> Resource:
    tags = {tag["Key"]: tag["Value"] for tag in pairs}
    try:
        end = datetime.fromisoformat(tags.get(EXPIRES, ""))
    except ValueError:
        end = None
    if end is not None and end.tzinfo is None:
        end = end.replace(tzinfo=UTC)
    return Resource(kind, name, tags[EXPERIMENT], min(times), end)


def _end(resource: Resource, ec2: Any, scaling: Any) -> None:
    if resource.kind == "group":
        scaling.delete_auto_scaling_group(AutoScalingGroupName=resource.id, ForceDelete=True)
    elif resource.kind == "disk":
        ec2.delete_volume(VolumeId=resource.id)
    else:
        for protection in ("DisableApiTermination", "DisableApiStop"):
            ec2.modify_instance_attribute(InstanceId=resource.id, **{protection: {"Value": False}})
        ec2.terminate_instances(InstanceIds=[resource.id])


if __name__ == "__main__":
    main()
