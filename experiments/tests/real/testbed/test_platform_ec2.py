"""The platform EC2, with moto: power and console of machines, and the owner of a fleet.

The stacks of these tests are small ones on Terraform's built-in resource, whose provisioners call
moto through boto3: what is tested here is this platform, not the stack of `infra/stacks/ec2`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.design import load_design
from experiments.paths import ROOT
from experiments.testbed.platforms import Platform
from experiments.testbed.platforms.ec2 import resources
from experiments.testbed.platforms.ec2.attached import AttachedFleet
from experiments.testbed.platforms.ec2.aws import Aws
from experiments.testbed.platforms.ec2.cost_estimate import rental_request
from experiments.testbed.platforms.ec2.platform import Ec2Platform, Rental
from experiments.tests.aws import REGION
from experiments.tests.ec2_fixture import (
    FUTURE,
    MadeFleet,
    client,
    group_of_one,
    instance,
    network,
    whole_fleet,
)

pytestmark = pytest.mark.usefixtures("aws_account")
SMALL = ROOT / "experiments" / "tests" / "designs" / "small"
EXPERIMENT = "tst-ec2"
RENTAL = Rental(2.0, datetime(2026, 3, 1, 13, 0, tzinfo=UTC), usd_per_hour={"t3.small": 0.0228})


@pytest.fixture
def machine() -> str:
    """The instance id of web-1, which runs."""
    fleet = MadeFleet(EXPERIMENT, FUTURE)
    return instance(fleet, network(fleet), "web-1")


@pytest.fixture
def platform() -> Ec2Platform:
    return Ec2Platform(EXPERIMENT, REGION)


@pytest.fixture
def grouped(platform: Ec2Platform) -> str:
    """The instance id of web-1, which a group keeps."""
    fleet = MadeFleet(EXPERIMENT, FUTURE)
    group = group_of_one(fleet, network(fleet), "web-1")
    assert resources.instances(platform.aws, EXPERIMENT, "web-1")[0].group == group
    return _newest(platform)


def _newest(platform: Ec2Platform) -> str:
    return resources.instances(platform.aws, EXPERIMENT, "web-1")[0].id


def _state(identifier: str) -> str:
    description = client("ec2").describe_instances(InstanceIds=[identifier])
    return str(description["Reservations"][0]["Instances"][0]["State"]["Name"])


def test_power_goes_off_and_on_and_what_is_so_already_is_left(
    machine: str, platform: Platform
) -> None:
    for _ in range(2):
        platform.stop("web-1")
        assert not platform.running("web-1")
        assert _state(machine) == "stopped"
    for _ in range(2):
        platform.start("web-1")
        assert platform.running("web-1")
        assert _state(machine) == "running"


def test_a_crash_is_undone_by_power_and_a_reboot_leaves_the_machine_on(
    machine: str, platform: Ec2Platform
) -> None:
    platform.inject("machine.crash", "web-1")
    assert _state(machine) == "stopped"
    for _ in range(2):
        platform.revert("machine.crash", "web-1")
        assert _state(machine) == "running"
    platform.inject("machine.reboot", "web-1")
    platform.revert("machine.reboot", "web-1")
    assert _state(machine) == "running"
    assert platform.through_agent["machine.freeze"] == "process.hang"


def test_the_newest_instance_of_a_name_is_the_machine(platform: Ec2Platform, grouped: str) -> None:
    """The group's first machine was replaced: its successor has another id and the same tags."""
    platform.stop("web-1")
    assert _state(grouped) == "terminated", "a group replaces a machine that is fenced"
    assert _newest(platform) != grouped
    assert platform.running("web-1")


@pytest.mark.parametrize("fenced", [False, True])
def test_a_machine_of_a_group_is_made_anew_by_it_once_however_it_went_off(
    platform: Ec2Platform, grouped: str, fenced: bool
) -> None:
    platform.replace("web-1", print)
    assert _state(grouped) == "running", "one that is on is the new one"
    platform.inject("machine.crash", "web-1")
    platform.revert("machine.crash", "web-1")
    assert _state(grouped) == "stopped", "started again, it would race with its successor"
    if fenced:
        platform.stop("web-1")
    lines: list[str] = []
    for _ in range(2):
        platform.replace("web-1", lines.append)
    assert lines == ["web-1: its group makes a new instance"]
    assert _state(grouped) == "terminated"
    assert _newest(platform) != grouped
    assert platform.running("web-1")


@pytest.mark.parametrize("how", ["crash", "fence"])
def test_a_spot_machine_ends_where_it_cannot_be_stopped(
    platform: Ec2Platform, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """EC2 refuses to stop one of a single request; moto's groups start none, so its word is given
    here."""
    fleet = MadeFleet(EXPERIMENT, FUTURE)
    group_of_one(fleet, network(fleet), "web-1")
    identifier = _newest(platform)
    find_instances = resources.instances

    def spot(*arguments: Any) -> list[resources.TaggedResource]:
        return [replace(resource, spot=True) for resource in find_instances(*arguments)]

    monkeypatch.setattr(resources, "instances", spot)
    if how == "crash":
        platform.inject("machine.crash", "web-1")
        platform.revert("machine.crash", "web-1")
    else:
        platform.stop("web-1")
    assert _state(identifier) == "terminated"
    assert _newest(platform) != identifier


def test_a_machine_that_its_group_has_not_made_yet_needs_no_start(
    platform: Ec2Platform, grouped: str
) -> None:
    group = {"AutoScalingGroupName": f"sc-{EXPERIMENT}-web-1", "MinSize": 0, "DesiredCapacity": 0}
    client("autoscaling").update_auto_scaling_group(**group)
    assert _state(grouped) == "terminated"
    platform.revert("machine.crash", "web-1")
    assert not platform.running("web-1")


def test_a_standby_is_waited_for_until_it_has_stopped_itself(
    machine: str, platform: Ec2Platform
) -> None:
    with pytest.raises(EnvironmentMissing) as caught:
        platform.await_off(["web-1"], 0.1)
    assert caught.value.place == "standby web-1"
    assert "Linux version" in caught.value.got
    client("ec2").stop_instances(InstanceIds=[machine])
    platform.await_off(["web-1"], 0.1)


def test_a_machine_without_a_group_cannot_be_made_anew(machine: str, platform: Ec2Platform) -> None:
    platform.stop("web-1")
    with pytest.raises(EnvironmentMissing, match=f"{machine}, which belongs to none"):
        platform.replace("web-1", print)


def test_a_machine_that_is_not_there_is_said_with_its_name_and_region(
    machine: str, platform: Ec2Platform
) -> None:
    client("ec2").terminate_instances(InstanceIds=[machine])
    assert not platform.running("web-1")
    platform.stop("web-1")
    with pytest.raises(EnvironmentMissing, match=f"web-1 of {EXPERIMENT}, region {REGION}"):
        platform.start("web-1")
    assert "no living one" in platform.machine_logs("web-1")


def test_a_machine_that_never_gets_ready_ends_in_its_console_s_lines(
    machine: str, platform: Ec2Platform
) -> None:
    assert len(platform.machine_logs("web-1").splitlines()) <= 20
    platform.await_up(["web-1"], 0.1)
    client("ec2").stop_instances(InstanceIds=[machine])
    with pytest.raises(EnvironmentMissing) as caught:
        platform.await_up(["web-1", "web-2"], 0.1)
    assert caught.value.place == "machine web-1 (and 1 others)"
    assert f"{machine} is stopped; it printed: " in caught.value.got
    assert "Linux version" in caught.value.got
    assert f"sparecraft down {EXPERIMENT} --platform ec2" in caught.value.hint
    with pytest.raises(EnvironmentMissing, match="no instance"):
        platform.await_up(["web-2"], 0.1)


def _handed(folder: Path, experiment: str, machines: tuple[str, ...]) -> Path:
    row = {
        "tier": None, "role": "mariadb", "place": None, "standby": False, "instance_type": None,
        "address": "198.18.1.11", "agent_url": "https://198.19.1.11:7443", "usd_per_hour": None,
    }  # fmt: skip
    rows = [{"name": name, **row} for name in machines]
    endpoints: dict[str, object] = {
        "entries": [],
        "influxdb": "http://198.19.0.5:8086",
        "grafana": None,
    }
    fleet = {"experiment": experiment, "platform": "ec2", "scheme": "on-prem", "machines": rows}
    keys = (
        *("ca_certificate_pem", "client_certificate_pem", "client_private_key_pem"),
        "influxdb_login",
    )
    file = folder / "runner.json"
    content = {"region": REGION, "fleet": {**fleet, "endpoints": endpoints}}
    file.write_text(json.dumps({**content, "identity": dict.fromkeys(keys, "-")}))
    return file


def test_a_fleet_that_was_handed_over_is_used_and_stays(tmp_path: Path) -> None:
    design = load_design(SMALL)
    name = design.fleet.experiment
    fleet = MadeFleet(name, FUTURE)
    identifier = instance(fleet, network(fleet), "web-1")
    platform: Platform = AttachedFleet(name, _handed(tmp_path, name, design.fleet.machine_names))
    platform.check()
    lines: list[str] = []
    inventory = platform.up(SMALL / "fleet.tfvars", lines.append)
    assert {member.name for member in inventory.machines} >= set(design.fleet.machine_names)
    platform.inject("machine.crash", "web-1")
    assert _state(identifier) == "stopped"
    assert platform.down(lines.append) == platform.remaining() == []
    assert "removes it where it was made" in lines[-1]
    assert resources.instances(Aws(REGION), name)


def test_load_workers_wait_on_every_load_machine_but_the_first(tmp_path: Path) -> None:
    name = load_design(SMALL).fleet.experiment
    platform = AttachedFleet(name, _handed(tmp_path, name, ()))
    assert platform.load_helpers() == 0
    fleet = MadeFleet(name, FUTURE)
    subnet = network(fleet)
    instance(fleet, subnet, "web-1")
    loads = [instance(fleet, subnet, f"load-{number}") for number in (1, 2, 3)]
    tag = {"Key": "sparecraft:role", "Value": "load"}
    client("ec2").create_tags(Resources=loads, Tags=[tag])
    assert platform.load_helpers() == 2
    assert platform.runner() == loads[0]


def test_a_fleet_of_another_experiment_or_without_a_machine_is_refused(tmp_path: Path) -> None:
    name = load_design(SMALL).fleet.experiment
    with pytest.raises(EnvironmentMissing, match="that of tst-other"):
        AttachedFleet(name, _handed(tmp_path, "tst-other", ()))
    platform = AttachedFleet(name, _handed(tmp_path, name, ("web-1",)))
    with pytest.raises(EnvironmentMissing, match="none called arbiter-db"):
        platform.up(SMALL / "fleet.tfvars", lambda _: None)
    (tmp_path / "runner.json").write_text("{}")
    with pytest.raises(EnvironmentMissing, match="Field required"):
        AttachedFleet(name, tmp_path / "runner.json")


def test_a_fleet_that_another_workspace_made_is_refused_and_listed() -> None:
    whole_fleet(EXPERIMENT, FUTURE)
    with pytest.raises(EnvironmentMissing, match=r"VPC vpc-\w+") as refused:
        Ec2Platform(EXPERIMENT, REGION).check()
    assert f"sparecraft down {EXPERIMENT} --platform ec2" in refused.value.hint
    Ec2Platform("tst-other", REGION).check()


def _stack(folder: Path, script: str) -> tuple[Path, Path]:
    """A root module that makes a VPC with our tags and then runs `script`; a fleet's variables."""
    make = (
        "import boto3; boto3.client('ec2').create_vpc(CidrBlock='10.80.0.0/16', "
        "TagSpecifications=[{'ResourceType': 'vpc', 'Tags': [{'Key': 'sparecraft:experiment', "
        f"'Value': '{EXPERIMENT}'}}]}}])"
    )
    folder.mkdir()
    (folder / "main.tf").write_text(
        f"""
        variable "region" {{ type = string }}
        variable "ttl_hours" {{ type = number }}
        variable "expires" {{ type = string }}
        variable "spot" {{ type = bool }}
        variable "usd_per_hour" {{ type = map(number) }}
        variable "experiment" {{ type = string }}
        resource "terraform_data" "vpc" {{
          input = var.expires
          provisioner "local-exec" {{
            interpreter = ["{sys.executable}", "-c"]
            command     = "{make}"
          }}
        }}
        resource "terraform_data" "machine" {{
          depends_on = [terraform_data.vpc]
          provisioner "local-exec" {{
            interpreter = ["{sys.executable}", "-c"]
            command     = "{script}"
          }}
        }}
        output "fleet" {{
          value = {{
            experiment = var.experiment
            platform   = "ec2"
            scheme     = "on-prem"
            machines   = []
            endpoints  = {{ entries = [], influxdb = "", grafana = null }}
          }}
        }}
        """
    )
    tfvars = folder / "fleet.tfvars"
    tfvars.write_text(f'experiment = "{EXPERIMENT}"\n')
    return folder, tfvars


def test_a_plan_makes_nothing_and_up_and_down_keep_their_variables(tmp_path: Path) -> None:
    stack, tfvars = _stack(tmp_path / "stack", "pass")
    platform = Ec2Platform(EXPERIMENT, REGION, stack=stack)
    plan = platform.plan(tfvars, RENTAL)
    assert plan["planned_values"]["root_module"]["resources"][0]["type"] == "terraform_data"
    assert not platform.stack.state_directory.exists(), "a plan is not a fleet"
    assert platform.remaining() == []
    with pytest.raises(EnvironmentMissing, match="a yes to its price"):
        platform.up(tfvars, lambda _: None)
    platform.rental = RENTAL
    assert platform.up(tfvars, lambda _: None).platform == "ec2"
    assert [line.split()[0] for line in platform.remaining()] == ["VPC"]
    reopened = Ec2Platform(EXPERIMENT, stack=stack)
    assert reopened.aws.region == REGION
    assert reopened.stack.variables["expires"] == "2026-03-01T13:00:00Z"
    assert reopened.stack.variables["usd_per_hour"] == {"t3.small": 0.0228}
    assert reopened.stack.changes() == []
    assert [line.split()[0] for line in reopened.down(lambda _: None)] == ["VPC"]
    assert reopened.remaining() == []
    assert not reopened.stack.state_directory.exists()


def test_what_is_not_said_anew_of_a_fleet_that_is_up_stays(tmp_path: Path) -> None:
    stack, tfvars = _stack(tmp_path / "stack", "pass")
    (stack / "more.tf").write_text('variable "load_machines" {\n  default = 1\n}\n')
    platform = Ec2Platform(EXPERIMENT, REGION, stack=stack)
    before_end = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    first_request = rental_request(platform, 1.0, True, ["load_machines=2"], before_end)
    assert (first_request.ttl_hours, first_request.expires) == (1.0, RENTAL.expires)
    assert first_request.more == {"load_machines": 2}
    platform.rental = first_request
    platform.up(tfvars, lambda _: None)
    assert rental_request(platform, None, False, [], before_end) == first_request
    assert rental_request(platform, 2.0, False, [], before_end).expires > first_request.expires
    after_end = datetime(2026, 3, 1, 14, 0, tzinfo=UTC)
    assert rental_request(platform, None, False, [], after_end).expires > after_end, (
        "its end is past"
    )
    for option in ("load_machine=2", "spot=true", "experiment=x", "load_machines"):
        with pytest.raises(InputError, match="load_machines"):
            rental_request(platform, None, False, [option], before_end)


def test_an_apply_that_fails_half_way_lists_what_was_made_and_down_removes_it(
    tmp_path: Path,
) -> None:
    """moto has no quotas: the provisioner prints what Terraform prints where EC2 refuses."""
    script = "raise SystemExit('api error VcpuLimitExceeded: more than your limit of 5')"
    stack, tfvars = _stack(tmp_path / "stack", script)
    platform = Ec2Platform(EXPERIMENT, REGION, stack=stack)
    platform.rental = RENTAL
    with pytest.raises(EnvironmentMissing) as caught:
        platform.up(tfvars, lambda _: None)
    assert "VcpuLimitExceeded" in caught.value.got
    assert "Made until then: 1: VPC vpc-" in caught.value.got
    assert "Service Quotas" in caught.value.hint
    assert f"sparecraft down {EXPERIMENT} --platform ec2" in caught.value.hint
    reopened = Ec2Platform(EXPERIMENT, stack=stack)
    reopened.down(lambda _: None)
    assert reopened.remaining() == []
    assert resources.find(Aws(REGION)) == []
