"""Resources with our tags in an account, with moto: they are found and, when expired, removed."""

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


def _kinds(tagged: list[TaggedResource]) -> dict[str, set[str]]:
    kinds = dict[str, set[str]]()
    for resource in tagged:
        kinds.setdefault(resource.kind, set()).add(resource.id)
    return kinds


def test_every_kind_that_a_fleet_is_made_of_is_found_with_its_experiment_and_end() -> None:
    fleet = whole_fleet("tst-a", PAST)
    client("ec2").create_vpc(CidrBlock="10.99.0.0/16")  # somebody else's
    tagged = resources.find(Aws(REGION))
    kinds = _kinds(tagged)
    for kind, identifiers in fleet.ids.items():
        assert set(identifiers) <= kinds[kind], kind
    assert len(kinds["instance"]) == 2, "the group's machine too"
    assert len(kinds["VPC"]) == 1
    assert {resource.experiment for resource in tagged} == {"tst-a"}
    assert {resource.expires.isoformat() for resource in tagged if resource.expires} == {
        "2026-03-01T11:00:00+00:00"
    }


def test_only_experiments_whose_last_end_is_past_have_outlived() -> None:
    whole_fleet("tst-old", PAST)
    young_fleet = MadeFleet("tst-young", FUTURE)
    subnet = network(young_fleet)
    instance(MadeFleet("tst-young", PAST), subnet, "web-9")  # tagged before its life was extended
    instance(MadeFleet("tst-odd", "next week"), subnet, "web-1")
    aws = Aws(REGION)
    tagged = resources.find(aws)
    assert {resource.experiment for resource in tagged} == {"tst-old", "tst-young", "tst-odd"}
    expired = resources.find_expired(tagged, NOW)
    assert {resource.experiment for resource in expired} == {"tst-old"}
    assert {resource.id for resource in expired} == {
        resource.id for resource in resources.find(aws, "tst-old")
    }


def test_what_something_else_holds_is_named_and_all_the_rest_goes() -> None:
    whole_fleet("tst-old", PAST)
    young_fleet = MadeFleet("tst-young", FUTURE)
    holder = instance(young_fleet, network(young_fleet), "web-1")
    old_fleet = MadeFleet("tst-old", PAST)
    ec2 = client("ec2")
    zone = ec2.describe_instances(InstanceIds=[holder])["Reservations"][0]["Instances"][0]
    volume = ec2.create_volume(
        AvailabilityZone=zone["Placement"]["AvailabilityZone"],
        Size=1,
        TagSpecifications=old_fleet.specification("volume"),
    )["VolumeId"]
    ec2.attach_volume(VolumeId=volume, InstanceId=holder, Device="/dev/sdf")
    aws = Aws(REGION)
    tagged = resources.find(aws, "tst-old")
    for _ in range(2):  # the second time some resources are gone already
        with pytest.raises(EnvironmentMissing) as caught:
            sweep.remove(aws, tagged, lambda _: None, timeout_s=0.2)
        assert re.fullmatch(f"volume {volume}: VolumeInUse[^;]*", caught.value.got)
        # moto fails to delete a schedule group that is gone.
        tagged = [resource for resource in tagged if resource.kind != "schedule group"]
    assert [resource.id for resource in resources.find(aws, "tst-old")] == [volume]
    assert _kinds(resources.find(aws, "tst-young"))["instance"] == {holder}


def test_a_placement_group_is_found_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto has no placement groups: botocore's stub stands for EC2 here."""
    monkeypatch.setattr(sweep, "_POLL_S", 0.01)
    aws = Aws(REGION)
    tags = MadeFleet("tst-old", PAST).tags()
    description = {"PlacementGroups": [{"GroupName": "sc-tst-old", "Tags": tags}]}
    tag_description = {"ResourceId": "pg-1", "ResourceType": "placement-group", **tags[0]}
    with Stubber(aws.client("ec2")) as ec2:
        ec2.add_response("describe_tags", {"Tags": [tag_description]})
        ec2.add_response("describe_placement_groups", description, {"GroupIds": ["pg-1"]})
        ec2.add_client_error("delete_placement_group", "InvalidPlacementGroup.InUse")
        ec2.add_response("delete_placement_group", {}, {"GroupName": "sc-tst-old"})
        groups = list(resources.placement_groups(aws))
        assert [str(group) for group in groups] == ["placement group sc-tst-old"]
        lines: list[str] = []
        sweep.remove(aws, groups, lines.append)
        ec2.assert_no_pending_responses()
    assert lines == ["removed placement group sc-tst-old"]
