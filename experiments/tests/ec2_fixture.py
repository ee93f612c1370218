"""A fleet as the EC2 stack makes it, by boto3, in the account that the environment leads to."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import boto3  # type: ignore[import-untyped]

from experiments.tests.aws import ACCOUNT, REGION

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PAST = "2026-03-01T11:00:00Z"
FUTURE = "2026-03-01T13:00:00Z"


def client(service: str) -> Any:
    """Return a plain boto3 client, with which tests make and inspect resources."""
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
        """Return the tags of every resource of the fleet, and further ones: machine="web-1"."""
        values = {"experiment": self.experiment, "expires": self.expires, **more}
        return [{"Key": f"sparecraft:{key}", "Value": value} for key, value in values.items()]

    def specification(self, kind: str, **more: str) -> list[dict[str, Any]]:
        """TagSpecifications of a call of EC2."""
        return [{"ResourceType": kind, "Tags": self.tags(**more)}]

    def keep(self, kind: str, identifier: str) -> str:
        """Note a resource that was made and return its id."""
        self.ids.setdefault(kind, []).append(identifier)
        return identifier


def instance(fleet: MadeFleet, subnet: str, machine: str) -> str:
    reply = client("ec2").run_instances(
        ImageId=_image(),
        InstanceType="t3.small",
        MinCount=1,
        MaxCount=1,
        SubnetId=subnet,
        TagSpecifications=[
            *fleet.specification("instance", machine=machine, standby="false"),
            *fleet.specification("volume", machine=machine),
        ],
    )
    return fleet.keep("instance", reply["Instances"][0]["InstanceId"])


def network(fleet: MadeFleet) -> str:
    """VPC, gateway, routes, two groups that name each other, a subnet; returns the subnet."""
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.80.0.0/16", TagSpecifications=fleet.specification("vpc"))
    vpc_id = fleet.keep("VPC", vpc["Vpc"]["VpcId"])
    gateway = ec2.create_internet_gateway(TagSpecifications=fleet.specification("internet-gateway"))
    gateway_id = fleet.keep("internet gateway", gateway["InternetGateway"]["InternetGatewayId"])
    ec2.attach_internet_gateway(InternetGatewayId=gateway_id, VpcId=vpc_id)
    subnet = ec2.create_subnet(
        VpcId=vpc_id, CidrBlock="10.80.0.0/20", TagSpecifications=fleet.specification("subnet")
    )
    subnet_id = fleet.keep("subnet", subnet["Subnet"]["SubnetId"])
    table = ec2.create_route_table(
        VpcId=vpc_id, TagSpecifications=fleet.specification("route-table")
    )
    table_id = fleet.keep("route table", table["RouteTable"]["RouteTableId"])
    ec2.associate_route_table(RouteTableId=table_id, SubnetId=subnet_id)
    groups = [_security_group(fleet, vpc_id, name) for name in ("agents", "runner")]
    for group, peer in (groups, groups[::-1]):
        rule = {"IpProtocol": "tcp", "FromPort": 7443, "ToPort": 7443}
        rule["UserIdGroupPairs"] = [{"GroupId": peer}]
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    interface = ec2.create_network_interface(
        SubnetId=subnet_id,
        Groups=groups,
        TagSpecifications=fleet.specification("network-interface", machine="web-1"),
    )
    interface_id = interface["NetworkInterface"]["NetworkInterfaceId"]
    fleet.keep("network interface", interface_id)
    address = ec2.allocate_address(
        Domain="vpc", TagSpecifications=fleet.specification("elastic-ip", machine="web-1")
    )["AllocationId"]
    ec2.associate_address(AllocationId=address, NetworkInterfaceId=interface_id)
    fleet.keep("elastic IP", address)
    return subnet_id


def _security_group(fleet: MadeFleet, vpc: str, name: str) -> str:
    group = client("ec2").create_security_group(
        GroupName=f"sc-{fleet.experiment}-{name}",
        Description=name,
        VpcId=vpc,
        TagSpecifications=fleet.specification("security-group"),
    )
    return fleet.keep("security group", group["GroupId"])


def group_of_one(fleet: MadeFleet, subnet: str, machine: str) -> str:
    """An auto-scaling group of one machine, as the scheme `cloud` has them."""
    ec2, scaling = client("ec2"), client("autoscaling")
    name = f"sc-{fleet.experiment}-{machine}"
    template = ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={"ImageId": _image(), "InstanceType": "t3.small"},
        TagSpecifications=fleet.specification("launch-template", machine=machine),
    )["LaunchTemplate"]["LaunchTemplateId"]
    fleet.keep("launch template", template)
    tags = [{**tag, "PropagateAtLaunch": True} for tag in fleet.tags(machine=machine)]
    scaling.create_auto_scaling_group(
        AutoScalingGroupName=name,
        LaunchTemplate={"LaunchTemplateId": template, "Version": "$Latest"},
        MinSize=1,
        MaxSize=1,
        DesiredCapacity=1,
        VPCZoneIdentifier=subnet,
        Tags=tags,
    )
    return fleet.keep("auto-scaling group", name)


def files(fleet: MadeFleet) -> None:
    """Objects that the machines are made of, below the VPC's id in the account's bucket."""
    s3, bucket = client("s3"), f"sparecraft-fleets-{ACCOUNT}-{REGION}"
    if bucket not in {bucket_entry["Name"] for bucket_entry in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    for name in ("sparecraft.tar.gz", "machines/db-1.json"):
        s3.put_object(Bucket=bucket, Key=f"{fleet.ids['VPC'][0]}/{name}", Body=b"a key")


def schedules(fleet: MadeFleet) -> None:
    """Make the group of the schedules that end the fleet's machines."""
    name = f"sc-{fleet.experiment}"
    client("scheduler").create_schedule_group(Name=name, Tags=fleet.tags())
    fleet.keep("schedule group", name)


def whole_fleet(experiment: str, expires: str) -> MadeFleet:
    """Make a fleet with every kind of resource: a machine, a machine in a group, and the rest."""
    fleet = MadeFleet(experiment, expires)
    subnet = network(fleet)
    instance(fleet, subnet, "db-1")
    group_of_one(fleet, subnet, "web-1")
    files(fleet)
    schedules(fleet)
    return fleet
