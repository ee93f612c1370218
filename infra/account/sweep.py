"""Ends what costs and has outlived its fleet; an administrator's schedule calls it every hour.

    python3 sweep.py --region eu-west-1 --region us-east-1      # --dry-run says what would go

A fleet ends by itself: its machines, its groups and AWS's schedules see to that. This is for what
none of them ends: a standby of an `up` that was killed before its schedule was made, a machine that
was protected from its end, or whose tag was put off for ever. A machine, group or disk with the tag
`sparecraft:experiment` goes when the last end that its experiment's tags name is past, and whatever
they say eight days after it was made. The network costs nothing: `sparecraft reap` removes it.

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
    """Something that costs; `end` is None where no tag says when, or not a date."""

    kind: str
    id: str
    experiment: str
    made: datetime
    end: datetime | None


def main() -> None:
    """Sweep the regions that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--region", action="append", required=True)
    parser.add_argument("--dry-run", action="store_true")
    asked = parser.parse_args()
    sweep(asked.region, datetime.now(UTC), dry_run=asked.dry_run)


def handler(event: dict[str, Any], _: object) -> list[str]:
    """For AWS Lambda; the event is {"regions": ["eu-west-1"]}."""
    return sweep(event["regions"], datetime.now(UTC))


def sweep(regions: Sequence[str], now: datetime, *, dry_run: bool = False) -> list[str]:
    """End what outlived its fleet, with `dry_run` only name it: "kind id" of each, also printed."""
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
    """Things that have to go, groups before machines: a group would make its machines anew."""
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
    """Groups, machines and free disks with our tag."""
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
    """LaunchTime is of the last start; what was attached when it was made is older."""
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
