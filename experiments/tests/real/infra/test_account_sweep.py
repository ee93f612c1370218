"""`infra/account/sweep.py` with moto: what outlived its fleet ends, whatever its tags or its
protection say, and nothing else does."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

from experiments.paths import ROOT
from experiments.tests.aws import ACCOUNT, REGION, in_front_of
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
    fleet = MadeFleet(experiment, expires)
    subnet = network(fleet)
    return instance(fleet, subnet, "db-1"), group_of_one(fleet, subnet, "web-1")


def _states() -> dict[str, str]:
    reservations = client("ec2").describe_instances()["Reservations"]
    return {
        machine["InstanceId"]: machine["State"]["Name"]
        for reservation in reservations
        for machine in reservation["Instances"]
    }


def test_what_outlived_its_fleet_ends_protected_or_not(sweep: ModuleType) -> None:
    machine, group = _fleet("tst-old", _at(-1))
    young_machine, young_group = _fleet("tst-young", _at(1))
    foreign_machine = client("ec2").run_instances(
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
    assert (states[young_machine], states[foreign_machine]) == ("running", "running")
    groups = client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    assert [scaling_group["AutoScalingGroupName"] for scaling_group in groups] == [young_group]
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
    attached_at = NOW - timedelta(days=9)
    attached = [{"Ebs": {"AttachTime": attached_at}}]
    tags = [{"Key": "sparecraft:experiment", "Value": "tst"}]
    begun: dict[str, Any] = {"LaunchTime": NOW, "BlockDeviceMappings": attached}
    resource = sweep._expiring("machine", "i-1", tags, sweep._beginnings(begun))
    assert sweep.select_outlived([resource], NOW) == [resource]


def test_a_later_end_of_one_machine_is_the_end_of_all_of_its_experiment(sweep: ModuleType) -> None:
    kinds = [("i-1", NOW - timedelta(hours=1)), ("i-2", NOW + timedelta(hours=1))]
    resources = [sweep.Resource("machine", name, "tst", NOW, expires) for name, expires in kinds]
    assert sweep.select_outlived(resources, NOW) == []


def test_its_policy_allows_what_it_calls_and_no_stranger_s_end(
    sweep: ModuleType, aws_account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fleet("tst-old", _at(-1))
    policy = read(FOLDER / "role-sweep.json")
    watch = Watch(aws_account)
    with in_front_of(aws_account, watch) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        assert len(sweep.sweep([REGION], NOW)) == 2
    not_allowed = [
        authorisation
        for authorisation in watch.asked
        if not allows(policy, authorisation.action, authorisation.resource, authorisation.context)
    ]
    assert not_allowed == []
    assert "ec2:TerminateInstances" in {authorisation.action for authorisation in watch.asked}
    keys = {"aws:RequestedRegion": REGION, "aws:ResourceTag/team": "billing"}
    foreign_arn = f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/i-9"
    assert not allows(policy, "ec2:TerminateInstances", foreign_arn, keys)
