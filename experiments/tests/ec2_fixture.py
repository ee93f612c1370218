"""A fleet as the EC2 stack makes it, by boto3, in the account that the environment leads to."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import boto3  # type: ignore[import-untyped]

from experiments.tests.aws import REGION

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PAST = "2026-03-01T11:00:00Z"
FUTURE = "2026-03-01T13:00:00Z"


def client(service: str) -> Any:
    """A plain client, for what the tests make and look at."""
    return _client(service, os.environ["AWS_ENDPOINT_URL"])


@cache  # loading a service's description takes seconds on a busy machine
def _client(service: str, _endpoint: str) -> Any:
    return boto3.client(service, region_name=REGION)


@cache
def _image() -> str:
    images = client("ec2").describe_images(Owners=["amazon"])["Images"]
    return str(images[0]["ImageId"])


@dataclass
class MadeFleet:
    """The number of resources that were made, by kind."""

    experiment: str
    expires: str
    ids: dict[str, list[str]] = field(default_factory=dict)

    def tags(self, **more: str) -> list[dict[str, str]]:
        """The tags that all of a fleet has, and more: machine="web-1"."""
        named = {"experiment": self.experiment, "expires": self.expires, **more}
        return [{"Key": f"sparecraft:{key}", "Value": value} for key, value in named.items()]

    def specification(self, kind: str, **more: str) -> list[dict[str, Any]]:
        """TagSpecifications of a call of EC2."""
        return [{"ResourceType": kind, "Tags": self.tags(**more)}]

    def keep(self, kind: str, identifier: str) -> str:
        """Note what was made; returns its id."""
        self.ids.setdefault(kind, []).append(identifier)
        return identifier


def instance(made: MadeFleet, subnet: str, machine: str) -> str:
    """One running machine of the fleet."""
    done = client("ec2").run_instances(
        ImageId=_image(),
        InstanceType="t3.small",
        MinCount=1,
        MaxCount=1,
        SubnetId=subnet,
        TagSpecifications=[
            *made.specification("instance", machine=machine, standby="false"),
            *made.specification("volume", machine=machine),
        ],
    )
    return made.keep("instance", done["Instances"][0]["InstanceId"])


def network(made: MadeFleet) -> str:
    """VPC, gateway, routes, two groups that name each other, a subnet; returns the subnet."""
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.80.0.0/16", TagSpecifications=made.specification("vpc"))
    vpc_id = made.keep("VPC", vpc["Vpc"]["VpcId"])
    gateway = ec2.create_internet_gateway(TagSpecifications=made.specification("internet-gateway"))
    gateway_id = made.keep("internet gateway", gateway["InternetGateway"]["InternetGatewayId"])
    ec2.attach_internet_gateway(InternetGatewayId=gateway_id, VpcId=vpc_id)
    subnet = ec2.create_subnet(
        VpcId=vpc_id, CidrBlock="10.80.0.0/20", TagSpecifications=made.specification("subnet")
    )
    subnet_id = made.keep("subnet", subnet["Subnet"]["SubnetId"])
    table = ec2.create_route_table(
        VpcId=vpc_id, TagSpecifications=made.specification("route-table")
    )
    table_id = made.keep("route table", table["RouteTable"]["RouteTableId"])
    ec2.associate_route_table(RouteTableId=table_id, SubnetId=subnet_id)
    groups = [_security_group(made, vpc_id, name) for name in ("agents", "runner")]
    for group, other in (groups, groups[::-1]):
        rule = {"IpProtocol": "tcp", "FromPort": 7443, "ToPort": 7443}
        rule["UserIdGroupPairs"] = [{"GroupId": other}]
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    interface = ec2.create_network_interface(
        SubnetId=subnet_id,
        Groups=groups,
        TagSpecifications=made.specification("network-interface", machine="web-1"),
    )
    interface_id = interface["NetworkInterface"]["NetworkInterfaceId"]
    made.keep("network interface", interface_id)
    address = ec2.allocate_address(
        Domain="vpc", TagSpecifications=made.specification("elastic-ip", machine="web-1")
    )["AllocationId"]
    ec2.associate_address(AllocationId=address, NetworkInterfaceId=interface_id)
    made.keep("elastic IP", address)
    return subnet_id


def _security_group(made: MadeFleet, vpc: str, name: str) -> str:
    group = client("ec2").create_security_group(
        GroupName=f"sc-{made.experiment}-{name}",
        Description=name,
        VpcId=vpc,
        TagSpecifications=made.specification("security-group"),
    )
    return made.keep("security group", group["GroupId"])


def group_of_one(made: MadeFleet, subnet: str, machine: str) -> str:
    """An auto-scaling group of one machine, as the scheme `cloud` has them."""
    ec2, scaling = client("ec2"), client("autoscaling")
    name = f"sc-{made.experiment}-{machine}"
    template = ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={"ImageId": _image(), "InstanceType": "t3.small"},
        TagSpecifications=made.specification("launch-template", machine=machine),
    )["LaunchTemplate"]["LaunchTemplateId"]
    made.keep("launch template", template)
    tags = [{**tag, "PropagateAtLaunch": True} for tag in made.tags(machine=machine)]
    scaling.create_auto_scaling_group(
        AutoScalingGroupName=name,
        LaunchTemplate={"LaunchTemplateId": template, "Version": "$Latest"},
        MinSize=1,
        MaxSize=1,
        DesiredCapacity=1,
        VPCZoneIdentifier=subnet,
        Tags=tags,
    )
    return made.keep("auto-scaling group", name)


def files(made: MadeFleet) -> None:
    """Objects that the machines are made of, below the VPC's id in the account's bucket."""
    s3, bucket = client("s3"), f"sparecraft-fleets-123456789012-{REGION}"
    if bucket not in {one["Name"] for one in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    for name in ("sparecraft.tar.gz", "machines/db-1.json"):
        s3.put_object(Bucket=bucket, Key=f"{made.ids['VPC'][0]}/{name}", Body=b"a key")


def schedules(made: MadeFleet) -> None:
    """The group of those that end its machines."""
    name = f"sc-{made.experiment}"
    client("scheduler").create_schedule_group(Name=name, Tags=made.tags())
    made.keep("schedule group", name)


def whole_fleet(experiment: str, expires: str) -> MadeFleet:
    """One of every kind that the stack makes: a machine, one in a group, and all around them."""
    made = MadeFleet(experiment, expires)
    subnet = network(made)
    instance(made, subnet, "db-1")
    group_of_one(made, subnet, "web-1")
    files(made)
    schedules(made)
    return made
