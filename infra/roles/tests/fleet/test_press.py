"""Three machines of PRESS: one web server, in both configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from machines import Machine, docker, eventually, get

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ADDRESSES = {f"web-{number}": f"198.18.241.{90 + number}" for number in (1, 2, 3)}
READY = "/opt/sparecraft/role/ready.sh"
PEERS = ",".join(f"{name}={address}" for name, address in ADDRESSES.items())


def page(machine: str, number: int) -> str:
    """Get a page, check its key and size, and return its source."""
    answer = get(f"http://{ADDRESSES[machine]}:8080/{number:06d}.html")
    assert answer.status_code == 200
    assert len(answer.content) == 26 * 1024
    assert f"<title>page:{number:06d}</title>" in answer.text
    return answer.headers["x-press-source"]


def start(machine: Callable[..., Machine], folder: Path, mode: str) -> dict[str, Machine]:
    """Start all machines; each needs the others to be ready."""
    machines = {}
    for name, address in ADDRESSES.items():
        path = folder / f"{mode}-{name}.env"
        path.write_text(f"NAME={name}\nPEERS={PEERS}\nMODE={mode}\n")
        files = {"/etc/sparecraft/role.env": path}
        machines[name] = machine("press", address, files, name=name, wait=False)
    for press in machines.values():
        press.wait_until_ready()
    return machines


def until_shared(holder: str, other: str, unread: Iterator[int]) -> None:
    """Wait until `other` gets a page that `holder` has read from `holder`'s memory."""

    def is_shared() -> bool:
        number = next(unread)
        page(holder, number)
        return page(other, number) == "peer"

    eventually(f"{other} takes pages from {holder}", is_shared)


def test_perf_shares_its_memories_and_is_restarted_as_a_whole(
    machine: Callable[..., Machine], tmp_path: Path
) -> None:
    machines = start(machine, tmp_path, "perf")
    unread = count()
    assert page("web-1", 17_999) == "disk"
    until_shared("web-1", "web-2", unread)
    docker("kill", machines["web-3"].name)
    until_shared("web-2", "web-1", unread)
    docker("start", machines["web-3"].name)
    eventually(
        "it waits for a cluster", lambda: "not formed" in machines["web-3"].run(READY, check=False)
    )
    assert machines["web-1"].is_ready()
    # All are stopped before one is started: two that are there with the waiting one form a cluster.
    names = [press.name for press in machines.values()]
    docker("stop", "--timeout", "10", *names)
    docker("start", *names)
    for press in machines.values():
        press.wait_until_ready()
    until_shared("web-3", "web-1", unread)


def test_ha_takes_a_machine_in_again_that_was_killed(
    machine: Callable[..., Machine], tmp_path: Path
) -> None:
    machines = start(machine, tmp_path, "ha")
    unread = count()
    until_shared("web-1", "web-3", unread)
    machines["web-3"].die_and_return()
    until_shared("web-2", "web-3", unread)
