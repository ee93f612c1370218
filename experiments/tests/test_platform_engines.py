"""The local platform over two Docker engines: its hand is on each machine, wherever that is."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiments.errors import EnvironmentMissing, InputError
from experiments.stage.platforms import local
from experiments.stage.platforms.local import docker, engines
from experiments.stage.platforms.local.engines import HERE, Engine
from experiments.stage.platforms.local.platform import LocalPlatform
from experiments.tests.engine import docker as call_docker
from experiments.tests.second_engine import BASE, second_engine

EXPERIMENT = "tst-engines"
THERE = "unix:///var/run/docker.sock"


@pytest.fixture(scope="module")
def other() -> Iterator[Engine]:
    """Another host's engine; its folder's name is short, as sockets lie in it."""
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
    made = {"web-1": HERE, "web-2": other}
    for machine, engine in made.items():
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


@pytest.mark.real
@pytest.mark.fleet
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


@pytest.mark.real
@pytest.mark.fleet
def test_a_fleet_over_two_hosts_is_listed_once_and_removed_from_both(
    spread: LocalPlatform, other: Engine
) -> None:
    [row] = [one for one in local.PLATFORM.fleets({}) if one["experiment"] == EXPERIMENT]
    assert row["machines"] == 2
    assert spread.left() == [
        f"container sc-{EXPERIMENT}-web-1 on here",
        f"container sc-{EXPERIMENT}-web-2 on {other.name}",
    ]
    with pytest.raises(EnvironmentMissing, match="web-1"):
        spread.check()  # its state knows of none
    assert len(spread.down(lambda _: None)) == 2
    assert docker.find(EXPERIMENT) == docker.find(EXPERIMENT, other) == []


@pytest.mark.real
@pytest.mark.fleet
def test_a_host_that_does_not_answer_is_named(tmp_path: Path) -> None:
    hosts = {"hosts": [{"name": "gone", "address": f"unix://{tmp_path}/no", "certificates": None}]}
    with pytest.raises(EnvironmentMissing, match="gone"):
        LocalPlatform(EXPERIMENT, hosts).check()


@pytest.mark.parametrize(
    ("addresses", "here"),
    [((THERE,), True), (("tcp://10.0.0.2:2376",), False), ((THERE, "ssh://10.0.0.2"), False)],
)
def test_machines_are_on_this_host_where_its_engine_has_all_of_them(
    addresses: tuple[str, ...], here: bool
) -> None:
    hosts = [
        {"name": f"host-{number}", "address": address, "certificates": None}
        for number, address in enumerate(addresses)
    ]
    assert LocalPlatform(EXPERIMENT, {"hosts": hosts}).on_this_host is here


@pytest.mark.parametrize("call", [docker.state, docker.logs, docker.run])
def test_an_engine_that_takes_too_long_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[str], str]
) -> None:
    slow = tmp_path / "docker"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(docker, "_TIMEOUT_S", 0.2)
    with pytest.raises(EnvironmentMissing, match="sc-web-1"):
        call("sc-web-1")


def test_an_end_of_a_network_is_a_container_and_no_machine() -> None:
    names = ("web-1", "vxlan-1949158", "vxlan")
    found = [docker.Found("container", f"sc-{EXPERIMENT}-{name}", EXPERIMENT) for name in names]
    assert [one.is_machine for one in found] == [True, False, True]
    assert not docker.Found("network", f"sc-{EXPERIMENT}-data", EXPERIMENT).is_machine


def test_a_file_of_hosts_gives_the_stack_its_variables(tmp_path: Path) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(
        '[[hosts]]\nname = "a"\naddress = "unix:///var/run/docker.sock"\nunderlay = "10.0.0.1"\n'
        '[[hosts]]\nname = "b"\naddress = "tcp://10.0.0.2:2376"\nunderlay = "10.0.0.2"\n'
        'certificates = "b"\n'
    )
    said = engines.read(file)
    assert said["underlay_mtu"] == 1500
    first, second = engines.engines_of(said)
    assert first.arguments == ["--host", "unix:///var/run/docker.sock"]
    assert second.arguments[2:] == [
        "--tlsverify",
        f"--tlscacert={tmp_path}/b/ca.pem",
        f"--tlscert={tmp_path}/b/cert.pem",
        f"--tlskey={tmp_path}/b/key.pem",
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hosts = []\n", "hosts"),
        ('[[hosts]]\nname = "a"\naddress = "http://10.0.0.1"\n', "address"),
        ('[[hosts]]\nname = "A"\naddress = "ssh://10.0.0.1"\n', "name"),
        ('[[hosts]]\nname = "a"\naddress = "ssh://h"\nrack = "b"\n', "rack"),
    ],
)
def test_what_is_wrong_in_a_file_of_hosts_is_named(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        engines.read(file)
    assert place in refused.value.place
