"""Two fleets on one host at once: each at ports and addresses of its own, which it keeps."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from experiments.design.roles import find_roles
from experiments.paths import ROOT
from experiments.testbed.fleet import connect, disconnect, wait_ready
from experiments.testbed.platforms.local.addresses import networks_of, ports_of
from experiments.testbed.platforms.local.platform import STACK, LocalPlatform
from experiments.testbed.platforms.terraform import Stack
from experiments.tests.fleets import nothing_stays
from experiments.tests.quiet import NOBODY

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

NODE = ROOT / "experiments" / "tests" / "designs" / "node" / "fleet.tfvars"
NAMES = ("tst-one", "tst-two")


@pytest.fixture
def fleets(tmp_path: Path) -> Iterator[dict[LocalPlatform, Path]]:
    """Two platforms and their fleets' files, which state no port."""
    text = re.sub(r"(?m)^\w+_(port|cidr)\s*=.*\n", "", NODE.read_text())
    files = {}
    for name in NAMES:
        file = tmp_path / f"{name}.tfvars"
        file.write_text(text.replace("tst-node", name))
        files[LocalPlatform(name)] = file
    with nothing_stays(*NAMES):
        yield files


def _answers(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as redis:
        redis.sendall(b"*1\r\n$4\r\nPING\r\n")
        return redis.recv(64)


def test_two_fleets_are_up_at_once_and_each_keeps_its_place(
    fleets: dict[LocalPlatform, Path],
) -> None:
    for platform, file in fleets.items():
        live = connect(platform, platform.up(file, print))
        try:
            wait_ready(live, find_roles(), NOBODY)
        finally:
            disconnect(live)
    places = [Stack(STACK, name).variables for name in NAMES]
    assert not ports_of(places[:1]) & ports_of(places[1:])
    assert not networks_of(places[:1]) & networks_of(places[1:])
    for variables in places:
        assert _answers(variables["entry_port"]) == b"+PONG\r\n"
        ping = httpx.get(f"http://127.0.0.1:{variables['influxdb_port']}/ping", trust_env=False)
        assert ping.status_code == 204
    second_platform, file = list(fleets.items())[1]
    second_platform.up(file, print)
    assert Stack(STACK, NAMES[1]).variables == places[1]
    assert second_platform.stack.changes() == []
