"""The distributed stores, in each of their generations: written, read, killed, returned.

`ci/stores` runs this, `make test` does not: it would have all their jars, used or not.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from machines import PREFIX, ROOT, Machine, docker, eventually

pytestmark = [pytest.mark.real, pytest.mark.fleet, pytest.mark.timeout(1800)]

Start = Callable[..., Machine]
GENERATIONS = ("new", "old")
QUORUM, ALL = 4, 5


def address(role: str, index: int) -> str:
    """Each role has ten addresses of its own."""
    first = {"zookeeper": 101, "hdfs": 111, "cassandra": 121, "etcd": 131}[role]
    return f"198.18.241.{first + index - 1}"


def ensemble(
    start: Start, folder: Path, role: str, nodes: int, **settings: str | int
) -> list[Machine]:
    """A tier's machines, told what role.json says, started in reverse and ready."""
    told = json.loads((ROOT / "infra/roles" / role / "role.json").read_text())
    names = [f"{role}-{index}" for index in range(1, nodes + 1)]
    peers = ",".join(f"{name}={address(role, i)}" for i, name in enumerate(names, start=1))
    docker("rm", "-f", "-v", *(f"{PREFIX}{name}" for name in names), check=False)
    machines = []
    for index in range(nodes, 0, -1):
        words = {
            "name": names[index - 1],
            "tier": role,
            "address": address(role, index),
            "index": index,
            "nodes": nodes,
            "first": address(role, 1),
            "peers": peers,
        }
        values = {key: one["default"] for key, one in told.get("settings", {}).items()} | settings
        values |= {key: text.format(**words) for key, text in told["environment"].items()}
        path = folder / f"{names[index - 1]}.env"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        files = {"/etc/sparecraft/role.env": path}
        machines.append(start(role, address(role, index), files, names[index - 1], wait=False))
    machines.reverse()
    for machine in machines:
        machine.wait_until_ready()
    return machines


@pytest.mark.parametrize("generation", GENERATIONS)
def test_zookeeper_s_nodes_are_on_every_server_and_outlive_a_sigkill(
    machine: Start, tmp_path: Path, generation: str
) -> None:
    servers = ensemble(machine, tmp_path, "zookeeper", 3, GENERATION=generation, HEAP_MB=64)

    def call(index: int, *command: str) -> str:
        jars = f"/opt/sparecraft/role/{generation}/lib/*"
        client = ["java", "-Xmx64m", "-cp", jars, "org.apache.zookeeper.ZooKeeperMain"]
        where = f"{address('zookeeper', index)}:2181"
        return servers[0].run(*client, "-server", where, *command)

    assert "Created /made" in call(1, "create", "/made", "some")
    call(2, "set", "/made", "other")
    servers[2].die_and_return()
    eventually("the third server has it", lambda: "other" in call(3, "get", "/made"))
    for server in servers[1:]:
        docker("kill", server.name)
    eventually("no quorum, not ready", lambda: not servers[0].is_ready())
    docker("start", servers[1].name)
    servers[0].wait_until_ready()
    assert "other" in call(1, "get", "/made")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_hdfs_gives_back_what_was_put_also_after_a_sigkill(
    machine: Start, tmp_path: Path, generation: str
) -> None:
    made: dict[str, str | int] = {"GENERATION": generation, "HEAP_MB": 64, "CHECKPOINT_S": 10}
    servers = ensemble(machine, tmp_path, "hdfs", 5, **made)
    program = 'source /opt/sparecraft/role/hadoop.sh; exec "${java[@]}" "$@"'

    def call(*command: str) -> str:
        return servers[1].run("bash", "-c", program, "client", *command)

    servers[0].run("touch", "/tmp/before")
    servers[1].run("dd", "if=/dev/urandom", "of=/tmp/put", "bs=1M", "count=8")
    call("org.apache.hadoop.fs.FsShell", "-put", "/tmp/put", "/put")
    said = call("org.apache.hadoop.hdfs.tools.DFSck", "/")
    assert "HEALTHY" in said
    assert "replication:\t3" in said.replace(" ", "")
    names = f"/opt/sparecraft/data/{generation}/name3"
    newer = ["find", names, "-name", "fsimage*", "-newer", "/tmp/before"]
    eventually("a new image of the name space", lambda: servers[0].run(*newer) != "")
    servers[0].die_and_return()
    servers[3].die_and_return()
    call("org.apache.hadoop.fs.FsShell", "-get", "/put", "/tmp/got")
    servers[1].run("cmp", "/tmp/put", "/tmp/got")


class Cql:
    """A connection of Cassandra's native protocol, as either generation speaks it."""

    def __init__(self, where: str, generation: str) -> None:
        self.head = ">BBBBI" if generation == "old" else ">BBHBI"
        self.version = 1 if generation == "old" else 4
        self.end = b"" if generation == "old" else b"\0"
        self.connection = socket.create_connection((where, 9042), timeout=30)
        self._call(1, b"\0\1\0\x0bCQL_VERSION\0\0053.0.0")

    def __call__(self, query: str, consistency: int) -> bytes:
        """The result of a query."""
        text = query.encode()
        body = struct.pack(">I", len(text)) + text + struct.pack(">H", consistency) + self.end
        return self._call(7, body)

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    def answers(self, query: str, consistency: int, words: bytes = b"") -> bool:
        """Whether the query succeeds, with these words in its result."""
        try:
            return words in self(query, consistency)
        except AssertionError:
            return False

    def _call(self, operation: int, body: bytes) -> bytes:
        self.connection.sendall(
            struct.pack(self.head, self.version, 0, 0, operation, len(body)) + body
        )
        head = struct.unpack(self.head, self._read(struct.calcsize(self.head)))
        answer = self._read(head[-1])
        assert head[3] != 0, answer
        return answer

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            data = self.connection.recv(size - len(found))
            assert data, "the connection was closed"
            found += data
        return found


@pytest.mark.parametrize("generation", GENERATIONS)
def test_cassandra_s_rows_are_on_a_quorum_and_outlive_a_sigkill(
    machine: Start, tmp_path: Path, generation: str, request: pytest.FixtureRequest
) -> None:
    nodes = ensemble(machine, tmp_path, "cassandra", 3, GENERATION=generation)
    connected = contextlib.ExitStack()
    request.addfinalizer(connected.close)

    def connect(index: int) -> Cql:
        return connected.enter_context(
            contextlib.closing(Cql(address("cassandra", index), generation))
        )

    first, second = connect(1), connect(2)
    how = "{'class': 'SimpleStrategy', 'replication_factor': 3}"
    first(f"CREATE KEYSPACE made WITH replication = {how}", QUORUM)
    first("CREATE TABLE made.pairs (k text PRIMARY KEY, v text)", QUORUM)

    insert = "INSERT INTO made.pairs (k, v) VALUES ('a', '{}')"
    select = "SELECT v FROM made.pairs WHERE k = 'a'"
    eventually(
        "a row is on all nodes, which have its table",
        lambda: second.answers(insert.format("some words"), ALL),
    )
    docker("kill", nodes[2].name)
    eventually("it can be read", lambda: first.answers(select, QUORUM, b"some words"))
    eventually("and written", lambda: second.answers(insert.format("other words"), QUORUM))
    docker("start", nodes[2].name)
    nodes[2].wait_until_ready()
    third = connect(3)
    eventually("the dead one has it", lambda: third.answers(select, QUORUM, b"other words"))


def test_etcd_s_keys_are_on_every_server_and_outlive_a_sigkill(
    machine: Start, tmp_path: Path
) -> None:
    servers = ensemble(machine, tmp_path, "etcd", 3)

    def call(index: int, *command: str) -> str:
        where = f"--endpoints={address('etcd', index)}:2379"
        return servers[0].run("env", "ETCDCTL_API=3", "etcdctl", where, *command)

    call(1, "put", "made", "some")
    servers[2].die_and_return()
    assert call(3, "get", "made") == "made\nsome\n"
    for server in servers[1:]:
        docker("kill", server.name)
    eventually("no quorum, not ready", lambda: not servers[0].is_ready())
    docker("start", servers[1].name)
    servers[0].wait_until_ready()
    assert call(1, "get", "made") == "made\nsome\n"
