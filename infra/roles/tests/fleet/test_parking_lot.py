"""The parking lots: a server on its database and naming service, and the replication manager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from machines import Machine, docker, eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

NAMES, DATABASE, SERVER, MANAGER = (f"198.18.241.{100 + n}" for n in range(4))


def settings(folder: Path, role: str, **values: str) -> dict[str, Path]:
    path = folder / f"{role}.env"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return {"/etc/sparecraft/role.env": path}


def test_a_server_comes_back_and_is_found_again(
    machine: Callable[..., Machine], tmp_path: Path
) -> None:
    names = settings(
        tmp_path, "etcd", NAME="names-1", ADDRESS=NAMES, PEERS=f"names-1={NAMES}",
        ELECTION_MS="1000",
    )  # fmt: skip
    etcd = machine("etcd", NAMES, names)
    database = machine("parking-lot-database", DATABASE)
    values = {"NAMING": f"{NAMES}:2379", "DATABASE": f"mysql://lots:lots@{DATABASE}:3306/lots"}
    server = machine(
        "parking-lot", SERVER, settings(tmp_path, "parking-lot", NAME="a", ADDRESS=SERVER, **values)
    )
    manager = machine(
        "replication-manager", MANAGER,
        settings(tmp_path, "manager", NAME="m", NAMING=values["NAMING"], FAULT_DETECTION_MS="100"),
    )  # fmt: skip

    def key(name: str) -> str:
        return etcd.run("env", "ETCDCTL_API=3", "etcdctl", "get", "--print-value-only", name)

    eventually("it is registered", lambda: SERVER in key("lots/servers/a"))
    docker("kill", "--signal", "KILL", server.name)
    eventually("it is removed and ordered", lambda: key("lots/orders/a").strip() != "")
    assert key("lots/servers/a").strip() == ""
    docker("start", server.name)
    eventually("it is registered again", lambda: SERVER in key("lots/servers/a"))
    database.die_and_return()
    manager.die_and_return()
    assert server.is_ready()
    for host in (server, manager, database):
        docker("stop", "--timeout", "10", host.name)
        state = docker("inspect", "--format", "{{.State.ExitCode}}", host.name)
        assert state.strip() == "0", host.name
