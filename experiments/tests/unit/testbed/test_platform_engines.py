"""The local platform over two Docker engines: its hand is on each machine, wherever that is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.testbed.platforms.local import docker, engines
from experiments.testbed.platforms.local.platform import LocalPlatform

EXPERIMENT = "tst-engines"
THERE = "unix:///var/run/docker.sock"


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
    found = [
        docker.OwnedObject("container", f"sc-{EXPERIMENT}-{name}", EXPERIMENT) for name in names
    ]
    assert [one.is_machine for one in found] == [True, False, True]
    assert not docker.OwnedObject("network", f"sc-{EXPERIMENT}-data", EXPERIMENT).is_machine


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
