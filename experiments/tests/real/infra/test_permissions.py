"""`infra/account/user-*.json` allow what the code calls, and no more than a policy may hold.

moto checks actions; it does not know the resources and conditions of these statements, so they are
taken out here: the test says that no action is missing. What conditions let through and what they
refuse is in `test_permissions_attacked.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from experiments.paths import ROOT
from experiments.testbed.platforms.ec2 import resources, sweep
from experiments.testbed.platforms.ec2.aws import Aws, AwsRefused
from experiments.testbed.platforms.ec2.machines import Ec2Machines
from experiments.tests.aws import REGION
from experiments.tests.ec2_fixture import FUTURE, client, whole_fleet
from experiments.tests.iam_documented import listed

POLICIES = sorted((ROOT / "infra" / "account").glob("*.json"))
CHARACTERS_MAX = 6144  # AWS's limit of a managed policy, white space not counted
NAME = "tst-user"
EXPERIMENT = "tst-allowed"


def _actions() -> list[str]:
    """The actions that a user's policies allow."""
    users = [policy for policy in POLICIES if policy.name.startswith("user-")]
    allowing = [
        statement
        for file in users
        for statement in json.loads(file.read_text())["Statement"]
        if statement["Effect"] == "Allow"
    ]
    return [action for statement in allowing for action in listed(statement["Action"])]


@pytest.mark.parametrize("file", POLICIES, ids=lambda file: str(file.stem))
def test_a_policy_is_within_aws_s_limit_and_names_services_apart(file: Path) -> None:
    assert len("".join(file.read_text().split())) <= CHARACTERS_MAX
    assert not {"*", "iam:*", "ec2:*", "s3:*"} & set(_actions())


def _user(allowed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of a user who may do `allowed`."""
    iam = client("iam")
    iam.create_user(UserName=NAME)
    key = iam.create_access_key(UserName=NAME)["AccessKey"]
    statement = {"Effect": "Allow", "Action": allowed, "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=NAME, PolicyName="all", PolicyDocument=policy)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    monkeypatch.delenv("AWS_SESSION_TOKEN")


@contextmanager
def _checked(url: str) -> Iterator[None]:
    """moto asks for permissions, as AWS does."""

    def reset_auth(count: str) -> str:
        reply = httpx.post(
            f"{url}/moto-api/reset-auth", content=count, trust_env=False, timeout=60.0
        )
        return str(reply.json()["PREVIOUS_INITIAL_NO_AUTH_ACTION_COUNT"])

    count_before = reset_auth("0")
    try:
        yield
    finally:
        reset_auth(count_before)


def test_the_policy_suffices_for_all_that_happens_to_a_fleet(
    aws_account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_fleet(EXPERIMENT, FUTURE)
    # moto takes the signature of a GET of the scheduler's for a wrong one.
    monkeypatch.setattr(resources, "_schedules", lambda _: [])
    _user(_actions(), monkeypatch)
    with _checked(aws_account):
        aws = Aws(REGION)
        machines = Ec2Machines(EXPERIMENT, aws)
        assert aws.account()
        machines.await_up(["db-1", "web-1"], 1.0)
        machines.inject("machine.crash", "db-1")
        machines.revert("machine.crash", "db-1")
        machines.inject("machine.reboot", "db-1")
        machines.stop("web-1")
        assert "Linux" in machines.machine_logs("db-1")
        sweep.remove(aws, resources.find(aws, EXPERIMENT), lambda _: None)
        assert resources.find(aws, EXPERIMENT) == []


def test_an_action_that_is_not_allowed_is_refused_with_what_to_do(
    aws_account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_fleet(EXPERIMENT, FUTURE)
    _user([action for action in _actions() if action != "ec2:StopInstances"], monkeypatch)
    with _checked(aws_account), pytest.raises(AwsRefused) as refused:
        Ec2Machines(EXPERIMENT, Aws(REGION)).inject("machine.crash", "db-1")
    assert refused.value.code in ("UnauthorizedOperation", "AccessDenied")  # of EC2; of moto
    assert "permission" in refused.value.hint
