"""MariaDB with Galera behind an arbiter: machines are killed under load, cut off, and come back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from machines import NETWORK, Machine, docker, eventually
from mysql_client import Connection, Refused
from promoted import ARBITER, loaded, primary

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

STORES = {f"store-{n}": f"198.18.241.{120 + n}" for n in (1, 2, 3)}
SPARE = ("store-4", "198.18.241.124")
READ = "SELECT field0 FROM usertable WHERE ycsb_key = 'entry:000001'"
Start = Callable[..., Machine]
Stores = dict[str, Machine]


def env(folder: Path, name: str, address: str) -> dict[str, Path]:
    peers = ",".join(f"{peer}={at}" for peer, at in [*STORES.items(), SPARE])
    values = {"NAME": name, "TIER": "store", "ADDRESS": address, "PEERS": peers, "NODES": "3"}
    path = folder / f"{name}.env"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return {"/etc/sparecraft/role.env": path}


def arbiter_toml(folder: Path) -> dict[str, Path]:
    path = folder / "arbiter.toml"
    servers = "".join(
        f'[[servers]]\nname = "{name}"\naddress = "{address}:3306"\n'
        for name, address in [*STORES.items(), SPARE]
    )
    account = 'user = "records"\npassword = "records"\ndatabase = "records"\n'
    path.write_text(
        f'protocol = "mysql"\nlisten = "{ARBITER}:3306"\nadmin = "{ARBITER}:9300"\n'
        'tier = "store"\npolicy = "round-robin"\nreplicas = 2\ntokens = 16\n'
        "connect_timeout_ms = 1000\nrequest_timeout_ms = 6000\n"
        f'[mysql]\n{account}primary = "detected"\n{servers}'
    )
    return {"/etc/sparecraft/arbiter.toml": path}


class Client(threading.Thread):
    """Sends one statement after the other to the arbiter, and notes each reply; None is good."""

    def __init__(self, statement: Callable[[int], str], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._statement, self._stopping = statement, stop
        self.replies: list[tuple[float, int, str | None]] = []

    def run(self) -> None:
        connection = None
        number = 0
        while not self._stopping.wait(0.01):
            number += 1
            error: str | None = None
            try:
                if connection is None:
                    connection = Connection(ARBITER)
                connection.execute(self._statement(number))
            except Refused as refusal:
                error = str(refusal)
            except OSError as loss:
                error = f"lost: {loss}"
            if error is not None and connection is not None:
                connection.close()
                connection = None
            self.replies.append((time.monotonic(), number, error))
        if connection is not None:
            connection.close()

    def good(self, since: float = 0.0) -> set[int]:
        return {number for at, number, error in self.replies if at > since and error is None}

    def bad(self) -> list[str]:
        return sorted({error for _, _, error in self.replies if error is not None})

    def pause_s(self, since: float) -> float:
        """Return the longest time between two good replies, from the last before `since` on."""
        times = [at for at, _, error in self.replies if error is None]
        first = max(number for number, at in enumerate(times) if at <= since)
        return max(b - a for a, b in zip(times[first:], times[first + 1 :], strict=False))


def load() -> AbstractContextManager[tuple[Client, Client]]:
    return loaded(Client, lambda number: f"INSERT INTO written (number) VALUES ({number})", READ)


def sql(store: Machine, statement: str) -> list[str]:
    return store.run("mariadb", "--batch", "--skip-column-names", "-e", statement).splitlines()


def written(store: Machine) -> list[int]:
    return [int(line) for line in sql(store, "SELECT number FROM records.written ORDER BY id")]


def is_read_only(store: Machine) -> bool:
    return sql(store, "SELECT @@global.read_only") == ["1"]


def awaited(store: Machine) -> set[str]:
    """Return the machines that it waits for, before it starts."""
    last = docker("logs", "--tail", "1", store.name).split()
    return set(last[2:]) if last[:2] == ["waits", "for"] else set()


def kill(*stores: Machine) -> None:
    for store in stores:
        docker("kill", "--signal", "KILL", store.name)
    for store in stores:
        docker("wait", store.name)


def start(*stores: Machine) -> None:
    for store in stores:
        docker("start", store.name)
    for store in stores:
        store.wait_until_ready()


def compare(stores: Stores, writer: Client | None = None) -> None:
    """Check that all machines have the same rows and records, and the arbiter one primary.

    writer: whose acknowledged rows are among them, and no row twice.
    """
    eventually("a primary", lambda: primary() is not None)
    assert [name for name, store in stores.items() if not is_read_only(store)] == [primary()]
    first, *others = stores.values()
    for table in ("written", "usertable"):
        rows = sql(first, f"SELECT * FROM records.{table}")
        for other in others:
            eventually(
                f"{other.name} has the same rows",
                lambda other=other, table=table, rows=rows: (  # type: ignore[misc]
                    sql(other, f"SELECT * FROM records.{table}") == rows
                ),
            )
    if writer is not None:
        kept = written(first)
        assert writer.good() <= set(kept), "acknowledged, and lost"
        assert len(kept) == len(set(kept)), "executed twice"


@pytest.fixture(scope="module")
def stores(machine: Start, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    folder = tmp_path_factory.mktemp("fleet")
    stores = {
        name: machine("mariadb-galera", address, env(folder, name, address), name, wait=False)
        for name, address in STORES.items()
    }
    for store in stores.values():
        store.wait_until_ready()
    machine("arbiter", ARBITER, arbiter_toml(folder))
    table = "records.written (id BIGINT AUTO_INCREMENT PRIMARY KEY, number INT NOT NULL)"
    sql(stores["store-1"], f"CREATE TABLE {table}")
    return stores


def test_a_new_tier_begins_with_the_same_records_and_copies_none(stores: Stores) -> None:
    compare(stores)
    assert sql(stores["store-3"], "SELECT COUNT(*) FROM records.usertable") == ["2000"]
    key = "SELECT field0 FROM records.usertable WHERE ycsb_key = 'entry:001999'"
    assert sql(stores["store-3"], key)[0].startswith("entry:001999 ")
    assert primary() == "store-1"
    assert not any("SST completed" in docker("logs", store.name) for store in stores.values())


def lose(stores: Stores, lost: str) -> None:
    """Kill a machine under load, until writes go on and it has come back with all rows."""
    before = primary()
    sql(stores[lost], "DELETE FROM records.written")
    with load() as (writer, reader):
        eventually("writes", lambda: len(writer.good()) > 100)
        killed = time.monotonic()
        kill(stores[lost])
        dead = time.monotonic()
        eventually("writes go on", lambda: len(writer.good(dead)) > 10)
        docker("start", stores[lost].name)
        stores[lost].wait_until_ready()
        returned = time.monotonic()
        eventually("writes beside it", lambda: len(writer.good(returned)) > 100)
    # Shown by -s.
    print(
        f"{lost} of the primary {before} killed: {writer.pause_s(killed):.1f} s without a write, "
        f"{reader.pause_s(killed):.1f} s without a read, back after {returned - killed:.1f} s, "
        f"load {os.getloadavg()[0]:.1f}; writes: {writer.bad()}; reads: {reader.bad()}"
    )
    assert reader.bad() == []
    compare(stores, writer)
    assert (primary() == before) is (lost != before)


def test_a_killed_primary_is_replaced_under_load_without_a_lost_write(stores: Stores) -> None:
    for _ in range(2):
        lose(stores, str(primary()))


def test_a_killed_machine_that_takes_no_writes_stops_them_for_a_while(stores: Stores) -> None:
    lose(stores, next(name for name in stores if name != primary()))


def test_a_primary_that_is_cut_off_takes_no_writes_and_comes_back(stores: Stores) -> None:
    old = str(primary())
    docker("network", "disconnect", NETWORK, stores[old].name)
    eventually("another primary", lambda: primary() not in (None, old))
    eventually("the old one can only be read", lambda: is_read_only(stores[old]))
    write = "INSERT INTO records.written (number) VALUES (-1)"
    assert "ERROR 1047" in stores[old].run("mariadb", "-e", write, check=False)
    connection = Connection(ARBITER)
    connection.execute("INSERT INTO written (number) VALUES (-2)")
    connection.close()
    docker("network", "connect", "--ip", STORES[old], NETWORK, stores[old].name)
    stores[old].wait_until_ready()
    compare(stores)
    assert primary() != old
    assert -2 in written(stores[old])


def test_a_primary_that_hangs_is_replaced_and_wakes_as_one_of_the_others(stores: Stores) -> None:
    old = str(primary())
    sql(stores[old], "DELETE FROM records.written")
    with load() as (writer, _):
        eventually("writes", lambda: len(writer.good()) > 100)
        docker("pause", stores[old].name)
        eventually("another primary", lambda: primary() not in (None, old))
        moved = time.monotonic()
        eventually("writes at the new one", lambda: len(writer.good(moved)) > 100)
        docker("unpause", stores[old].name)
        eventually("the old one can only be read", lambda: is_read_only(stores[old]))
        stores[old].wait_until_ready()
        returned = time.monotonic()
        eventually("writes beside it", lambda: len(writer.good(returned)) > 100)
    compare(stores, writer)
    assert primary() != old


def test_after_the_loss_of_all_machines_every_acknowledged_write_is_there(stores: Stores) -> None:
    sql(stores[str(primary())], "DELETE FROM records.written")
    with load() as (writer, _):
        eventually("writes", lambda: len(writer.good()) > 200)
        for store in stores.values():
            docker("kill", "--signal", "KILL", store.name)
    for store in stores.values():
        docker("wait", store.name)
    start(*stores.values())
    compare(stores, writer)


def test_machines_that_end_one_after_the_other_begin_with_the_last_one_s_writes(
    stores: Stores,
) -> None:
    one, two, three = stores.values()
    docker("stop", "--timeout", "20", one.name)
    eventually("a primary of two", lambda: primary() in ("store-2", "store-3"))
    connection = Connection(ARBITER)
    connection.execute("INSERT INTO written (number) VALUES (-3)")
    connection.close()
    kill(two)
    eventually("the third has no majority", lambda: not three.is_ready() and is_read_only(three))
    kill(three)
    docker("start", one.name)
    eventually("it waits", lambda: awaited(one) == {"store-2", "store-3"})
    start(two, three)
    one.wait_until_ready()
    compare(stores)
    assert -3 in written(one)


def test_a_tier_that_was_stopped_as_a_whole_starts_again(stores: Stores) -> None:
    docker("stop", *(store.name for store in stores.values()))
    start(*stores.values())
    compare(stores)


def test_a_new_machine_does_not_begin_without_those_that_have_the_writes(
    machine: Start, stores: Stores, tmp_path: Path
) -> None:
    kill(*stores.values())
    address = STORES["store-1"]
    files = env(tmp_path, "store-1", address)
    stores["store-1"] = machine("mariadb-galera", address, files, "store-1", wait=False)
    docker("start", stores["store-2"].name)
    eventually("it waits", lambda: awaited(stores["store-2"]) == {"store-3"})
    assert not stores["store-1"].is_ready()
    start(stores["store-3"])
    for store in stores.values():
        store.wait_until_ready()
    compare(stores)


def test_a_cold_spare_copies_all_rows_and_takes_the_place_of_a_lost_machine(
    machine: Start, stores: Stores, tmp_path: Path
) -> None:
    old = str(primary())
    lost = next(name for name in stores if name != old)
    kill(stores.pop(lost))
    # More than a machine keeps for those that join, so that the spare needs a copy of everything.
    sql(stores[old], "CREATE TABLE records.bulk (id SERIAL, text LONGTEXT)")
    for _ in range(40):
        sql(stores[old], "INSERT INTO records.bulk (text) VALUES (REPEAT('x', 1000000))")
    stores[SPARE[0]] = machine("mariadb-galera", SPARE[1], env(tmp_path, *SPARE), SPARE[0])
    compare(stores)
    assert "SST completed on joiner" in docker("logs", stores[SPARE[0]].name)
    assert "SST started on donor" not in docker("logs", stores[old].name), "it stopped the writes"
    # The two that are left are a majority because the spare has joined.
    assert primary() == old
    kill(stores[old])
    others = [store for name, store in stores.items() if name != old]
    eventually("one takes writes", lambda: any(not is_read_only(store) for store in others))
    start(stores[old])
    compare(stores)


def test_it_ends_when_it_is_told_to(stores: Stores) -> None:
    for store in stores.values():
        docker("stop", "--timeout", "20", store.name)
        state = docker("inspect", "--format", "{{.State.ExitCode}}", store.name)
        assert state.strip() == "0", store.name
        assert "mariadbd: Shutdown complete" in docker("logs", "--tail", "20", store.name)
