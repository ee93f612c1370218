"""`infra/account`, applied at moto by the real provider, and a state in its bucket: encrypted, and
locked while Terraform works."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from experiments.paths import ROOT
from experiments.tests.aws import REGION, environment, moto_server
from experiments.tests.ec2_stack import PROVIDERS

pytestmark = pytest.mark.long

_STATE = """
terraform {
  backend "s3" {
    key            = "ec2.tfstate"
    use_path_style = true # moto's address has no names of buckets before it
  }
}
resource "terraform_data" "secret" {
  input = "a key"
  provisioner "local-exec" { command = "%s" }
}
"""


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty account, where Terraform and boto3 are led."""
    with moto_server(tmp_path / "moto.log") as url:
        for name, value in environment(url).items():
            monkeypatch.setenv(name, value)
        for name, value in {
            "TF_CLI_CONFIG_FILE": str(PROVIDERS),
            "CHECKPOINT_DISABLE": "1",
            "HTTP_PROXY": url,  # S3's control API has a host name with the account's number
            "NO_PROXY": "127.0.0.1",
        }.items():
            monkeypatch.setenv(name, value)
        yield url


def _terraform(folder: Path, *arguments: str, fails: bool = False) -> str:
    done = subprocess.run(
        ["terraform", f"-chdir={folder}", *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) == fails, done.stdout[-2000:] + done.stderr
    return done.stdout + done.stderr


def test_an_account_gets_policies_an_alarm_and_buckets(account: str, tmp_path: Path) -> None:
    made = tmp_path / "account"
    made.mkdir()
    for file in (ROOT / "infra" / "account").glob("[!.]*.*"):  # its lock is of another build
        (made / file.name).symlink_to(file)
    apply = ("apply", "-auto-approve", "-input=false", "-no-color")
    _terraform(made, "init", "-input=false")
    _an_alarm_is_planned(made)
    _terraform(made, *apply)
    iam, s3 = _client("iam", account), _client("s3", account)
    attached = iam.list_attached_group_policies(GroupName="sparecraft-users")["AttachedPolicies"]
    assert {one["PolicyName"] for one in attached} == {
        f"sparecraft-user-{part}" for part in ("look", "make", "change", "services", "states")
    }
    _roles_are_made_once(iam)
    _buckets_of_fleets_are_closed(s3)
    backend = json.loads(_terraform(made, "output", "-json", "backend"))
    bucket = backend["bucket"]
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    _a_state_is_encrypted_and_locked(tmp_path / "stack", backend, s3)


def _roles_are_made_once(iam: Any) -> None:
    held = iam.list_roles(PathPrefix="/sparecraft/")["Roles"]
    attached = {
        one["RoleName"].removeprefix("sparecraft-"): {
            policy["PolicyName"].removeprefix("sparecraft-role-")
            for policy in iam.list_attached_role_policies(RoleName=one["RoleName"])[
                "AttachedPolicies"
            ]
        }
        for one in held
    }
    assert attached == {
        "machine": {"machine"},
        "load": {"machine", "load"},
        "runner": {"machine", "load", "runner"},
        "end": {"end"},
    }
    trusted = {
        one["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["Service"] for one in held
    }
    assert trusted == {"ec2.amazonaws.com", "scheduler.amazonaws.com"}


def _buckets_of_fleets_are_closed(s3: Any) -> None:
    look = json.loads((ROOT / "infra" / "account" / "user-look.json").read_text())
    (fence,) = (one for one in look["Statement"] if one["Effect"] == "Deny")
    for region in fence["Condition"]["StringNotEquals"]["aws:RequestedRegion"]:
        bucket = f"sparecraft-fleets-123456789012-{region}"
        block = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
        assert list(block.values()) == [True] * 4
        assert s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]
        policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
        (statement,) = policy["Statement"]
        assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
        assert statement["Action"].lower() == "s3:*"
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        (rule,) = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
        assert (rule["Status"], rule["Expiration"]["Days"]) == ("Enabled", 8)


def _an_alarm_is_planned(made: Path) -> None:
    """moto does not know who is subscribed to an alarm: it cannot be made there."""
    file = str(made / "plan")
    given = ("-var", "alarm_email=me@example.org", "-var", "usd_per_month=20")
    _terraform(made, "plan", "-input=false", f"-out={file}", *given)
    planned = json.loads(_terraform(made, "show", "-json", file))["planned_values"]
    (budget,) = (
        one["values"]
        for one in planned["root_module"]["resources"]
        if one["type"] == "aws_budgets_budget"
    )
    assert (budget["limit_amount"], budget["time_unit"]) == ("20", "MONTHLY")
    assert {(one["notification_type"], one["threshold"]) for one in budget["notification"]} == {
        *(("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
    }
    assert {one["subscriber_email_addresses"][0] for one in budget["notification"]} == {
        "me@example.org"
    }


def _a_state_is_encrypted_and_locked(stack: Path, backend: dict[str, Any], s3: Any) -> None:
    stack.mkdir()
    other = f"terraform -chdir={stack} apply -auto-approve -input=false -no-color -lock-timeout=0s"
    (stack / "main.tf").write_text(_STATE % f"! {other} >{stack}/refused 2>&1")
    given = [f"-backend-config={key}={_word(value)}" for key, value in backend.items()]
    _terraform(stack, "init", "-input=false", *given)
    _terraform(stack, "apply", "-auto-approve", "-input=false", "-no-color")
    assert "Error acquiring the state lock" in (stack / "refused").read_text()
    held = s3.head_object(Bucket=backend["bucket"], Key="ec2.tfstate")
    assert held["ServerSideEncryption"] in ("AES256", "aws:kms")
    assert not list(stack.glob("terraform.tfstate*")), "no copy stays here"
    keys = s3.list_objects_v2(Bucket=backend["bucket"])
    assert [one["Key"] for one in keys["Contents"]] == ["ec2.tfstate"], "the lock is free again"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _client(service: str, url: str) -> Any:
    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=url,
        aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
    )
