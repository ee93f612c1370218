"""`sparecraft up --platform ec2` with the real stack, the real provider and moto: asked, refused by
EC2 half-way, completed, removed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest

from experiments.errors import EnvironmentMissing, InputError
from experiments.stage.platforms.ec2 import tagged
from experiments.stage.platforms.ec2.aws import Aws
from experiments.stage.platforms.ec2.platform import Ec2Platform
from experiments.tests.aws import REGION, environment, moto_server
from experiments.tests.called import call
from experiments.tests.ec2_stack import KEY, PROVIDERS, bounded, copy_of_stack, moto_settings
from optimizer.tests.answers import Answer, answering

DESIGN = EXPERIMENT = "memcached-capacity"
REFUSAL = (
    "<Response><Errors><Error><Code>VcpuLimitExceeded</Code><Message>You have requested more vCPU "
    "capacity than your current vCPU limit of 5 allows</Message></Error></Errors>"
    "<RequestID>1</RequestID></Response>"
)


@contextmanager
def quota_of_none(moto: str, spent: threading.Event) -> Iterator[str]:
    """The URL of a way to moto on which EC2 starts no instance while `spent` is set: moto has no
    quotas. Also serves as a proxy, as moto does."""

    def answer(asked: BaseHTTPRequestHandler, body: bytes) -> Answer:
        if spent.is_set() and b"Action=RunInstances" in body:
            return 400, {"Content-Type": "text/xml"}, REFUSAL.encode()
        kept = {k: v for k, v in asked.headers.items() if k.lower() != "accept-encoding"}
        path = "/" + asked.path.split("/", 3)[3] if "://" in asked.path else asked.path
        came = client.request(asked.command, moto + path, headers=kept, content=body)
        drop = ("transfer-encoding", "content-length", "connection")
        passed = {k: v for k, v in came.headers.items() if k.lower() not in drop}
        if asked.command == "HEAD" and "content-length" in came.headers:
            passed["Content-Length"] = came.headers["content-length"]
        return came.status_code, passed, came.content

    with httpx.Client(trust_env=False, timeout=60.0) as client, answering(answer) as url:
        yield url


@pytest.fixture
def quota(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[threading.Event]:
    """An account whose quota is spent while this is set, and a copy of the stack."""
    assert PROVIDERS.exists(), f"expected {PROVIDERS}: run ci/aws-provider"
    spent = threading.Event()
    with (
        moto_server(tmp_path / "moto.log", **moto_settings(tmp_path)) as moto,
        quota_of_none(moto, spent) as url,
    ):
        for name, value in environment(url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("HTTP_PROXY", url)  # for S3's control API, whose host has no address
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(PROVIDERS))
        stack = copy_of_stack(tmp_path / "copy", bundle)
        bounded(moto)

        def platform(experiment: str, region: str | None = None) -> Ec2Platform:
            return Ec2Platform(experiment, region, stack=stack)

        monkeypatch.setattr("experiments.stage.platforms.ec2.platform.Ec2Platform", platform)
        yield spent


def test_a_fleet_is_priced_asked_for_refused_half_way_completed_and_removed(
    quota: threading.Event, tmp_path: Path
) -> None:
    key = tmp_path / "session-manager.asc"
    key.write_text(KEY)
    way_in = ("--var", f"session_manager_key={key}", "--platform", "ec2")
    asked = call("up", DESIGN, "--ttl-hours", "2", *way_in)
    assert isinstance(asked.exception, InputError)
    assert asked.exception.place.startswith("Make it, for at most 0.66 USD?"), asked.output
    assert "cache-1" in asked.output
    assert "c6i.large" in asked.output
    assert "Prices of 2025-01-01" in asked.output
    assert tagged.find(Aws(REGION)) == []

    quota.set()
    refused = call("up", DESIGN, "--ttl-hours", "2", "--yes", *way_in)
    assert isinstance(refused.exception, EnvironmentMissing), refused.output
    assert "VcpuLimitExceeded" in refused.exception.came
    assert "Made until then" in refused.exception.came
    assert "VPC vpc-" in refused.exception.came
    assert "Service Quotas" in refused.exception.do
    assert f"`sparecraft down {EXPERIMENT} --platform ec2`" in refused.exception.do
    fleet = tagged.find(Aws(REGION), EXPERIMENT)
    assert {one.kind for one in fleet} >= {"VPC", "subnet", "role"}
    assert "instance" not in {one.kind for one in fleet}

    quota.clear()
    state = tmp_path / "copy" / "infra" / "stacks" / "ec2" / "terraform.tfstate.d" / EXPERIMENT
    assert f"{state.stat().st_mode & 0o777:o}" == "700"
    assert {f"{one.stat().st_mode & 0o777:o}" for one in state.iterdir()} == {"600"}
    done = call("up", DESIGN, "--yes", "--platform", "ec2")
    assert done.exit_code == 0, done.output
    machines = {one.tags[tagged.MACHINE]: one for one in tagged.instances(Aws(REGION), EXPERIMENT)}
    assert set(machines) == {"cache-1", "arbiter-cache", "influxdb-1", "load-1"}
    assert f"--target {machines['load-1'].id}" in done.output

    removed = call("down", EXPERIMENT, "--platform", "ec2")
    assert removed.exit_code == 0, removed.output
    assert tagged.find(Aws(REGION)) == []
