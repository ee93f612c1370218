"""infra/stacks/ec2, applied for real: Terraform, the real provider hashicorp/aws, a moto server.

The provider is the one of `ci/aws-provider`. The stack is copied, so that no state of a user and
no lock file of a provider from the registry is touched.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiments.paths import ROOT
from experiments.testbed.platforms.ec2.aws import Aws
from experiments.testbed.platforms.ec2.platform import Ec2Platform
from experiments.tests.aws import (
    ACCOUNT,
    REGION,
    Meddled,
    client_at,
    environment,
    in_front_of,
    led_to,
    moto_server,
)

EXPIRES = f"{datetime.now(UTC) + timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}"
BUCKET = f"sparecraft-fleets-{ACCOUNT}-{REGION}"
DEBIAN, OLDER_DEBIAN = "ami-0debian12", "ami-0debian11"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nbm8ga2V5\n-----END PGP PUBLIC KEY BLOCK-----\n"
PROVIDERS = ROOT / "build" / "terraform" / "terraformrc"

# Debian's images as AWS describes them: moto knows none of that account.
_IMAGES = [
    {
        "ami_id": identifier,
        "name": f"debian-12-amd64-{year}0101-1000",
        "description": "Debian 12",
        "owner_id": "136693071363",
        "public": True,
        "virtualization_type": "hvm",
        "architecture": "x86_64",
        "state": "available",
        "platform": None,
        "image_type": "machine",
        "hypervisor": "xen",
        "root_device_name": "/dev/xvda",
        "root_device_type": "ebs",
        "sriov": "simple",
        "creation_date": f"{year}-01-01T00:00:00.000Z",
    }
    for identifier, year in ((DEBIAN, 2026), (OLDER_DEBIAN, 2025))
]


def moto_settings(directory: Path) -> dict[str, str]:
    """Settings of moto beyond its defaults: Debian's image, AWS's own policies."""
    images = directory / "images.json"
    images.write_text(json.dumps(_IMAGES))
    return {"MOTO_AMIS_PATH": str(images), "MOTO_IAM_LOAD_MANAGED_POLICIES": "true"}


def prepared(url: str) -> None:
    """Make what `infra/account` has before the first fleet: roles of machines, the bucket."""
    iam, s3 = client_at(url, "iam"), client_at(url, "s3")
    for name in ("end", "machine", "load", "runner"):
        path = {"Path": "/sparecraft/"}
        iam.create_role(RoleName=f"sparecraft-{name}", AssumeRolePolicyDocument="{}", **path)
        if name != "end":
            profile = {"InstanceProfileName": f"sparecraft-{name}"}
            iam.create_instance_profile(**profile, **path)
            iam.add_role_to_instance_profile(**profile, RoleName=f"sparecraft-{name}")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})


_CAPS = {"cpus": 0.5, "memory_mb": 256, "nic_mbps": 200, "disk_mbps": 80}
ON_PREM: dict[str, Any] = {
    "experiment": "tst-stack-fixed",
    "scheme": "on-prem",
    "load_machines": 2,
    "usd_per_hour": {"t3.small": 0.0228, "c6i.large": 0.091},
    "tiers": {
        "web": _CAPS
        | {"role": "mediawiki", "calls": ["db"], "nodes": 1, "standby": 1}
        | {"instance_type": "t3.small"},
        "db": _CAPS | {"role": "mariadb", "nodes": 1, "instance_type": "t3.small"},
    },
    "arbiters": {"web": {"tokens": 1}, "db": {"tokens": 12}},
}
CLOUD: dict[str, Any] = {
    "experiment": "tst-stack-cloud",
    "scheme": "cloud",
    "spot": True,
    "tiers": {"cache": _CAPS | {"role": "redis", "nodes": 2, "instance_type": "t3.small"}},
    "arbiters": {"cache": {"tokens": 4}},
}


class AppliedStack:
    """The stack with one fleet's variables, in a folder of its own."""

    def __init__(
        self, directory: Path, url: str, bundle: Path, variables: Mapping[str, Any]
    ) -> None:
        assert PROVIDERS.exists(), f"expected {PROVIDERS}: run ci/aws-provider"
        # S3's control API has the account's number before the host: a name that only moto, asked as
        # a proxy, answers to. Terraform's other calls go to a loopback or a plain address.
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("AWS_")
        }
        self.environment |= environment(url) | {"HTTP_PROXY": url, "CHECKPOINT_DISABLE": "1"}
        self.environment["NO_PROXY"] = url.removeprefix("http://").split(":")[0]
        self.environment["TF_CLI_CONFIG_FILE"] = str(PROVIDERS)
        self.experiment = str(variables["experiment"])
        self._directory = copy_of_stack(directory, bundle)
        key = directory / "session-manager.asc"
        key.write_text(KEY)
        values = {"region": REGION, "expires": EXPIRES, "session_manager_key": str(key)}
        values |= dict(variables)
        (self._directory / "test.auto.tfvars.json").write_text(json.dumps(values))
        self.terraform("init", "-input=false")

    def terraform(self, *arguments: str, fails: bool = False) -> str:
        """The output of `terraform`; an assertion where it fails, or with `fails` where it does
        not."""
        command = ["terraform", f"-chdir={self._directory}", *arguments]
        if arguments[0] in ("plan", "apply", "destroy", "init", "validate"):
            command.append("-no-color")
        process = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        assert (process.returncode != 0) == fails, process.stdout[-2000:] + process.stderr
        return process.stdout + process.stderr if fails else process.stdout

    def apply(self) -> None:
        """Make everything."""
        self.terraform("apply", "-auto-approve", "-input=false")

    def destroy(self) -> None:
        """Remove everything; it does no harm to do it again."""
        self.terraform("destroy", "-auto-approve", "-input=false")

    def output(self, name: str) -> Any:
        """One output."""
        return json.loads(self.terraform("output", "-json", name))

    def changed(self, *options: str) -> dict[str, set[str]]:
        """The changes of a plan made now: resource type to the attributes that differ. Nothing may
        be made anew."""
        plan = str(self._directory / "plan")
        self.terraform("plan", "-input=false", f"-out={plan}", *options)
        changes = dict[str, set[str]]()
        for entry in json.loads(self.terraform("show", "-json", plan)).get("resource_changes", []):
            change = entry["change"]
            if entry["mode"] == "managed" and change["actions"] != ["no-op"]:
                assert change["actions"] == ["update"], f"{entry['address']}: {change['actions']}"
                after, unknown = change["after"], change.get("after_unknown", {})
                changes.setdefault(entry["type"], set()).update(
                    key
                    for key, value in change["before"].items()
                    if _any(unknown.get(key)) or after.get(key) != value
                )
        return changes

    def client(self, service: str) -> Any:
        """Return a boto3 client of the same moto."""
        return client_at(self.environment["AWS_ENDPOINT_URL"], service)

    def instances(self) -> dict[str, Any]:
        """Return the instances that still exist, by the machine that their tags name."""
        reservations = self.client("ec2").describe_instances(
            Filters=[{"Name": "tag:sparecraft:experiment", "Values": [self.experiment]}]
        )["Reservations"]
        alive = [instance for group in reservations for instance in group["Instances"]]
        return {
            tags(instance)["sparecraft:machine"]: instance
            for instance in alive
            if instance["State"]["Name"] not in ("terminated", "shutting-down")
        }

    def files(self) -> tuple[str, str]:
        """Bucket and prefix of what its machines are made of."""
        load = self.output("load")
        return str(load["bucket"]), str(load["prefix"])

    def settings(self, machine: str) -> Any:
        """Content that a machine finds in the bucket, by the checksum that its user data names."""
        (sha256,) = re.findall(r"SC_SETTINGS='(\w+)'", self.user_data(machine))
        bucket, prefix = self.files()
        key = f"{prefix}/machines/{sha256}.json"
        return json.load(self.client("s3").get_object(Bucket=bucket, Key=key)["Body"])

    def user_data(self, machine: str) -> str:
        """Attributes that a machine's instance is given, by its own or by its group's template."""
        ec2, instance = self.client("ec2"), self.instances()[machine]
        if "aws:autoscaling:groupName" in tags(instance):
            (version,) = ec2.describe_launch_template_versions(
                LaunchTemplateName=f"sc-{self.experiment}-{machine}"
            )["LaunchTemplateVersions"]
            encoded = version["LaunchTemplateData"]["UserData"]
        else:
            attribute = ec2.describe_instance_attribute(
                InstanceId=instance["InstanceId"], Attribute="userData"
            )
            encoded = attribute["UserData"]["Value"]
        return base64.b64decode(encoded).decode()


def _any(unknown: Any) -> bool:
    """True if a plan marks any part of a value as unknown."""
    parts = unknown.values() if isinstance(unknown, dict) else unknown
    return unknown is True or (bool(unknown) and any(map(_any, parts)))


def tags(entry: Mapping[str, Any]) -> dict[str, str]:
    """Tags of anything that EC2 describes."""
    pairs = entry.get("Tags") or entry.get("TagSet") or []
    return {tag["Key"]: tag["Value"] for tag in pairs}


def aws_of(stack: AppliedStack, monkeypatch: pytest.MonkeyPatch) -> Aws:
    """Return our own clients, which talk to the same moto."""
    led_to(stack.environment["AWS_ENDPOINT_URL"], monkeypatch)
    return Aws(REGION)


def copy_of_stack(directory: Path, bundle: Path) -> Path:
    """The stacks, beside links to what they read of the rest and to a bundle's folder."""
    infra = directory / "infra"
    ignored = shutil.ignore_patterns(".terraform*", "*.tfstate*", "*.auto.tfvars*", "backend.tf")
    shutil.copytree(ROOT / "infra" / "stacks", infra / "stacks", symlinks=True, ignore=ignored)
    for name in ("boot", "roles"):
        (infra / name).symlink_to(ROOT / "infra" / name)
    (directory / "contracts").symlink_to(ROOT / "contracts")
    build = directory / "build"
    build.mkdir()
    (build / "bin").symlink_to((ROOT / "build" / "bin").resolve())
    (build / "bundle").symlink_to(bundle)
    return infra / "stacks" / "ec2"


@contextmanager
def account_of_a_stack(
    bundle: Path, directory: Path, monkeypatch: pytest.MonkeyPatch, meddled: Meddled
) -> Iterator[None]:
    """Within this process: an account at moto, with a way there on which `meddled` may answer, and
    a copy of the stack."""
    assert PROVIDERS.exists(), f"expected {PROVIDERS}: run ci/aws-provider"
    with (
        moto_server(directory / "moto.log", **moto_settings(directory)) as moto,
        in_front_of(moto, meddled) as url,
    ):
        led_to(url, monkeypatch)
        monkeypatch.setenv("HTTP_PROXY", url)  # for S3's control API, whose host has no address
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(PROVIDERS))
        stack = copy_of_stack(directory / "copy", bundle)
        prepared(moto)

        platform = partial(Ec2Platform, stack=stack)
        monkeypatch.setattr("experiments.testbed.platforms.ec2.platform.Ec2Platform", platform)
        yield
