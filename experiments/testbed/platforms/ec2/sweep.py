"""Removal of the resources that `resources.find` lists: each after its users; repeatable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from core.errors import EnvironmentMissing
from experiments.testbed.platforms.ec2.aws import Aws, AwsRefused, answering
from experiments.testbed.platforms.ec2.resources import TaggedResource
from experiments.testbed.platforms.terraform import Progress

_Remover = Callable[[Aws, str], None]

GONE_TIMEOUT_S = 600.0  # a large instance takes minutes to end
_POLL_S = 5.0
_IN_USE = (
    "DependencyViolation",
    "InvalidGroup.InUse",
    "InvalidNetworkInterface.InUse",
    "InvalidParameterValue",  # EC2's word for an interface that is still attached
    "InvalidPlacementGroup.InUse",
    "ResourceInUse",
    "ScalingActivityInProgress",
    "VolumeInUse",
)


def remove(
    aws: Aws,
    things: Sequence[TaggedResource],
    progress: Progress,
    *,
    timeout_s: float = GONE_TIMEOUT_S,
) -> None:
    """Remove `things`, which are in order of removal; `timeout_s` bounds each wait for users.

    What cannot be removed stops nothing: EnvironmentMissing at the end names all of it.
    """
    failed: list[tuple[TaggedResource, EnvironmentMissing]] = []
    machines = [one for one in things if one.kind in ("auto-scaling group", "instance")]
    others = [one for one in things if one not in machines]

    def carry_out(group: Sequence[TaggedResource]) -> None:
        for one in group:
            try:
                _patiently(partial(_REMOVERS[one.kind], aws, one.id), timeout_s)
            except EnvironmentMissing as error:
                failed.append((one, error))
            else:
                progress(f"removed {one}")

    carry_out(machines)
    _await_end(aws, [one.id for one in machines if one.kind == "instance"], timeout_s)
    for one in others:
        if one.kind == "security group":
            _patiently(partial(_revoke_rules, aws, one.id), timeout_s)
    carry_out(others)
    if failed:
        raise EnvironmentMissing(
            "removing what carries our tags",
            expected="nothing to be left",
            got="; ".join(f"{one}: {error.got}" for one, error in failed),
            hint="Call again: removed resources are skipped. If it stays, use AWS's console.",
        )


def _patiently(remove_one: Callable[[], None], timeout_s: float) -> None:
    """`remove_one` until it succeeds, the thing is not there, or nothing lets it go in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            remove_one()
        except AwsRefused as error:
            if _is_absent(error):
                return
            if error.code not in _IN_USE or time.monotonic() > deadline:
                raise
            time.sleep(min(_POLL_S, timeout_s))
        else:
            return


def _is_absent(error: AwsRefused) -> bool:
    absent = ("NoSuchBucket", "InvalidPlacementGroup.Unknown")
    return error.code in absent or "NotFound" in error.code or "not found" in error.got


def _await_end(aws: Aws, machines: Sequence[str], timeout_s: float) -> None:
    if not machines:
        return
    waiter = aws.client("ec2").get_waiter("instance_terminated")
    attempts = max(1, int(timeout_s / _POLL_S))
    with answering("waiting for the end of instances", aws.region):
        waiter.wait(
            InstanceIds=list(machines),
            WaiterConfig={"Delay": int(_POLL_S), "MaxAttempts": attempts},
        )


def _group(aws: Aws, name: str) -> None:
    aws.call(
        "autoscaling", "delete_auto_scaling_group", AutoScalingGroupName=name, ForceDelete=True
    )


def _revoke_rules(aws: Aws, identifier: str) -> None:
    """Security groups name each other in their rules: those go first."""
    by_id = {"GroupIds": [identifier]}
    for group in aws.call("ec2", "describe_security_groups", **by_id)["SecurityGroups"]:
        for operation, rules in (
            ("revoke_security_group_ingress", group["IpPermissions"]),
            ("revoke_security_group_egress", group["IpPermissionsEgress"]),
        ):
            if rules:
                aws.call("ec2", operation, GroupId=identifier, IpPermissions=rules)


def _route_table(aws: Aws, identifier: str) -> None:
    by_id = {"RouteTableIds": [identifier]}
    for table in aws.call("ec2", "describe_route_tables", **by_id)["RouteTables"]:
        for one in table["Associations"]:
            if one.get("Main"):
                return  # a VPC's own table goes with the VPC
            association = one["RouteTableAssociationId"]
            aws.call("ec2", "disassociate_route_table", AssociationId=association)
    aws.call("ec2", "delete_route_table", RouteTableId=identifier)


def _internet_gateway(aws: Aws, identifier: str) -> None:
    by_id = {"InternetGatewayIds": [identifier]}
    for gateway in aws.call("ec2", "describe_internet_gateways", **by_id)["InternetGateways"]:
        for one in gateway["Attachments"]:
            pair = {"InternetGatewayId": identifier, "VpcId": one["VpcId"]}
            aws.call("ec2", "detach_internet_gateway", **pair)
    aws.call("ec2", "delete_internet_gateway", InternetGatewayId=identifier)


def _vpc(aws: Aws, identifier: str) -> None:
    """Delete a VPC, and before it what its machines were made of, below its id in the bucket."""
    bucket = f"sparecraft-fleets-{aws.account()}-{aws.region}"
    try:
        for one in aws.pages(
            "s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=f"{identifier}/"
        ):
            aws.call("s3", "delete_object", Bucket=bucket, Key=one["Key"])
    except AwsRefused as error:
        if not _is_absent(error):
            raise
    aws.call("ec2", "delete_vpc", VpcId=identifier)


def _schedules(aws: Aws, name: str) -> None:
    aws.call("scheduler", "delete_schedule_group", Name=name)


def _address(aws: Aws, identifier: str) -> None:
    for one in aws.call("ec2", "describe_addresses", AllocationIds=[identifier])["Addresses"]:
        if one.get("AssociationId"):
            aws.call("ec2", "disassociate_address", AssociationId=one["AssociationId"])
    aws.call("ec2", "release_address", AllocationId=identifier)


def _plain(operation: str, argument: str, *, several: bool = False) -> _Remover:
    """Return a kind that one call removes."""

    def remove_one(aws: Aws, identifier: str) -> None:
        aws.call("ec2", operation, **{argument: [identifier] if several else identifier})

    return remove_one


_REMOVERS: dict[str, _Remover] = {
    "auto-scaling group": _group,
    "instance": _plain("terminate_instances", "InstanceIds", several=True),
    "launch template": _plain("delete_launch_template", "LaunchTemplateId"),
    "elastic IP": _address,
    "network interface": _plain("delete_network_interface", "NetworkInterfaceId"),
    "volume": _plain("delete_volume", "VolumeId"),
    "placement group": _plain("delete_placement_group", "GroupName"),
    "VPC endpoint": _plain("delete_vpc_endpoints", "VpcEndpointIds", several=True),
    "security group": _plain("delete_security_group", "GroupId"),
    "route table": _route_table,
    "internet gateway": _internet_gateway,
    "subnet": _plain("delete_subnet", "SubnetId"),
    "VPC": _vpc,
    "schedule group": _schedules,
}
