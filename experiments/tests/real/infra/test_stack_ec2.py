"""The stack of EC2, applied at moto by the real provider: both schemes, checked and destroyed.

What moto cannot show is in infra/stacks/ec2/README.md, "What the tests of EC2 prove".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from experiments.design.inventory import Inventory
from experiments.testbed.platforms.ec2 import resources
from experiments.testbed.platforms.ec2.attached import AttachedFleet
from experiments.tests.aws import moto_server
from experiments.tests.ec2_instance import host_address, instance
from experiments.tests.ec2_stack import (
    CLOUD,
    DEBIAN,
    EXPIRES,
    ON_PREM,
    AppliedStack,
    aws_of,
    moto_settings,
    prepared,
    tags,
)

pytestmark = pytest.mark.long

# What moto forgets or adds: an instance's groups beside its interfaces' ones, what a
# rule between groups is for, a template's own tags among those of its machines.
_MOTO_DRIFT = {
    "aws_autoscaling_group": {"launch_template", "capacity_reservation_specification"},
    "aws_instance": {"vpc_security_group_ids"},
    "aws_launch_template": {"default_version", "latest_version", "tag_specifications"},
    "aws_vpc_security_group_egress_rule": {"description"},
    "aws_vpc_security_group_ingress_rule": {"description"},
}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A moto server that knows Debian's image and AWS's policies."""
    folder = tmp_path_factory.mktemp("moto")
    with moto_server(folder / "moto.log", host_address(), **moto_settings(folder)) as url:
        prepared(url)
        yield url


def _applied(stack: AppliedStack) -> Iterator[AppliedStack]:
    try:
        stack.apply()
        yield stack
    finally:
        stack.destroy()


@pytest.fixture(scope="module")
def fixed(
    account: str, bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AppliedStack]:
    """The scheme on-prem: two tiers, one standby, two load machines.

    MariaDB has content, as where its image is on this machine; nothing reads what is in it.
    """
    (bundle / "content" / "mariadb.tar.gz").touch()
    folder = tmp_path_factory.mktemp("fixed")
    yield from _applied(AppliedStack(folder, account, bundle, ON_PREM))


@pytest.fixture(scope="module")
def cloud(
    account: str, bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AppliedStack]:
    """The scheme cloud: one tier, spot."""
    folder = tmp_path_factory.mktemp("cloud")
    yield from _applied(AppliedStack(folder, account, bundle, CLOUD))


def test_every_thing_carries_its_experiment_and_its_end(
    fixed: AppliedStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagged = resources.find(aws_of(fixed, monkeypatch), fixed.experiment)
    kinds = {resource.kind for resource in tagged}
    assert kinds >= {
        *("instance", "network interface", "volume", "VPC endpoint", "schedule group"),
        *("security group", "route table", "internet gateway", "subnet", "VPC"),
    }
    assert {resource.tags.get("sparecraft:expires") for resource in tagged} == {EXPIRES}
    ec2, ids = fixed.client("ec2"), {resource.id for resource in tagged}
    vpc = [
        {"Name": "vpc-id", "Values": [resource.id for resource in tagged if resource.kind == "VPC"]}
    ]
    subnets = {subnet["SubnetId"] for subnet in ec2.describe_subnets(Filters=vpc)["Subnets"]}
    assert subnets <= ids, "one of these has no tag"
    interfaces = ec2.describe_network_interfaces(Filters=vpc)["NetworkInterfaces"]
    fleet_interfaces = [
        interface for interface in interfaces if interface["Description"].startswith("sc-")
    ]
    assert {interface["NetworkInterfaceId"] for interface in fleet_interfaces} <= ids, (
        "one of these has no tag"
    )
    other_interfaces = [interface for interface in interfaces if interface not in fleet_interfaces]
    assert {interface["Attachment"]["DeviceIndex"] for interface in other_interfaces} == {0}, (
        "it goes with its instance"
    )


def test_a_machine_s_things_say_whose_they_are(fixed: AppliedStack) -> None:
    for name, machine in fixed.instances().items():
        machine_tags = tags(machine)
        assert machine_tags["Name"] == f"sc-{fixed.experiment}-{name}"
        assert machine_tags["sparecraft:standby"] == ("true" if name == "web-2" else "false")
        assert machine_tags["sparecraft:tier"] == {"arbiter-web": "web", "db-1": "db"}.get(
            name, machine_tags["sparecraft:tier"]
        )
    assert {tags(machine)["sparecraft:role"] for machine in fixed.instances().values()} == {
        *("arbiter", "influxdb", "load", "mariadb", "mediawiki")
    }


def test_machines_are_closed_encrypted_and_end_with_a_shutdown(fixed: AppliedStack) -> None:
    ec2 = fixed.client("ec2")
    machines = fixed.instances()
    assert set(machines) == {
        *("arbiter-db", "arbiter-web", "db-1", "influxdb-1", "load-1", "load-2", "web-1", "web-2")
    }
    assert {machine["State"]["Name"] for machine in machines.values()} == {"running"}
    for name, machine in machines.items():
        assert machine["MetadataOptions"]["HttpTokens"] == "required", name
        shutdown = ec2.describe_instance_attribute(
            InstanceId=machine["InstanceId"], Attribute="instanceInitiatedShutdownBehavior"
        )
        behaviour = "stop" if name == "web-2" else "terminate"
        assert shutdown["InstanceInitiatedShutdownBehavior"]["Value"] == behaviour, name
        (disk,) = machine["BlockDeviceMappings"]
        (volume,) = ec2.describe_volumes(VolumeIds=[disk["Ebs"]["VolumeId"]])["Volumes"]
        assert (volume["Encrypted"], volume["VolumeType"], volume["Size"]) == (True, "gp3", 16)
        (way_out,) = machine["NetworkInterfaces"]
        assert [group["GroupName"] for group in way_out["Groups"]] == [
            f"sc-{fixed.experiment}-egress"
        ]


def test_only_who_has_to_may_call(fixed: AppliedStack) -> None:
    ec2 = fixed.client("ec2")
    filters = [{"Name": "tag:sparecraft:experiment", "Values": [fixed.experiment]}]
    groups = ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
    name = {group["GroupId"]: group["GroupName"].split("fixed-")[-1] for group in groups}
    conversations = {("in", rule) for group in groups for rule in _rules(group, name, True)}
    conversations |= {("out", rule) for group in groups for rule in _rules(group, name, False)}
    calls = {
        ("runner", "agents", 7443, 7443),
        ("runner", "control-arbiters", 9300, 9300),
        ("runner", "control-influxdb", 8086, 8086),
        ("agents", "control-influxdb", 8086, 8086),
        ("control-load", "runner", 5557, 5557),
        ("load", "arbiter-web", 80, 80),
        ("arbiter-web", "tier-web", 80, 80),
        ("tier-web", "arbiter-db", 3306, 3306),
        ("arbiter-db", "tier-db", 3306, 3306),
        ("tier-web", "tier-web", 5201, 5400),
        ("tier-db", "tier-db", 5201, 5400),
    }
    outbound = {("egress", "0.0.0.0/0", port, port) for port in (80, 443)}
    assert conversations == {(direction, call) for direction in ("in", "out") for call in calls} | {
        ("out", rule) for rule in outbound
    }


def _rules(
    group: dict[str, Any], name: dict[str, str], coming_in: bool
) -> Iterator[tuple[str, str, int, int]]:
    group_name = name[group["GroupId"]]
    for rule in group["IpPermissions" if coming_in else "IpPermissionsEgress"]:
        group_names = [name[peer_group["GroupId"]] for peer_group in rule["UserIdGroupPairs"]]
        for peer in [*group_names, *(ip_range["CidrIp"] for ip_range in rule["IpRanges"])]:
            pair = (peer, group_name) if coming_in else (group_name, peer)
            yield (*pair, rule["FromPort"], rule["ToPort"])


def test_interfaces_keep_the_spec_s_addresses_in_two_zones(fixed: AppliedStack) -> None:
    interfaces = fixed.client("ec2").describe_network_interfaces()["NetworkInterfaces"]
    described = {
        interface["Description"]: interface
        for interface in interfaces
        if interface["Description"].startswith("sc-")
    }
    fleet = Inventory.model_validate(fixed.output("fleet"))
    for machine in fleet.machines:
        data = described[f"sc-{fixed.experiment}-{machine.name}-data"]
        control = described[f"sc-{fixed.experiment}-{machine.name}-control"]
        assert data["PrivateIpAddress"] == machine.address
        assert f"https://{control['PrivateIpAddress']}:7443" == machine.agent_url
        assert data["AvailabilityZone"] == control["AvailabilityZone"]
    zones = [
        described[f"sc-{fixed.experiment}-web-{number}-data"]["AvailabilityZone"]
        for number in (1, 2)
    ]
    assert len(set(zones)) == 2, "a tier's machines take turns"
    assert fleet.machine("web-1").usd_per_hour == 0.0228
    assert fleet.machine("arbiter-web").usd_per_hour == 0.091
    (entry,) = fleet.endpoints.entries
    assert entry.urls == (f"http://{fleet.machine('arbiter-web').address}/",)


def test_each_machine_is_told_its_own_settings_only_by_a_name_that_no_other_can_guess(
    fixed: AppliedStack,
) -> None:
    bucket, prefix = fixed.files()
    assert prefix.startswith("vpc-")
    objects = fixed.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    names = {entry["Key"].removeprefix(f"{prefix}/") for entry in objects}
    assert names >= {"expires", "sparecraft.tar.gz", "content/mariadb.tar.gz"}
    settings_of = {name: fixed.settings(name) for name in fixed.instances()}
    assert len([file_name for file_name in names if file_name.startswith("machines/")]) == len(
        settings_of
    )
    for name, settings in settings_of.items():
        key = settings["files"].get("/etc/sparecraft/tls/key.pem", {}).get("content")
        assert (key is None) == name.startswith("load-"), "no key of its own to hide the name by"
    profiles = {
        name: machine["IamInstanceProfile"]["Arn"].split(":instance-profile/")[1]
        for name, machine in fixed.instances().items()
    }
    assert profiles == {
        name: "sparecraft/sparecraft-" + {"load-1": "runner", "load-2": "load"}.get(name, "machine")
        for name in settings_of
    }


def test_no_fleet_makes_a_role_a_profile_or_a_bucket(fixed: AppliedStack) -> None:
    names = {role["RoleName"] for role in fixed.client("iam").list_roles()["Roles"]}
    profiles = fixed.client("iam").list_instance_profiles()["InstanceProfiles"]
    names |= {profile["InstanceProfileName"] for profile in profiles}
    buckets = {bucket["Name"] for bucket in fixed.client("s3").list_buckets()["Buckets"]}
    assert {name for name in names if fixed.experiment in name} == set()
    assert {name for name in buckets if name.startswith("sc-") or fixed.experiment in name} == set()


def test_the_runner_gets_the_fleet_and_its_keys_and_workers_their_master(
    fixed: AppliedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = fixed.output("load")
    machines = fixed.instances()
    assert load["runner"] == machines["load-1"]["InstanceId"]
    assert [machine["name"] for machine in load["machines"]] == ["load-1", "load-2"]
    runner_file = tmp_path / "runner.json"
    runner_file.write_text(
        fixed.settings("load-1")["files"]["/etc/sparecraft/runner.json"]["content"]
    )
    aws_of(fixed, monkeypatch)
    platform = AttachedFleet(fixed.experiment, runner_file)
    assert platform.inventory() == Inventory.model_validate(fixed.output("fleet"))
    assert platform.identity().client_private_key_pem.startswith("-----BEGIN")
    worker = fixed.settings("load-2")
    assert worker["program"] == "/opt/sparecraft/role/start.sh"
    assert worker["files"]["/etc/sparecraft/role.env"]["content"] == (
        f"ROLE=load\nLOAD_MASTER={load['machines'][0]['address']}\n"
    )
    assert "/etc/sparecraft/runner.json" not in worker["files"]


def test_every_instance_without_a_group_is_ended_from_outside_in_time(fixed: AppliedStack) -> None:
    scheduler = fixed.client("scheduler")
    group = f"sc-{fixed.experiment}"
    summaries = scheduler.list_schedules(GroupName=group)["Schedules"]
    schedules = [
        scheduler.get_schedule(GroupName=group, Name=summary["Name"]) for summary in summaries
    ]
    instance_ids = [
        json.loads(schedule["Target"]["Input"])["InstanceIds"] for schedule in schedules
    ]
    assert sorted(instance_ids) == sorted(
        [machine["InstanceId"]] for machine in fixed.instances().values()
    )
    for schedule in schedules:
        assert schedule["ScheduleExpression"] == f"at({EXPIRES.removesuffix('Z')})"
        assert schedule["ScheduleExpressionTimezone"] == "UTC"
        assert schedule["Target"]["Arn"] == "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances"
        assert schedule["Target"]["RoleArn"].endswith(":role/sparecraft/sparecraft-end")


def test_standbys_need_no_address_of_their_own_and_stop_themselves(fixed: AppliedStack) -> None:
    assert fixed.client("ec2").describe_addresses()["Addresses"] == []
    assert "SC_STANDBY='true'" in fixed.user_data("web-2")


_WITH_A_STOCK_IMAGE = ON_PREM["tiers"] | {"db": ON_PREM["tiers"]["db"] | {"image": "mariadb:11"}}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"spot": True}, ['Expected scheme "cloud" with spot']),
        ({"helper_instance_type": "t3.micro"}, ["three network interfaces"]),
        ({"tiers": _WITH_A_STOCK_IMAGE}, ["Expected no image for a tier of instances (db-1)"]),
        (
            {"placement": "cluster", "session_manager_key": None},
            ["T types cannot be in a cluster (got t3.small for db-1", "a way in to the runner"],
        ),
        ({"expires": "2026-01-01T00:00:00Z"}, ["Expected expires to be in the future"]),
        ({"expires": EXPIRES.replace("Z", "+02:00")}, ["Expected expires as a time in UTC"]),
        ({"expires": "2199-01-01T00:00:00Z"}, ["at most ttl_hours (4) from now"]),
        ({"disk_gb": 500}, ["Expected disk_gb from 8 to 200"]),
    ],
    ids=["spot", "interfaces", "stock image", "cluster", "past", "offset", "too far", "disk"],
)
def test_what_ec2_cannot_do_is_refused_in_the_plan(
    fixed: AppliedStack, tmp_path: Path, given: dict[str, Any], says: list[str]
) -> None:
    file = tmp_path / "given.tfvars.json"
    file.write_text(json.dumps(given))
    output = fixed.terraform("plan", "-refresh=false", f"-var-file={file}", fails=True)
    text = " ".join(output.replace("│", " ").split())
    assert [sentence for sentence in says if sentence not in text] == [], text


def test_a_second_plan_of_the_fixed_fleet_changes_nothing_but_what_moto_forgets(
    fixed: AppliedStack,
) -> None:
    assert _surprising(fixed.changed()) == {}


def test_a_later_end_and_a_newer_image_make_no_machine_anew(fixed: AppliedStack) -> None:
    """Withdraw the newest image: another one is the newest then."""
    later_end = f"{datetime.fromisoformat(EXPIRES) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    fixed.client("ec2").deregister_image(ImageId=DEBIAN)
    changes = _surprising(fixed.changed("-var", f"expires={later_end}"))
    assert changes.pop("aws_scheduler_schedule") == {"schedule_expression"}
    assert "content" in changes.pop("aws_s3_object")
    changed_attributes = {attribute for attributes in changes.values() for attribute in attributes}
    assert changed_attributes <= {"tags", "tags_all", "root_block_device"}, changes


def test_nothing_is_left_of_the_fixed_fleet(
    fixed: AppliedStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    _destroyed_whole(fixed, monkeypatch)


def test_groups_of_one_keep_the_cloud_s_machines_and_let_go_in_time(cloud: AppliedStack) -> None:
    scaling = cloud.client("autoscaling")
    groups = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    names = {f"sc-{cloud.experiment}-{name}" for name in ("arbiter-cache", "cache-1", "cache-2")}
    assert {group["AutoScalingGroupName"] for group in groups} == names
    for group in groups:
        assert (group["MinSize"], group["MaxSize"], group["DesiredCapacity"]) == (1, 1, 1)
        assert all(tag["PropagateAtLaunch"] for tag in group["Tags"])
    actions = scaling.describe_scheduled_actions()["ScheduledUpdateGroupActions"]
    assert {action["AutoScalingGroupName"] for action in actions} == names
    for action in actions:
        assert (action["MinSize"], action["MaxSize"], action["DesiredCapacity"]) == (0, 0, 0)
        assert f"{action['StartTime']:%Y-%m-%dT%H:%M:%SZ}" == EXPIRES
    machines = cloud.instances()
    assert set(machines) == {"arbiter-cache", "cache-1", "cache-2", "influxdb-1", "load-1"}
    grouped = {
        name for name, machine in machines.items() if "aws:autoscaling:groupName" in tags(machine)
    }
    assert grouped == {"arbiter-cache", "cache-1", "cache-2"}
    assert {tags(machine)["sparecraft:expires"] for machine in machines.values()} == {EXPIRES}


def test_templates_of_groups_say_what_the_fixed_machines_have(cloud: AppliedStack) -> None:
    ec2 = cloud.client("ec2")
    templates = ec2.describe_launch_templates()["LaunchTemplates"]
    assert len(templates) == 3
    for template in templates:
        (version,) = ec2.describe_launch_template_versions(
            LaunchTemplateId=template["LaunchTemplateId"]
        )["LaunchTemplateVersions"]
        template_data = version["LaunchTemplateData"]
        assert template_data["MetadataOptions"]["HttpTokens"] == "required"
        disk = template_data["BlockDeviceMappings"][0]["Ebs"]
        assert disk["Encrypted"] in (True, "true")
        assert disk["VolumeType"] == "gp3"
        assert template_data["InstanceMarketOptions"]["MarketType"] == "spot"
        assert template_data["InstanceInitiatedShutdownBehavior"] == "terminate"
        burstable = template_data["InstanceType"].startswith("t3.")
        assert (template_data.get("CreditSpecification") == {"CpuCredits": "standard"}) == burstable
        kinds = {
            specification["ResourceType"]: tags(specification)
            for specification in template_data["TagSpecifications"]
        }
        for kind in ("instance", "volume", "network-interface"):
            assert kinds[kind]["sparecraft:experiment"] == cloud.experiment
            assert kinds[kind]["sparecraft:expires"] == EXPIRES


def test_a_second_plan_of_the_cloud_changes_nothing_but_what_moto_forgets(
    cloud: AppliedStack,
) -> None:
    # This runs before the next test, which overwrites an object of the bucket without its tags.
    assert _surprising(cloud.changed()) == {}


def test_user_data_makes_a_machine_whose_agent_says_ready(cloud: AppliedStack) -> None:
    """cache-1, in a container of the same Debian: interfaces, files, role, content, agent."""
    with instance(cloud, "cache-1", host_address()) as machine:
        machine.run("tee", "/root/user-data", text=cloud.user_data("cache-1"))
        machine.run("bash", "/root/user-data")
        timer = machine.run("cat", "/etc/systemd/system/sparecraft-end.timer")
        assert "OnUnitActiveSec=300s\n" in timer
        boot = ("/usr/local/sbin/sparecraft-boot", "every-boot")
        assert "cache-1 is made" in machine.run(*boot)
        fleet = Inventory.model_validate(cloud.output("fleet")).machine("cache-1")
        control = fleet.agent_url.removeprefix("https://").split(":")[0]
        addresses = {interface["address"] for interface in machine.settings["interfaces"]}
        assert addresses == {fleet.address, control}
        assert addresses <= set(machine.run("hostname", "-I").split())
        rules = machine.run("ip", "rule")
        assert f"from {control} lookup 101" in rules
        assert f"from {fleet.address} lookup 102" in rules
        assert machine.run("stat", "-c", "%a", "/etc/sparecraft/tls/key.pem") == "600\n"
        unit = machine.run("cat", "/etc/systemd/system/sparecraft-machine.service")
        assert "ExecStart=/opt/sparecraft/bin/nodeagent\n" in unit
        machine.run("/opt/sparecraft/bin/nodeagent", detached=True)
        health = json.loads(
            machine.run("python3", "-", text=_ASK % (_keys(cloud, fleet.agent_url),))
        )
        assert health["ready"] is True, health
        changed_at = machine.run("stat", "-c", "%Y", "/opt/sparecraft/role/install.sh")
        machine.run(*boot)
        assert machine.run("stat", "-c", "%Y", "/opt/sparecraft/role/install.sh") == changed_at
        machine.run(boot[0], "end-if-expired")
        bucket, prefix = cloud.files()
        past_end = {"Bucket": bucket, "Key": f"{prefix}/expires", "Body": b"2026-01-01T00:00:00Z"}
        cloud.client("s3").put_object(**past_end)
        for argument in ("end-if-expired", "every-boot"):
            assert "the time to live of cache-1 is over" in machine.fails(boot[0], argument)
        cloud.client("s3").put_object(**past_end | {"Body": EXPIRES.encode()})
        machine.run("sed", "-i", "s/^export SC_STANDBY=.*/export SC_STANDBY=true/", boot[0])
        assert "standby cache-1 stops itself" in machine.fails(*boot)
        assert "stops itself" not in machine.run(*boot), (
            "a standby's first start is its second boot"
        )
        machine.run("sh", "-c", f"apt-get update -qq && apt-get install -qq {_SYSTEMD}")
        units = machine.run("sh", "-c", "echo /etc/systemd/system/sparecraft-*").split()
        assert len(units) == 4
        machine.run("systemd-analyze", "verify", *units)


_SYSTEMD = "--no-install-recommends systemd systemd-sysv"  # on Debian's image for EC2 it runs


# Runs in the instance, the only place with its control address, until the role is ready.
_ASK = """
import json, ssl, tempfile, time, urllib.request
ca, keys, url = %r
with tempfile.NamedTemporaryFile("w") as file:
    file.write(keys)
    file.flush()
    context = ssl.create_default_context(cadata=ca)
    context.load_cert_chain(file.name)
deadline = time.monotonic() + 120
while True:
    try:
        with urllib.request.urlopen(url, context=context, timeout=5) as answer:
            said = json.load(answer)
    except OSError as error:
        said = {"ready": str(error)}
    if said["ready"] is True or time.monotonic() > deadline:
        break
    time.sleep(0.2)
print(json.dumps(said))
"""


def _keys(stack: AppliedStack, url: str) -> tuple[str, str, str]:
    identity = stack.output("identity")
    keys = identity["client_private_key_pem"] + identity["client_certificate_pem"]
    return identity["ca_certificate_pem"], keys, f"{url}/v1/health"


def test_nothing_is_left_of_the_cloud(cloud: AppliedStack, monkeypatch: pytest.MonkeyPatch) -> None:
    _destroyed_whole(cloud, monkeypatch)


def _surprising(changes: dict[str, set[str]]) -> dict[str, set[str]]:
    surprising = {
        kind: changed_attributes - _MOTO_DRIFT.get(kind, set())
        for kind, changed_attributes in changes.items()
    }
    return {kind: attributes for kind, attributes in surprising.items() if attributes}


def _destroyed_whole(stack: AppliedStack, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, prefix = stack.files()
    stack.destroy()
    assert resources.find(aws_of(stack, monkeypatch), stack.experiment) == []
    assert stack.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["KeyCount"] == 0
    assert json.loads(stack.terraform("show", "-json")).get("values") is None
