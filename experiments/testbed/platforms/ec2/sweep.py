"""Removal of the resources that `resources.find` lists, each after its users; repeatable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from core.errors import EnvironmentMissing
from experiments.testbed.platforms.ec2.aws import Aws, AwsRefused, aws_errors
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
    resources: Sequence[TaggedResource],
    progress: Progress,
    *,
    timeout_s: float = GONE_TIMEOUT_S,
) -> None:
    """Remove `resources`, which are in order of removal; `timeout_s` bounds each wait for users.

    A failure does not stop the rest: EnvironmentMissing at the end names all failures.
    """
    failed: list[tuple[TaggedResource, EnvironmentMissing]] = []
    machines = [
        resource for resource in resources if resource.kind in ("auto-scaling group", "instance")
    ]
    used_resources = [resource for resource in resources if resource not in machines]

    def carry_out(group: Sequence[TaggedResource]) -> None:
        for resource in group:
            try:
                _retry_in_use(partial(_REMOVERS[resource.kind], aws, resource.id), timeout_s)
            except EnvironmentMissing as error:
                failed.append((resource, error))
            else:
                progress(f"removed {resource}")

    carry_out(machines)
    _await_end(
        aws, [resource.id for resource in machines if resource.kind == "instance"], timeout_s
    )
    for resource in used_resources:
        if resource.kind == "security group":
            _retry_in_use(partial(_revoke_rules, aws, resource.id), timeout_s)
    carry_out(used_resources)
    if failed:
        raise EnvironmentMissing(
            "removing what carries our tags",
            expected="nothing to be left",
            got="; ".join(f"{resource}: {error.got}" for resource, error in failed),
            hint="Call again: removed resources are skipped. If it stays, use AWS's console.",
        )


def _retry_in_use(remove_one: Callable[[], None], timeout_s: float) -> None:
    """Call `remove_one` until it succeeds, the resource is gone, or it is in use too long."""
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
    with aws_errors("waiting for the end of instances", aws.region):
        waiter.wait(
            InstanceIds=list(machines),
            WaiterConfig={"Delay": int(_POLL_S), "MaxAttempts": attempts},
        )


def _remove_group(aws: Aws, name: str) -> None:
    aws.call(
        "autoscaling", "delete_auto_scaling_group", AutoScalingGroupName=name, ForceDelete=True
    )


def _revoke_rules(aws: Aws, identifier: str) -> None:
    """Remove a security group's rules first, because groups name each other in them."""
    by_id = {"GroupIds": [identifier]}
    for group in aws.call("ec2", "describe_security_groups", **by_id)["SecurityGroups"]:
        for operation, rules in (
            ("revoke_security_group_ingress", group["IpPermissions"]),
            ("revoke_security_group_egress", group["IpPermissionsEgress"]),
        ):
            if rules:
                aws.call("ec2", operation, GroupId=identifier, IpPermissions=rules)


def _remove_route_table(aws: Aws, identifier: str) -> None:
    by_id = {"RouteTableIds": [identifier]}
    for table in aws.call("ec2", "describe_route_tables", **by_id)["RouteTables"]:
        for entry in table["Associations"]:
            if entry.get("Main"):
                return  # a VPC's own table goes with the VPC
            association = entry["RouteTableAssociationId"]
            aws.call("ec2", "disassociate_route_table", AssociationId=association)
    aws.call("ec2", "delete_route_table", RouteTableId=identifier)


def _remove_internet_gateway(aws: Aws, identifier: str) -> None:
    by_id = {"InternetGatewayIds": [identifier]}
    for gateway in aws.call("ec2", "describe_internet_gateways", **by_id)["InternetGateways"]:
        for attachment in gateway["Attachments"]:
            pair = {"InternetGatewayId": identifier, "VpcId": attachment["VpcId"]}
            aws.call("ec2", "detach_internet_gateway", **pair)
    aws.call("ec2", "delete_internet_gateway", InternetGatewayId=identifier)


def _remove_vpc(aws: Aws, identifier: str) -> None:
    """Delete a VPC, after the files of its machines below its id in the bucket."""
    bucket = f"sparecraft-fleets-{aws.account()}-{aws.region}"
    try:
        for stored in aws.pages(
            "s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=f"{identifier}/"
        ):
            aws.call("s3", "delete_object", Bucket=bucket, Key=stored["Key"])
    except AwsRefused as error:
        if not _is_absent(error):
            raise
    aws.call("ec2", "delete_vpc", VpcId=identifier)


def _remove_schedules(aws: Aws, name: str) -> None:
    aws.call("scheduler", "delete_schedule_group", Name=name)


def _release_address(aws: Aws, identifier: str) -> None:
    for address in aws.call("ec2", "describe_addresses", AllocationIds=[identifier])["Addresses"]:
        if address.get("AssociationId"):
            aws.call("ec2", "disassociate_address", AssociationId=address["AssociationId"])
    aws.call("ec2", "release_address", AllocationId=identifier)


def _single_call_remover(operation: str, argument: str, *, several: bool = False) -> _Remover:
    """Return the remover of a kind that one call removes."""

    def remove_one(aws: Aws, identifier: str) -> None:
        aws.call("ec2", operation, **{argument: [identifier] if several else identifier})

    return remove_one


_REMOVERS: dict[str, _Remover] = {
    "auto-scaling group": _remove_group,
    "instance": _single_call_remover("terminate_instances", "InstanceIds", several=True),
    "launch template": _single_call_remover("delete_launch_template", "LaunchTemplateId"),
    "elastic IP": _release_address,
    "network interface": _single_call_remover("delete_network_interface", "NetworkInterfaceId"),
    "volume": _single_call_remover("delete_volume", "VolumeId"),
    "placement group": _single_call_remover("delete_placement_group", "GroupName"),
    "VPC endpoint": _single_call_remover("delete_vpc_endpoints", "VpcEndpointIds", several=True),
    "security group": _single_call_remover("delete_security_group", "GroupId"),
    "route table": _remove_route_table,
    "internet gateway": _remove_internet_gateway,
    "subnet": _single_call_remover("delete_subnet", "SubnetId"),
    "VPC": _remove_vpc,
    "schedule group": _remove_schedules,
}
