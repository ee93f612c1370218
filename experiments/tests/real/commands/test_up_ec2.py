"""`sparecraft up --platform ec2` with the real stack, the real provider and moto: asked, refused by
EC2 half-way, completed, removed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.testbed.platforms.ec2 import resources
from experiments.testbed.platforms.ec2.aws import Aws
from experiments.tests.aws import REGION
from experiments.tests.called import call
from experiments.tests.ec2_stack import KEY, account_of_a_stack
from optimizer.tests.answers import Answer

pytestmark = pytest.mark.long

DESIGN = EXPERIMENT = "memcached-capacity"
REFUSAL = (
    "<Response><Errors><Error><Code>VcpuLimitExceeded</Code><Message>You have requested more vCPU "
    "capacity than your current vCPU limit of 5 allows</Message></Error></Errors>"
    "<RequestID>1</RequestID></Response>"
)


@pytest.fixture
def quota(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[threading.Event]:
    """An account whose quota is spent while this is set, and a copy of the stack."""
    spent = threading.Event()

    def refused(_: BaseHTTPRequestHandler, body: bytes) -> Answer | None:
        """EC2 starts no instance while the quota is spent: moto has none."""
        if spent.is_set() and b"Action=RunInstances" in body:
            return 400, {"Content-Type": "text/xml"}, REFUSAL.encode()
        return None

    with account_of_a_stack(bundle, tmp_path, monkeypatch, refused):
        yield spent


def test_a_fleet_is_priced_asked_for_refused_half_way_completed_and_removed(
    quota: threading.Event, tmp_path: Path
) -> None:
    key = tmp_path / "session-manager.asc"
    key.write_text(KEY)
    way_in = ("--var", f"session_manager_key={key}", "--platform", "ec2")
    priced = call("up", DESIGN, "--ttl-hours", "2", *way_in)
    assert isinstance(priced.exception, InputError)
    assert priced.exception.place.startswith("Make it, for at most 0.66 USD?"), priced.output
    assert "cache-1" in priced.output
    assert "c6i.large" in priced.output
    assert "Prices of 2025-01-01" in priced.output
    run = call("run", DESIGN, "--ttl-hours", "2", *way_in)
    assert isinstance(run.exception, InputError)
    assert run.exception.place == priced.exception.place
    for command in ("up", "run"):
        over_limit = call(command, DESIGN, "--ttl-hours", "2", "--yes", "--max-usd", "0.6", *way_in)
        assert isinstance(over_limit.exception, InputError)
        assert over_limit.exception.place == "--max-usd 0.6"
    assert resources.find(Aws(REGION)) == []

    quota.set()
    refused = call("up", DESIGN, "--ttl-hours", "2", "--yes", *way_in)
    assert isinstance(refused.exception, EnvironmentMissing), refused.output
    assert "VcpuLimitExceeded" in refused.exception.got
    assert "Made until then" in refused.exception.got
    assert "VPC vpc-" in refused.exception.got
    assert "Service Quotas" in refused.exception.hint
    assert f"`sparecraft down {EXPERIMENT} --platform ec2`" in refused.exception.hint
    fleet = resources.find(Aws(REGION), EXPERIMENT)
    assert {resource.kind for resource in fleet} >= {"VPC", "subnet", "network interface"}
    assert "instance" not in {resource.kind for resource in fleet}

    quota.clear()
    state = tmp_path / "copy" / "infra" / "stacks" / "ec2" / "terraform.tfstate.d" / EXPERIMENT
    assert f"{state.stat().st_mode & 0o777:o}" == "700"
    assert {f"{file.stat().st_mode & 0o777:o}" for file in state.iterdir()} == {"600"}
    completed = call("up", DESIGN, "--yes", "--platform", "ec2")
    assert completed.exit_code == 0, completed.output
    machines = {
        machine.tags[resources.MACHINE]: machine
        for machine in resources.instances(Aws(REGION), EXPERIMENT)
    }
    assert set(machines) == {"cache-1", "arbiter-cache", "influxdb-1", "load-1"}
    assert f"--target {machines['load-1'].id}" in completed.output

    removed = call("down", EXPERIMENT, "--platform", "ec2")
    assert removed.exit_code == 0, removed.output
    assert resources.find(Aws(REGION)) == []
