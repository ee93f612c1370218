"""Every call of a fleet's whole life, noted on its way to moto, is one that `infra/account` allows:
by resource, tag and condition, as two evaluators say."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import EnvironmentMissing
from experiments.paths import ROOT
from experiments.testbed.platforms.ec2 import resources, sweep
from experiments.testbed.platforms.ec2.machines import Ec2Machines
from experiments.tests.aws import in_front_of, moto_server
from experiments.tests.aws_calls import Asked, Watch
from experiments.tests.ec2_stack import (
    CLOUD,
    EXPIRES,
    ON_PREM,
    AppliedStack,
    aws_of,
    moto_settings,
    prepared,
)
from experiments.tests.iam import allows, read

pytestmark = pytest.mark.long

USER = read(*sorted((ROOT / "infra" / "account").glob("user-*.json")))
# The provider asks for the first with an image's id, in vain, and goes on without;
# for the other because of an instance's groups, to which moto adds those of further interfaces.
NOT_OF_AWS = {"ec2:GetInstanceUefiData", "ec2:ModifyNetworkInterfaceAttribute"}
LATER = f"{datetime.fromisoformat(EXPIRES) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("variables", [ON_PREM, CLOUD], ids=["on-prem", "cloud"])
def test_every_call_of_a_whole_run_is_allowed(
    variables: dict[str, Any], bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole life: up, a later end, faults, standbys, down; without a state it is swept by tag."""
    with moto_server(tmp_path / "moto.log", **moto_settings(tmp_path)) as moto:
        prepared(moto)
        watch = Watch(moto)
        with in_front_of(moto, watch) as url:
            stack = AppliedStack(tmp_path / "fleet", url, bundle, variables)
            stack.apply()
            stack.terraform("apply", "-auto-approve", "-input=false", "-var", f"expires={LATER}")
            machines = Ec2Machines(stack.experiment, aws_of(stack, monkeypatch))
            machines.aws.account()
            if variables is ON_PREM:
                _disturbed(machines)
                stack.destroy()
            else:
                _replaced(machines)
                remaining = resources.find(machines.aws, stack.experiment)
                sweep.remove(machines.aws, remaining, lambda _: None)
    authorisations = [
        authorisation for authorisation in watch.asked if authorisation.action not in NOT_OF_AWS
    ]
    refused = {
        (authorisation.action, authorisation.resource): authorisation.context
        for authorisation in authorisations
        if not _is_allowed(authorisation)
    }
    assert refused == {}
    actions = Counter(authorisation.action for authorisation in authorisations)
    print(f"{watch.calls} calls, {len(authorisations)} authorisations of {len(actions)} actions")
    assert {"ec2:RunInstances", "iam:PassRole", "ec2:DeleteVpc", "s3:PutObject"} <= set(actions)


def _disturbed(machines: Ec2Machines) -> None:
    machines.await_up(["db-1"], 1.0)
    machines.machine_logs("db-1")
    for fault in ("machine.crash", "machine.reboot"):
        machines.inject(fault, "db-1")
        machines.revert(fault, "db-1")
    machines.stop("web-1")


def _replaced(machines: Ec2Machines) -> None:
    (machine,) = resources.instances(machines.aws, machines.experiment, "cache-1")
    parameters = {"InstanceId": machine.id, "ShouldDecrementDesiredCapacity": False}
    with suppress(EnvironmentMissing):  # recorded by then; moto's group makes no other
        machines.aws.call("autoscaling", "terminate_instance_in_auto_scaling_group", **parameters)


def _is_allowed(authorisation: Asked) -> bool:
    return allows(USER, authorisation.action, authorisation.resource, authorisation.context)
