"""`infra/account/sweep.py` at moto: what outlived its fleet ends, whatever its tags or its
protection say, and nothing else does."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

from experiments.paths import ROOT
from experiments.tests.aws import REGION, in_front_of
from experiments.tests.aws_calls import Watch
from experiments.tests.ec2_fixture import MadeFleet, client, group_of_one, instance, network
from experiments.tests.iam import allows, read

FOLDER = ROOT / "infra" / "account"
NOW = datetime.now(UTC)


@pytest.fixture
def sweep(aws_account: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, in an account of its own."""
    del aws_account
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("sweep")


def _at(hours: float) -> str:
    return f"{NOW + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}"


def _fleet(experiment: str, expires: str) -> tuple[str, str]:
    """A machine and a group of one."""
    made = MadeFleet(experiment, expires)
    subnet = network(made)
    return instance(made, subnet, "db-1"), group_of_one(made, subnet, "web-1")


def _states() -> dict[str, str]:
    held = client("ec2").describe_instances()["Reservations"]
    return {one["InstanceId"]: one["State"]["Name"] for group in held for one in group["Instances"]}


def test_what_outlived_its_fleet_ends_protected_or_not(sweep: ModuleType) -> None:
    machine, group = _fleet("tst-old", _at(-1))
    kept, young = _fleet("tst-young", _at(1))
    stranger = client("ec2").run_instances(
        ImageId=client("ec2").describe_images(Owners=["amazon"])["Images"][0]["ImageId"],
        MinCount=1,
        MaxCount=1,
    )["Instances"][0]["InstanceId"]
    client("ec2").modify_instance_attribute(
        InstanceId=machine, DisableApiTermination={"Value": True}
    )
    client("ec2").stop_instances(InstanceIds=[machine])
    assert sweep.sweep([REGION], NOW, dry_run=True) == [f"group {group}", f"machine {machine}"]
    assert _states()[machine] == "stopped"
    assert sweep.sweep([REGION], NOW) == [f"group {group}", f"machine {machine}"]
    states = _states()
    assert states[machine] == "terminated"
    assert (states[kept], states[stranger]) == ("running", "running")
    groups = client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    assert [one["AutoScalingGroupName"] for one in groups] == [young]
    assert sweep.sweep([REGION], NOW) == []


@pytest.mark.parametrize(
    "expires", [_at(24 * 365), "next year", ""], ids=["a date", "words", "nothing"]
)
def test_a_week_and_a_day_is_the_most_whatever_the_tag_says(
    sweep: ModuleType, expires: str
) -> None:
    machine, group = _fleet("tst-long", expires)
    assert sweep.sweep([REGION], NOW + timedelta(days=7)) == []
    assert sweep.sweep([REGION], NOW + timedelta(days=9)) == [
        f"group {group}",
        f"machine {machine}",
    ]


def test_a_restart_makes_no_machine_younger(sweep: ModuleType) -> None:
    made = NOW - timedelta(days=9)
    attached = [{"Ebs": {"AttachTime": made}}]
    tags = [{"Key": "sparecraft:experiment", "Value": "tst"}]
    begun: dict[str, Any] = {"LaunchTime": NOW, "BlockDeviceMappings": attached}
    one = sweep._expiring("machine", "i-1", tags, sweep._beginnings(begun))
    assert sweep.outlived([one], NOW) == [one]


def test_a_later_end_of_one_machine_is_the_end_of_all_of_its_experiment(sweep: ModuleType) -> None:
    kinds = [("i-1", NOW - timedelta(hours=1)), ("i-2", NOW + timedelta(hours=1))]
    things = [sweep.Resource("machine", name, "tst", NOW, end) for name, end in kinds]
    assert sweep.outlived(things, NOW) == []


def test_its_policy_allows_what_it_calls_and_no_stranger_s_end(
    sweep: ModuleType, aws_account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fleet("tst-old", _at(-1))
    policy = read(FOLDER / "role-sweep.json")
    watch = Watch(aws_account)
    with in_front_of(aws_account, watch) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        assert len(sweep.sweep([REGION], NOW)) == 2
    refused = [
        one for one in watch.asked if not allows(policy, one.action, one.resource, one.context)
    ]
    assert refused == []
    assert "ec2:TerminateInstances" in {one.action for one in watch.asked}
    keys = {"aws:RequestedRegion": REGION, "aws:ResourceTag/team": "billing"}
    stranger = f"arn:aws:ec2:{REGION}:123456789012:instance/i-9"
    assert not allows(policy, "ec2:TerminateInstances", stranger, keys)
