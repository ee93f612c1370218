"""Makes the scripts that run inside the mariadb image's build importable here; starts machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mariadb" / "content"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from machines import NETWORK, PREFIX, SUBNET, Machine, build, docker


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    docker("network", "create", "--subnet", SUBNET, NETWORK)
    yield NETWORK
    docker("network", "rm", NETWORK)


@pytest.fixture(scope="module")
def machine(
    network: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Machine]]:
    """Builds a role's image, once, and starts a machine of it."""
    started: dict[str, Machine] = {}
    built: set[str] = set()

    def start(
        role: str,
        address: str,
        files: Mapping[str, Path] | None = None,
        name: str = "",
        *,
        wait: bool = True,
        memory_mb: int = 512,
    ) -> Machine:
        assert network
        if role not in built:
            build(role, tmp_path_factory.mktemp("context") / role)
            built.add(role)
        new_machine = started[name or role] = Machine(role, address, files or {}, name, memory_mb)
        if wait:
            new_machine.wait_until_ready()
        return new_machine

    yield start
    for machine_started in started.values():
        docker("rm", "-f", "-v", machine_started.name)
    for role in built:
        docker("rmi", "--no-prune", f"{PREFIX}{role}:test")
