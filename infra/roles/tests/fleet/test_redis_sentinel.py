"""Redis with sentinels behind an arbiter: the primary is killed under load, and comes back."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from machines import Machine, docker, eventually
from promoted import ARBITER, loaded, primary

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

STORES = {f"store-{n}": f"198.18.241.{120 + n}" for n in (1, 2)}
SENTINELS = {f"sentinel-{n}": f"198.18.241.{130 + n}" for n in (1, 2, 3)}
SPARE = "198.18.241.123"
OF_STORES = {
    "SENTINELS": ",".join(f"{address}:26379" for address in SENTINELS.values()),
    "PEERS": ",".join(f"{name}={address}" for name, address in STORES.items()),
    "FIRST": STORES["store-1"],
    "TIER": "store",
}
READ = "entry:000001"
Start = Callable[..., Machine]


def env(folder: Path, name: str, **values: str) -> dict[str, Path]:
    path = folder / f"{name}.env"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return {"/etc/sparecraft/role.env": path}


def arbiter_toml(folder: Path) -> dict[str, Path]:
    path = folder / "arbiter.toml"
    servers = "".join(
        f'[[servers]]\nname = "{name}"\naddress = "{address}:6379"\n'
        for name, address in STORES.items()
    )
    path.write_text(
        f'protocol = "redis"\nlisten = "{ARBITER}:6379"\nadmin = "{ARBITER}:9300"\n'
        'tier = "store"\npolicy = "round-robin"\nreplicas = 1\ntokens = 16\n'
        f'redis.primary = "detected"\n{servers}'
    )
    return {"/etc/sparecraft/arbiter.toml": path}


class Client(threading.Thread):
    """Sends one command after the other to the arbiter, and notes each reply."""

    def __init__(self, command: Callable[[int], str], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._command, self._stopping = command, stop
        self.replies: list[tuple[float, int, str]] = []

    def run(self) -> None:
        connection = None
        number = 0
        while not self._stopping.wait(0.01):
            number += 1
            try:
                if connection is None:
                    connection = socket.create_connection((ARBITER, 6379), timeout=60)
                connection.sendall(f"{self._command(number)}\r\n".encode())
                reply = connection.recv(65536).decode()
            except OSError as error:
                reply = str(error)
            if connection is not None and reply[:1] not in ("-", ":", "$"):
                connection.close()
                connection = None
            self.replies.append((time.monotonic(), number, reply))
        if connection is not None:
            connection.close()

    def good(self, since: float = 0.0) -> set[int]:
        return {number for at, number, reply in self.replies if at > since and reply[0] in ":$"}

    def bad(self) -> set[str]:
        return {reply.strip() for _, _, reply in self.replies if reply[:1] not in (":", "$")}


def load() -> AbstractContextManager[tuple[Client, Client]]:
    return loaded(Client, lambda number: f"RPUSH written {number}", f"HGET {READ} field1")


def role(store: Machine) -> str:
    return store.run("redis-cli", "role").split()[0]


def written(store: Machine) -> list[int]:
    return [int(line) for line in store.run("redis-cli", "lrange", "written", "0", "-1").split()]


@pytest.fixture(scope="module")
def fleet(
    machine: Start, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Machine], dict[str, Machine]]:
    folder = tmp_path_factory.mktemp("fleet")
    sentinels = {
        name: machine("redis-sentinel", address, env(folder, name, ADDRESS=address), name)
        for name, address in SENTINELS.items()
    }
    stores = {
        name: machine("redis", address, env(folder, name, ADDRESS=address, **OF_STORES), name)
        for name, address in STORES.items()
    }
    machine("arbiter", ARBITER, arbiter_toml(folder))
    return stores, sentinels


def lose_primary(stores: dict[str, Machine], old: str, new: str) -> None:
    """Kill the primary under load, until the other one serves writes and the old one copies."""
    with load() as (writer, reader):
        eventually("writes", lambda: len(writer.good()) > 100)
        killed = time.monotonic()
        docker("kill", "--signal", "KILL", stores[old].name)
        eventually("another primary", lambda: primary() == new)
        promoted = time.monotonic()
        print(f"{new} is the primary {promoted - killed:.1f} s after the kill")  # shown by -s
        # It starts at once, as a machine that is started again.
        docker("start", stores[old].name)
        eventually("writes at the new one", lambda: len(writer.good(promoted)) > 100)
        stores[old].wait_until_ready()
        eventually(
            "the old one copies",
            lambda: "master_link_status:up" in stores[old].run("redis-cli", "info", "replication"),
        )
        returned = time.monotonic()
        eventually("writes beside it", lambda: len(writer.good(returned)) > 100)
    assert (role(stores[old]), role(stores[new]), primary()) == ("slave", "master", new)
    kept = written(stores[new])
    assert writer.good(promoted) <= set(kept), "acknowledged after the promotion, and lost"
    assert len(kept) == len(set(kept)), "a write was sent twice"
    eventually("the copy is complete", lambda: written(stores[old]) == kept)
    assert all(reply.startswith(("-ERR arbiter: ", "-READONLY")) for reply in writer.bad()), (
        writer.bad()
    )
    # A read that was at the dead server goes to the other.
    assert reader.bad() == set()
    stores[new].run("redis-cli", "del", "written")


def test_a_killed_primary_is_replaced_under_load_and_comes_back_as_a_replica(
    fleet: tuple[dict[str, Machine], dict[str, Machine]],
) -> None:
    stores, sentinels = fleet
    lose_primary(stores, "store-1", "store-2")
    # A sentinel that starts again knows the tier, and they promote the first one again.
    sentinels["sentinel-1"].die_and_return()
    named = sentinels["sentinel-1"].run(
        *("redis-cli", "-p", "26379", "sentinel", "get-master-addr-by-name", "store")
    )
    assert named.split()[0] == STORES["store-2"]
    lose_primary(stores, "store-2", "store-1")


def test_a_primary_that_starts_at_once_waits_for_its_successor(
    fleet: tuple[dict[str, Machine], dict[str, Machine]],
) -> None:
    """Its replica has writes that it has lost, and would copy their loss."""
    stores, _ = fleet
    old = next(name for name, store in stores.items() if role(store) == "master")
    (new,) = set(stores) - {old}
    stores[old].run("redis-cli", "set", "kept", "yes")
    eventually("the copy", lambda: stores[new].run("redis-cli", "get", "kept").strip() == "yes")
    stores[old].die_and_return()
    assert (role(stores[old]), role(stores[new])) == ("slave", "master")
    eventually("the copy", lambda: stores[old].run("redis-cli", "get", "kept").strip() == "yes")


def test_a_cold_spare_that_starts_copies_the_primary_and_can_be_promoted(
    machine: Start, fleet: tuple[dict[str, Machine], dict[str, Machine]], tmp_path: Path
) -> None:
    stores, sentinels = fleet
    first = next(store for store in stores.values() if role(store) == "master")
    first.run("redis-cli", "set", "kept", "longer")
    spare = machine("redis", SPARE, env(tmp_path, "spare", ADDRESS=SPARE, **OF_STORES), "store-3")
    assert (role(spare), spare.run("redis-cli", "get", "kept").strip()) == ("slave", "longer")
    replicas = ("redis-cli", "-p", "26379", "sentinel", "replicas", "store")
    # A sentinel asks the primary for its replicas every ten seconds.
    eventually("the spare", lambda: SPARE in sentinels["sentinel-1"].run(*replicas))


def test_new_sentinels_are_told_of_the_primary_by_a_machine_that_starts(
    machine: Start, fleet: tuple[dict[str, Machine], dict[str, Machine]], tmp_path: Path
) -> None:
    stores, sentinels = fleet
    first = next(name for name, store in stores.items() if role(store) == "master")
    (other,) = set(stores) - {first}
    for name, address in SENTINELS.items():
        sentinels[name] = machine(
            "redis-sentinel", address, env(tmp_path, name, ADDRESS=address), name
        )
    stores[other].die_and_return()
    assert (role(stores[first]), role(stores[other])) == ("master", "slave")
    for sentinel in sentinels.values():
        named = sentinel.run(
            *("redis-cli", "-p", "26379", "sentinel", "get-master-addr-by-name", "store")
        )
        assert named.split()[0] == STORES[first]


def test_both_sides_end_when_they_are_told_to(
    fleet: tuple[dict[str, Machine], dict[str, Machine]],
) -> None:
    stores, sentinels = fleet
    for host in (*stores.values(), *sentinels.values()):
        docker("stop", "--timeout", "10", host.name)
        state = docker("inspect", "--format", "{{.State.ExitCode}}", host.name)
        assert state.strip() == "0", host.name
