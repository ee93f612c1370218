"""States in a backend: Terraform's S3 backend on moto, with two checkouts of one stack."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from core.errors import EnvironmentMissing
from experiments.testbed.platforms.terraform import Stack
from experiments.tests.aws import ACCOUNT, REGION

BUCKET, KEY = f"sparecraft-states-{ACCOUNT}", "ec2.tfstate"
_MODULE = """
variable "place" { type = string }
resource "terraform_data" "machine" { input = var.place }
output "place" { value = terraform_data.machine.output }
"""
_BACKEND = f"""
terraform {{
  backend "s3" {{
    bucket         = "{BUCKET}"
    key            = "{KEY}"
    region         = "{REGION}"
    encrypt        = true
    use_lockfile   = true
    use_path_style = true # moto has no host of a bucket's name
  }}
}}
"""


@pytest.fixture
def bucket(aws_account: str) -> Any:
    """An account's bucket for states, empty."""
    del aws_account
    states = boto3.resource("s3", region_name=REGION).create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    states.Versioning().enable()
    return states


@pytest.fixture
def checkouts(bucket: Any, tmp_path: Path) -> tuple[Stack, Stack]:
    """The stack in two folders, as two people have it, and a fleet's variables."""
    assert bucket.creation_date is not None
    stacks = []
    for name in ("mine", "hers"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "main.tf").write_text(_MODULE)
        (folder / "backend.tf").write_text(_BACKEND)
        stacks.append(Stack(folder, "wiki"))
    (tmp_path / "fleet.tfvars").write_text('place = "Bergen"\n')
    return stacks[0], stacks[1]


def _keys(bucket: Any) -> set[str]:
    return {entry.key for entry in bucket.objects.all()}


def _nothing(_line: str) -> None:
    pass


def test_a_state_is_in_the_bucket_alone_and_seen_from_another_checkout(
    checkouts: tuple[Stack, Stack], bucket: Any, tmp_path: Path
) -> None:
    first, second = checkouts
    assert second.state_resources() == []
    assert _keys(bucket) == set(), "to look makes no workspace"
    first.apply(tmp_path / "fleet.tfvars", _nothing)
    assert _keys(bucket) == {f"env:/wiki/{KEY}"}
    assert not (first.state_directory / "terraform.tfstate").exists()
    assert [resource["input"]["value"] for resource in second.state_resources()] == ["Bergen"]
    assert second.output("place") == "Bergen"
    first.remove(_nothing, list)
    assert (_keys(bucket), second.state_resources()) == (set(), [])
    assert not first.state_directory.exists()


def test_a_plan_leaves_no_workspace(
    checkouts: tuple[Stack, Stack], bucket: Any, tmp_path: Path
) -> None:
    stack = checkouts[0]
    plan = stack.plan(tmp_path / "fleet.tfvars", {})
    assert [change["address"] for change in plan["resource_changes"]] == ["terraform_data.machine"]
    assert (_keys(bucket), stack.state_directory.exists()) == (set(), False)


def test_what_another_checkout_made_is_swept_and_its_state_dropped(
    checkouts: tuple[Stack, Stack], bucket: Any, tmp_path: Path
) -> None:
    first, second = checkouts
    first.apply(tmp_path / "fleet.tfvars", _nothing)
    assert second.remove(_nothing, lambda: ["swept"]) == ["swept"]
    assert _keys(bucket) == set()
    assert first.remove(_nothing, list) == [], "and again where it was made"
    assert not first.state_directory.exists()


def test_one_who_holds_the_lock_is_named_and_nothing_is_changed(
    checkouts: tuple[Stack, Stack], bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.testbed.platforms.terraform._LOCK_WAIT", "-lock-timeout=1s")
    stack = checkouts[0]
    stack.apply(tmp_path / "fleet.tfvars", _nothing)
    lock_info = {"ID": "1", "Operation": "OperationTypeApply", "Who": "ana@laptop", "Info": ""}
    lock = bucket.put_object(Key=f"env:/wiki/{KEY}.tflock", Body=json.dumps(lock_info).encode())
    (tmp_path / "fleet.tfvars").write_text('place = "Oslo"\n')
    with pytest.raises(EnvironmentMissing, match="ana@laptop"):
        stack.apply(tmp_path / "fleet.tfvars", _nothing)
    assert stack.output("place") == "Bergen"
    lock.delete()
    stack.apply(tmp_path / "fleet.tfvars", _nothing)
    assert stack.output("place") == "Oslo"


def test_a_bucket_that_is_gone_stops_down_before_anything_is_removed(
    checkouts: tuple[Stack, Stack], bucket: Any, tmp_path: Path
) -> None:
    stack = checkouts[0]
    stack.apply(tmp_path / "fleet.tfvars", _nothing)
    bucket.object_versions.delete()
    bucket.delete()
    shutil.rmtree(stack.directory / ".terraform")
    swept = list[str]()

    def sweep() -> list[str]:
        swept.append("everything")
        return swept

    with pytest.raises(EnvironmentMissing, match="terraform init"):
        stack.remove(_nothing, sweep)
    assert swept == []
    assert (stack.state_directory / "fleet.tfvars").exists()
