"""`infra/account`, applied at moto by the real provider, and a state in its bucket: encrypted, and
locked while Terraform works."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.paths import ROOT
from experiments.tests.aws import ACCOUNT, client_at, led_to, moto_server
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
    """An empty account, to which Terraform and boto3 are directed."""
    with moto_server(tmp_path / "moto.log") as url:
        led_to(url, monkeypatch)
        for name, value in {
            "TF_CLI_CONFIG_FILE": str(PROVIDERS),
            "CHECKPOINT_DISABLE": "1",
            "HTTP_PROXY": url,  # S3's control API has a host name with the account's number
            "NO_PROXY": "127.0.0.1",
        }.items():
            monkeypatch.setenv(name, value)
        yield url


def _terraform(folder: Path, *arguments: str, fails: bool = False) -> str:
    process = subprocess.run(
        ["terraform", f"-chdir={folder}", *arguments], capture_output=True, text=True, check=False
    )
    assert (process.returncode != 0) == fails, process.stdout[-2000:] + process.stderr
    return process.stdout + process.stderr


def test_an_account_gets_policies_an_alarm_and_buckets(account: str, tmp_path: Path) -> None:
    stack = tmp_path / "account"
    stack.mkdir()
    for file in (ROOT / "infra" / "account").glob("[!.]*.*"):  # its lock is of another build
        (stack / file.name).symlink_to(file)
    apply = ("apply", "-auto-approve", "-input=false", "-no-color")
    _terraform(stack, "init", "-input=false")
    _an_alarm_is_planned(stack)
    _terraform(stack, *apply)
    iam, s3 = client_at(account, "iam"), client_at(account, "s3")
    attached = iam.list_attached_group_policies(GroupName="sparecraft-users")["AttachedPolicies"]
    assert {policy["PolicyName"] for policy in attached} == {
        f"sparecraft-user-{part}" for part in ("look", "make", "change", "services", "states")
    }
    _roles_are_made_once(iam)
    _buckets_of_fleets_are_closed(s3)
    backend = json.loads(_terraform(stack, "output", "-json", "backend"))
    bucket = backend["bucket"]
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    _a_state_is_encrypted_and_locked(tmp_path / "stack", backend, s3)


def _roles_are_made_once(iam: Any) -> None:
    roles = iam.list_roles(PathPrefix="/sparecraft/")["Roles"]
    attached = {
        role["RoleName"].removeprefix("sparecraft-"): {
            policy["PolicyName"].removeprefix("sparecraft-role-")
            for policy in iam.list_attached_role_policies(RoleName=role["RoleName"])[
                "AttachedPolicies"
            ]
        }
        for role in roles
    }
    assert attached == {
        "machine": {"machine"},
        "load": {"machine", "load"},
        "runner": {"machine", "load", "runner"},
        "end": {"end"},
    }
    trusted_services = {
        role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["Service"] for role in roles
    }
    assert trusted_services == {"ec2.amazonaws.com", "scheduler.amazonaws.com"}


def _buckets_of_fleets_are_closed(s3: Any) -> None:
    look_policy = json.loads((ROOT / "infra" / "account" / "user-look.json").read_text())
    (fence,) = (entry for entry in look_policy["Statement"] if entry["Effect"] == "Deny")
    for region in fence["Condition"]["StringNotEquals"]["aws:RequestedRegion"]:
        bucket = f"sparecraft-fleets-{ACCOUNT}-{region}"
        access_block = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
        assert list(access_block.values()) == [True] * 4
        assert s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]
        policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
        (statement,) = policy["Statement"]
        assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
        assert statement["Action"].lower() == "s3:*"
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        (rule,) = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
        assert (rule["Status"], rule["Expiration"]["Days"]) == ("Enabled", 8)


def _an_alarm_is_planned(stack: Path) -> None:
    """The alarm is only planned: moto does not store an alarm's subscribers."""
    file = str(stack / "plan")
    options = ("-var", "alarm_email=me@example.org", "-var", "usd_per_month=20")
    _terraform(stack, "plan", "-input=false", f"-out={file}", *options)
    plan = json.loads(_terraform(stack, "show", "-json", file))["planned_values"]
    (budget,) = (
        resource["values"]
        for resource in plan["root_module"]["resources"]
        if resource["type"] == "aws_budgets_budget"
    )
    assert (budget["limit_amount"], budget["time_unit"]) == ("20", "MONTHLY")
    assert {
        (notification["notification_type"], notification["threshold"])
        for notification in budget["notification"]
    } == {*(("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))}
    assert {
        notification["subscriber_email_addresses"][0] for notification in budget["notification"]
    } == {"me@example.org"}


def _a_state_is_encrypted_and_locked(stack: Path, backend: dict[str, Any], s3: Any) -> None:
    stack.mkdir()
    second_apply = (
        f"terraform -chdir={stack} apply -auto-approve -input=false -no-color -lock-timeout=0s"
    )
    (stack / "main.tf").write_text(_STATE % f"! {second_apply} >{stack}/refused 2>&1")
    options = [f"-backend-config={key}={_word(value)}" for key, value in backend.items()]
    _terraform(stack, "init", "-input=false", *options)
    _terraform(stack, "apply", "-auto-approve", "-input=false", "-no-color")
    assert "Error acquiring the state lock" in (stack / "refused").read_text()
    head = s3.head_object(Bucket=backend["bucket"], Key="ec2.tfstate")
    assert head["ServerSideEncryption"] in ("AES256", "aws:kms")
    assert not list(stack.glob("terraform.tfstate*")), "no copy stays here"
    keys = s3.list_objects_v2(Bucket=backend["bucket"])
    assert [entry["Key"] for entry in keys["Contents"]] == ["ec2.tfstate"], "the lock is free again"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
