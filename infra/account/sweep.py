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
    made: datetime
    end: datetime | None


def main() -> None:
    """Sweep the given regions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--region", action="append", required=True)
    parser.add_argument("--dry-run", action="store_true")
    asked = parser.parse_args()
    sweep(asked.region, datetime.now(UTC), dry_run=asked.dry_run)


def handler(event: dict[str, Any], _: object) -> list[str]:
    """Sweep the regions of the event {"regions": ["eu-west-1"]}, as an AWS Lambda function."""
    return sweep(event["regions"], datetime.now(UTC))


def sweep(regions: Sequence[str], now: datetime, *, dry_run: bool = False) -> list[str]:
    """Remove outlived resources, unless `dry_run`; returns and prints "kind id" of each."""
    done = []
    for region in regions:
        ec2 = boto3.client("ec2", region_name=region)
        scaling = boto3.client("autoscaling", region_name=region)
        for one in outlived(held(ec2, scaling), now):
            if not dry_run:
                _end(one, ec2, scaling)
            done.append(f"{one.kind} {one.id}")
            print(f"{region}: {one.kind} {one.id} of {one.experiment}", flush=True)
    return done


def outlived(things: Iterable[Resource], now: datetime) -> list[Resource]:
    """Select the resources to remove; groups come first, because they replace their machines."""
    found = list(things)
    ends = dict[str, datetime]()
    for one in found:
        if one.end is not None:
            ends[one.experiment] = max(ends.get(one.experiment, one.end), one.end)
    return [
        one
        for one in found
        if one.made + LONGEST <= now or ends.get(one.experiment, one.made + LONGEST) <= now
    ]


def held(ec2: Any, scaling: Any) -> Iterator[Resource]:
    """Yield groups, running or stopped machines and unattached disks with our tag."""
    groups = scaling.get_paginator("describe_auto_scaling_groups").paginate(Filters=_OURS)
    for one in (group for page in groups for group in page["AutoScalingGroups"]):
        yield _expiring("group", one["AutoScalingGroupName"], one["Tags"], [one["CreatedTime"]])
    alive = [
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}
    ]
    pages = ec2.get_paginator("describe_instances").paginate(Filters=[*_OURS, *alive])
    for one in (
        one for page in pages for group in page["Reservations"] for one in group["Instances"]
    ):
        if not any(tag["Key"] == "aws:autoscaling:groupName" for tag in one["Tags"]):
            yield _expiring("machine", one["InstanceId"], one["Tags"], _beginnings(one))
    free = [{"Name": "status", "Values": ["available"]}]
    disks = ec2.get_paginator("describe_volumes").paginate(Filters=[*_OURS, *free])
    for one in (disk for page in disks for disk in page["Volumes"]):
        yield _expiring("disk", one["VolumeId"], one["Tags"], [one["CreateTime"]])


def _beginnings(machine: dict[str, Any]) -> list[datetime]:
    """Return times since which a machine exists: LaunchTime is only that of its last start."""
    disks = [one["Ebs"]["AttachTime"] for one in machine.get("BlockDeviceMappings", [])]
    cards = [one.get("Attachment", {}) for one in machine.get("NetworkInterfaces", [])]
    attached = [one["AttachTime"] for one in cards if "AttachTime" in one]
    return [machine["LaunchTime"], *disks, *attached]


def _expiring(kind: str, name: str, pairs: list[dict[str, str]], made: list[datetime]) -> Resource:
    tags = {one["Key"]: one["Value"] for one in pairs}
    try:
        end = datetime.fromisoformat(tags.get(EXPIRES, ""))
    except ValueError:
        end = None
    if end is not None and end.tzinfo is None:
        end = end.replace(tzinfo=UTC)
    return Resource(kind, name, tags[EXPERIMENT], min(made), end)


def _end(one: Resource, ec2: Any, scaling: Any) -> None:
    if one.kind == "group":
        scaling.delete_auto_scaling_group(AutoScalingGroupName=one.id, ForceDelete=True)
    elif one.kind == "disk":
        ec2.delete_volume(VolumeId=one.id)
    else:
        for protection in ("DisableApiTermination", "DisableApiStop"):
            ec2.modify_instance_attribute(InstanceId=one.id, **{protection: {"Value": False}})
        ec2.terminate_instances(InstanceIds=[one.id])


if __name__ == "__main__":
    main()
