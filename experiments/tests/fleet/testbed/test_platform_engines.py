"""The local platform over two Docker engines: it controls the machines of both."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing
from experiments.testbed.platforms import local
from experiments.testbed.platforms.local import docker
from experiments.testbed.platforms.local.engines import HERE, Engine
from experiments.testbed.platforms.local.platform import LocalPlatform
from experiments.tests.engine import docker as call_docker
from experiments.tests.second_engine import BASE, second_engine

pytestmark = pytest.mark.long

EXPERIMENT = "tst-engines"
THERE = "unix:///var/run/docker.sock"


@pytest.fixture(scope="module")
def other() -> Iterator[Engine]:
    """Another host's engine; its folder has a short name because socket paths are limited."""
    folder = Path(tempfile.mkdtemp(prefix="sc-", dir="/tmp"))
    try:
        with second_engine(folder) as engine:
            yield engine
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def spread(other: Engine) -> Iterator[LocalPlatform]:
    """web-1 on this host's engine, web-2 on the other; the workspace says that both are the
    fleet's, as an `up` leaves it."""
    hosts = [
        {"name": "here", "address": THERE, "certificates": None},
        {"name": other.name, "address": other.address, "certificates": None},
    ]
    platform = LocalPlatform(EXPERIMENT)
    platform.stack.state_directory.mkdir(parents=True, exist_ok=True)
    (platform.stack.state_directory / "platform.tfvars.json").write_text(
        json.dumps({"hosts": hosts, "underlay_mtu": 1500})
    )
    engine_of = {"web-1": HERE, "web-2": other}
    for machine, engine in engine_of.items():
        label = f"{docker.LABEL}={EXPERIMENT}"
        name = platform.container(machine)
        machine_of = ("--network=none", "--name", name, "--label", label, BASE, "sleep", "600")
        call_docker(*engine.arguments, "run", "--detach", *machine_of)
    try:
        yield platform
    finally:
        for engine in (HERE, other):
            docker.sweep(EXPERIMENT, engine)
        shutil.rmtree(platform.stack.state_directory, ignore_errors=True)


def test_faults_and_power_reach_a_machine_on_the_host_that_has_it(
    spread: LocalPlatform, other: Engine
) -> None:
    name = spread.container("web-2")
    assert spread.engine_of("web-2").address == other.address
    spread.inject("machine.freeze", "web-2")
    assert docker.state(name, other) == "paused"
    spread.revert("machine.freeze", "web-2")
    assert docker.state(name, other) == "running"
    spread.inject("machine.crash", "web-2")
    assert not spread.running("web-2")
    assert spread.running("web-1")
    spread.revert("machine.crash", "web-2")
    assert spread.running("web-2")


def test_a_fleet_over_two_hosts_is_listed_once_and_removed_from_both(
    spread: LocalPlatform, other: Engine
) -> None:
    [row] = [fleet for fleet in local.PLATFORM.fleets({}) if fleet["experiment"] == EXPERIMENT]
    assert row["machines"] == 2
    assert spread.remaining() == [
        f"container sc-{EXPERIMENT}-web-1 on here",
        f"container sc-{EXPERIMENT}-web-2 on {other.name}",
    ]
    with pytest.raises(EnvironmentMissing, match="web-1"):
        spread.check()  # its state has no machine
    assert len(spread.down(lambda _: None)) == 2
    assert docker.find(EXPERIMENT) == docker.find(EXPERIMENT, other) == []


def test_a_host_that_does_not_answer_is_named(tmp_path: Path) -> None:
    hosts = {"hosts": [{"name": "gone", "address": f"unix://{tmp_path}/no", "certificates": None}]}
    with pytest.raises(EnvironmentMissing, match="gone"):
        LocalPlatform(EXPERIMENT, hosts).check()
