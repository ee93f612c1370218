"""The distributed stores, in each of their generations: written, read, killed, returned.

`ci/stores` runs this, `make test` does not: it would have all their jars, used or not.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from machines import PREFIX, ROOT, Machine, docker, eventually

pytestmark = pytest.mark.timeout(1800)

Start = Callable[..., Machine]
GENERATIONS = ("new", "old")
QUORUM, ALL = 4, 5
MEMORY_MB = {"hadoop": 1536}  # a worker's tasks are on it


def address(role: str, index: int) -> str:
    """Return a machine's address; each role has ten of its own."""
    roles = ("zookeeper", "hdfs", "cassandra", "etcd", "hbase", "hadoop")
    return f"198.18.241.{100 + 10 * roles.index(role) + index}"


def ensemble(
    start: Start, folder: Path, role: str, nodes: int, *called: str, **settings: str | int
) -> list[Machine]:
    """A tier's machines, told what role.json says, started in reverse and ready.

    `called` are roles whose first machines it calls, in the order of its calls.
    """
    config = json.loads((ROOT / "infra/roles" / role / "role.json").read_text())
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
        values = {
            key: setting["default"] for key, setting in config.get("settings", {}).items()
        } | settings
        values |= {key: text.format(**words) for key, text in config["environment"].items()}
        for callee, call in zip(called, config.get("calls", []), strict=True):
            port = json.loads((ROOT / "infra/roles" / callee / "role.json").read_text())["port"]
            of_call = {"host": address(callee, 1), "hosts": f"{address(callee, 1)}:{port}"}
            variables = call["environment"].items()
            values |= {key: text.format(**words, **of_call) for key, text in variables}
        path = folder / f"{names[index - 1]}.env"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        files = {"/etc/sparecraft/role.env": path}
        where = (address(role, index), files, names[index - 1])
        machines.append(start(role, *where, wait=False, memory_mb=MEMORY_MB.get(role, 512)))
    machines.reverse()
    for machine in machines:
        machine.wait_until_ready(config.get("ready", {}).get("timeout_s", 120))
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
    versions: dict[str, str | int] = {"GENERATION": generation, "HEAP_MB": 64, "CHECKPOINT_S": 10}
    servers = ensemble(machine, tmp_path, "hdfs", 5, **versions)

    def call(*command: str) -> str:
        return program(servers[1], *command)

    servers[0].run("touch", "/tmp/before")
    servers[1].run("dd", "if=/dev/urandom", "of=/tmp/put", "bs=1M", "count=8")
    call("org.apache.hadoop.fs.FsShell", "-put", "/tmp/put", "/put")
    report = call("org.apache.hadoop.hdfs.tools.DFSck", "/")
    assert "HEALTHY" in report
    assert "replication:\t3" in report.replace(" ", "")
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
        """True if the query succeeds, with these words in its result."""
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
        content = b""
        while len(content) < size:
            data = self.connection.recv(size - len(content))
            assert data, "the connection was closed"
            content += data
        return content


@pytest.mark.parametrize("generation", GENERATIONS)
def test_cassandra_s_rows_are_on_a_quorum_and_outlive_a_sigkill(
    machine: Start, tmp_path: Path, generation: str, request: pytest.FixtureRequest
) -> None:
    nodes = ensemble(machine, tmp_path, "cassandra", 3, GENERATION=generation)
    connections = contextlib.ExitStack()
    request.addfinalizer(connections.close)

    def connect(index: int) -> Cql:
        return connections.enter_context(
            contextlib.closing(Cql(address("cassandra", index), generation))
        )

    first, second = connect(1), connect(2)
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 3}"
    first(f"CREATE KEYSPACE made WITH replication = {replication}", QUORUM)
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


def program(machine: Machine, *command: str, check: bool = True) -> str:
    """The output of a class of Hadoop, run with arguments on a machine that has it."""
    run = 'source /opt/sparecraft/role/hadoop.sh; exec "${java[@]}" "$@"'
    return machine.run("bash", "-c", run, "client", *command, check=check)


class Lane:
    """A store's client on this host, as `java/Lanes.java` says; compiled here."""

    def __init__(self, role: str, generation: str, client: str, folder: Path) -> None:
        roles = ROOT / "infra/roles"
        jars = f"{ROOT}/build/{role}/{generation}/*"
        sources = [f"{roles}/java/Lanes.java", f"{roles}/{role}/{generation}/{client}.java"]
        command = ["javac", "-nowarn", "-proc:none", "-d", str(folder), "-cp", jars, *sources]
        subprocess.run(command, check=True, capture_output=True)
        self._process = subprocess.Popen(
            ["java", "-Xmx128m", "-cp", f"{folder}:{jars}", "Lanes", client],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def did(self, operation: str, target: str, count: int = 1, size: int = 0) -> bool:
        """True if the operation succeeds `count` times within two minutes."""
        open_line = "\t".join(
            ["open", "0", target, operation, f"{count}\t{size}\t{count}\t0\t120000"]
        )
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{open_line}\ngo\t0\n")
        self._process.stdin.flush()
        words = next(line.split() for line in self._process.stdout if line.startswith("end"))
        return words == ["end", "0", "done"]

    def close(self) -> None:
        """End the client."""
        self._process.kill()
        self._process.communicate()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_hbase_s_rows_outlive_a_region_server_s_sigkill(
    machine: Start, tmp_path: Path, generation: str, request: pytest.FixtureRequest
) -> None:
    ensemble(machine, tmp_path, "zookeeper", 1, GENERATION=generation, HEAP_MB=64)
    ensemble(machine, tmp_path, "hdfs", 5, GENERATION=generation, HEAP_MB=64)
    versions: dict[str, str | int] = {"GENERATION": generation, "HEAP_MB": 128}
    servers = ensemble(machine, tmp_path, "hbase", 3, "hdfs", "zookeeper", **versions)
    client = Lane("hbase", generation, "HBaseClient", tmp_path / "classes")
    request.addfinalizer(client.close)
    rows = address("zookeeper", 1)
    last = f"{rows} {address('hbase', 3)}"

    assert client.did("table", rows, size=2)
    assert client.did("put", rows, count=100, size=200)
    assert client.did("get", last, count=50)
    if generation == "old":  # it reads a dead server's log before HDFS has closed it
        assert client.did("flush", rows)
    docker("kill", servers[1].name)
    assert client.did("get", rows, count=100)
    docker("start", servers[1].name)
    servers[1].wait_until_ready()
    servers[0].die_and_return()
    assert client.did("put", rows, count=100, size=100)
    assert client.did("compact", rows)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_hadoop_counts_words_also_after_a_worker_s_sigkill(
    machine: Start, tmp_path: Path, generation: str
) -> None:
    versions: dict[str, str | int] = {"GENERATION": generation, "HEAP_MB": 128}
    ensemble(machine, tmp_path, "hdfs", 3, **versions)
    servers = ensemble(machine, tmp_path, "hadoop", 4, "hdfs", **versions)
    jobs, history, *workers = servers
    job_xml = (Path(__file__).parent / "wordcount.xml").read_text()

    def shell(*command: str, check: bool = True) -> str:
        return program(jobs, "org.apache.hadoop.fs.FsShell", *command, check=check)

    def count(output: str) -> str:
        """Count the words of /words into a folder and return the job's name."""
        (tmp_path / "job.xml").write_text(job_xml.replace("OUTPUT", output))
        docker("cp", str(tmp_path / "job.xml"), f"{jobs.name}:/tmp/job.xml")
        reply = program(jobs, "org.apache.hadoop.mapred.JobClient", "-submit", "/tmp/job.xml")
        name = next(word for word in reply.split() if word.startswith("job_"))
        ended = f"{output}/_SUCCESS"
        eventually(f"{name} succeeds", lambda: ended in shell("-ls", output, check=False))
        return name

    jobs.run("bash", "-c", "for n in {1..2000}; do echo one two two; done >/tmp/words")
    shell("-put", "/tmp/words", "/words")
    name = count("/first")
    assert "two\t4000" in shell("-cat", "/first/part-r-*")
    if generation == "new":
        url = f"http://{address('hadoop', 2)}:19888/ws/v1/history/mapreduce/jobs/{name}"
        eventually("the history has the job", lambda: "SUCCEEDED" in history.run("curl", "-s", url))
    else:

        def kept() -> list[str]:
            paths = shell("-lsr", "/mapred/history", check=False).split()
            return [word for word in paths if f"/{name}_" in word and "conf" not in word]

        eventually("the history has the job", lambda: kept() != [])
        url = f"http://{address('hadoop', 2)}:51111/historyfile?logFile={kept()[0]}"
        assert "SUCCESS" in history.run("curl", "-sf", url)
    workers[0].die_and_return()
    jobs.die_and_return()
    count("/second")
    assert "one\t2000" in shell("-cat", "/second/part-r-*")
