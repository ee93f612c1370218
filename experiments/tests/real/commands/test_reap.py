"""Resources with our tags in an account, at moto: found, judged by their time to live, removed."""

from __future__ import annotations

import re

import pytest
from botocore.stub import Stubber  # type: ignore[import-untyped]

from core.errors import EnvironmentMissing
from experiments.testbed.platforms.ec2 import resources, sweep
from experiments.testbed.platforms.ec2.aws import Aws
from experiments.testbed.platforms.ec2.resources import TaggedResource
from experiments.tests.aws import REGION
from experiments.tests.ec2_fixture import (
    FUTURE,
    NOW,
    PAST,
    MadeFleet,
    client,
    instance,
    network,
    whole_fleet,
)

pytestmark = pytest.mark.usefixtures("aws_account")


def _kinds(found: list[TaggedResource]) -> dict[str, set[str]]:
    kinds = dict[str, set[str]]()
    for one in found:
        kinds.setdefault(one.kind, set()).add(one.id)
    return kinds


def test_every_kind_that_a_fleet_is_made_of_is_found_with_its_experiment_and_end() -> None:
    made = whole_fleet("tst-a", PAST)
    client("ec2").create_vpc(CidrBlock="10.99.0.0/16")  # somebody else's
    found = resources.find(Aws(REGION))
    kinds = _kinds(found)
    for kind, identifiers in made.ids.items():
        assert set(identifiers) <= kinds[kind], kind
    assert len(kinds["instance"]) == 2, "the group's machine too"
    assert len(kinds["VPC"]) == 1
    assert {one.experiment for one in found} == {"tst-a"}
    assert {one.expires.isoformat() for one in found if one.expires} == {
        "2026-03-01T11:00:00+00:00"
    }


def test_only_experiments_whose_last_end_is_past_have_outlived() -> None:
    whole_fleet("tst-old", PAST)
    young = MadeFleet("tst-young", FUTURE)
    subnet = network(young)
    instance(MadeFleet("tst-young", PAST), subnet, "web-9")  # tagged before its life was extended
    instance(MadeFleet("tst-odd", "next week"), subnet, "web-1")
    aws = Aws(REGION)
    found = resources.find(aws)
    assert {one.experiment for one in found} == {"tst-old", "tst-young", "tst-odd"}
    over = resources.outlived(found, NOW)
    assert {one.experiment for one in over} == {"tst-old"}
    assert {one.id for one in over} == {one.id for one in resources.find(aws, "tst-old")}


def test_what_something_else_holds_is_named_and_all_the_rest_goes() -> None:
    whole_fleet("tst-old", PAST)
    young = MadeFleet("tst-young", FUTURE)
    holder = instance(young, network(young), "web-1")
    old = MadeFleet("tst-old", PAST)
    ec2 = client("ec2")
    zone = ec2.describe_instances(InstanceIds=[holder])["Reservations"][0]["Instances"][0]
    volume = ec2.create_volume(
        AvailabilityZone=zone["Placement"]["AvailabilityZone"],
        Size=1,
        TagSpecifications=old.specification("volume"),
    )["VolumeId"]
    ec2.attach_volume(VolumeId=volume, InstanceId=holder, Device="/dev/sdf")
    aws = Aws(REGION)
    found = resources.find(aws, "tst-old")
    for _ in range(2):  # what is gone does no harm
        with pytest.raises(EnvironmentMissing) as held:
            sweep.remove(aws, found, lambda _: None, timeout_s=0.2)
        assert re.fullmatch(f"volume {volume}: VolumeInUse[^;]*", held.value.got)
        found = [one for one in found if one.kind != "schedule group"]  # moto fails at none
    assert [one.id for one in resources.find(aws, "tst-old")] == [volume]
    assert _kinds(resources.find(aws, "tst-young"))["instance"] == {holder}


def test_a_placement_group_is_found_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto has none: botocore's stub stands for EC2 here."""
    monkeypatch.setattr(sweep, "_POLL_S", 0.01)
    aws = Aws(REGION)
    tags = MadeFleet("tst-old", PAST).tags()
    found = {"PlacementGroups": [{"GroupName": "sc-tst-old", "Tags": tags}]}
    held = {"ResourceId": "pg-1", "ResourceType": "placement-group", **tags[0]}
    with Stubber(aws.client("ec2")) as ec2:
        ec2.add_response("describe_tags", {"Tags": [held]})
        ec2.add_response("describe_placement_groups", found, {"GroupIds": ["pg-1"]})
        ec2.add_client_error("delete_placement_group", "InvalidPlacementGroup.InUse")
        ec2.add_response("delete_placement_group", {}, {"GroupName": "sc-tst-old"})
        groups = list(resources.placement_groups(aws))
        assert [str(one) for one in groups] == ["placement group sc-tst-old"]
        said: list[str] = []
        sweep.remove(aws, groups, said.append)
        ec2.assert_no_pending_responses()
    assert said == ["removed placement group sc-tst-old"]
