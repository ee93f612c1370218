"""The ring's adapter: whom nodes reach and what they tell, out of recorded answers."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from experiments.design import load_design
from experiments.kinds.limplock.clients.process import Clients, Task
from experiments.kinds.limplock.clients.system import Node, NotStable, System, adapter_of
from experiments.kinds.limplock.row import rows

NODES = [Node(f"ring-{k}", f"198.18.0.{k}", f"198.19.0.{k}") for k in (1, 2, 3)]
# Lines as 5.0.2 exports them, seconds after one of its peers was stopped.
NEW = """\
# TYPE org_apache_cassandra_metrics_Storage_Count untyped
org_apache_cassandra_metrics_Connection_Value{scope="10_7000",name="SmallMessagePendingTasks",} 32.0
org_apache_cassandra_metrics_Connection_Value{scope="12_7000",name="LargeMessagePendingTasks",} 1.0
org_apache_cassandra_metrics_Connection_Count{name="TotalTimeouts",} 1858.0
org_apache_cassandra_metrics_Connection_OneMinuteRate{name="TotalTimeouts",} 21.5
org_apache_cassandra_metrics_DroppedMessage_Count{scope="MUTATION_REQ",name="Dropped",} 2.0
org_apache_cassandra_metrics_DroppedMessage_Count{scope="READ_REQ",name="Dropped",} 3.0
org_apache_cassandra_metrics_Keyspace_Count{keyspace="limplock",name="SpeculativeRetries",} 231.0
org_apache_cassandra_metrics_Keyspace_Count{keyspace="system",name="SpeculativeRetries",} 0.0
org_apache_cassandra_metrics_ThreadPools_Value{path="request",scope="ReadStage",\
name="PendingTasks",} 7.0
org_apache_cassandra_metrics_ThreadPools_Value{path="request",scope="MutationStage",\
name="ActiveTasks",} 6.0
org_apache_cassandra_metrics_Storage_Count{name="TotalHints",} 1628.0
org_apache_cassandra_net_FailureDetector_UpEndpointCount 2.0
org_apache_cassandra_net_FailureDetector_DownEndpointCount 1.0
jvm_memory_bytes_used{area="heap",} 3.145728E7
"""
WHOLE = "org_apache_cassandra_net_FailureDetector_UpEndpointCount 3.0\n"
OLD = """\
org_apache_cassandra_metrics_Connection_Value{scope="10",name="CommandPendingTasks",} 9.0
org_apache_cassandra_db_StorageProxy_TotalHints 1500.0
org_apache_cassandra_db_StorageProxy_HintsInProgress 8.0
"""
# What 1.2.3 answers: in a ring that is whole, then 20 s after one of its nodes was killed.
HEAD = b"\x80\1\0\2\0\0\0\x18describe_schema_versions\0\0\0\0\r\0\0\x0b\x0f"
REACHES_ALL = HEAD + (
    b"\0\0\0\1\0\0\0$cf5855f2-d312-391a-88a0-f16fdfc42e3b\x0b\0\0\0\3\0\0\0\t127.0.0.1"
    b"\0\0\0\t127.0.0.2\0\0\0\t127.0.0.3\0"
)
LACKS_ONE = HEAD + (
    b"\0\0\0\2\0\0\0$e1d2f22c-d096-337c-aca2-6a73652e4370\x0b\0\0\0\2\0\0\0\t127.0.0.2"
    b"\0\0\0\t127.0.0.3\0\0\0\x0bUNREACHABLE\x0b\0\0\0\1\0\0\0\t127.0.0.1\0"
)
CALL = b"\x80\1\0\1\0\0\0\x18describe_schema_versions\0\0\0\0\0"
# A client whose target names the state of the store: full, empty, or silent.
CLIENT = """\
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeoutException;

public final class Made extends CassandraClient {
  @Override
  List<Connection> connected(String host, int port, int several, String retry) {
    return Collections.nCopies(several, new Connection() {
      @Override public void create() {}
      @Override public void close() {}

      @Override public boolean get(String key, String consistency) throws Exception {
        System.err.println("asked " + key + " " + consistency);
        if (host.equals("silent")) {
          throw new TimeoutException("2 of 3");
        }
        return host.equals("full");
      }

      @Override public void put(String key, byte[] value, String consistency) throws Exception {
        get(key + "=" + value.length, consistency);
      }
    });
  }
}
"""


def system_of(generation: str) -> System:
    role = load_design("limplock-cassandra").roles["cassandra"]
    return adapter_of(role.directory)(NODES, {"GENERATION": generation, "SPECULATIVE_RETRY": "99p"})


def module_of(system: System) -> ModuleType:
    return sys.modules[type(system).__module__]


@pytest.mark.parametrize(
    ("generation", "ask", "good", "bad"),
    [("new", "exported", WHOLE, NEW), ("new", "exported", WHOLE, ""),
     ("old", "_thrift", REACHES_ALL, LACKS_ONE), ("old", "_thrift", REACHES_ALL, b""),
     ("old", "_thrift", REACHES_ALL, REACHES_ALL[:60])],
)  # fmt: skip
def test_all_nodes_are_replicas_once_each_reaches_all(
    monkeypatch: pytest.MonkeyPatch, generation: str, ask: str, good: object, bad: object
) -> None:
    system, row = system_of(generation), rows()["C1"]
    answers: dict[str, object] = {node.control: good for node in NODES}
    monkeypatch.setattr(module_of(system), ask, lambda *arguments: answers[arguments[-1]])
    parts = system.parts(row)
    assert parts == {"replica": ("ring-1", "ring-2", "ring-3")}
    assert system.asked_machine(row, parts, "ring-1") == "ring-2"
    assert system.asked_machine(row, parts, "ring-3") == "ring-1"
    answers[NODES[1].control] = bad
    with pytest.raises(NotStable):
        system.parts(row)


def test_the_paper_s_release_is_asked_in_thrift_and_may_be_silent() -> None:
    thrift = module_of(system_of("old"))._thrift
    request = b""
    with socket.create_server(("127.9.1.60", 9160)) as server:

        def serve() -> None:
            nonlocal request
            connection, _ = server.accept()
            with connection:
                request = connection.recv(1024)
                connection.sendall(struct.pack(">I", len(LACKS_ONE)) + LACKS_ONE)

        thread = threading.Thread(target=serve)
        thread.start()
        assert thrift("describe_schema_versions", "127.9.1.60") == LACKS_ONE
        thread.join()
    assert request == struct.pack(">I", len(CALL)) + CALL
    assert thrift("describe_schema_versions", "127.9.1.60") == b""


def test_metrics_are_sums_of_what_a_node_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    system = system_of("new")
    answers = {NODES[0].control: NEW, NODES[1].control: OLD, NODES[2].control: ""}
    monkeypatch.setattr(module_of(system), "exported", answers.get)
    assert system.look("ring-1") == {"to_peers_pending": 33.0, "to_peers_timed_out": 1858.0,
                                     "dropped": 5.0, "speculative_reads": 231.0,
                                     "reads_pending": 7.0, "writes_active": 6.0, "hints": 1628.0,
                                     "nodes_up": 2.0, "nodes_down": 1.0,
                                     "heap_used_mb": 30.0}  # fmt: skip
    assert system.look("ring-2") == {"to_peers_pending": 9.0, "hints": 1500.0}
    assert system.look("ring-3") == {}


@pytest.mark.parametrize(
    ("generation", "client", "port"), [("new", "CqlClient", 9042), ("old", "ThriftClient", 9160)]
)
def test_each_generation_is_asked_by_a_client_of_its_own(
    generation: str, client: str, port: int
) -> None:
    system = system_of(generation)
    role = load_design("limplock-cassandra").roles["cassandra"]
    assert system.opener == client
    assert all((role.directory / source).is_file() for source in system.sources)
    assert system.probe(rows()["C1"], "put-quorum", "ring-2").target == f"198.18.0.2 {port} 1 99p"


def test_a_row_s_consistency_is_asked_for_and_puts_beside_it_are_many_at_once() -> None:
    system, known_rows = system_of("new"), rows()
    put_task = system.operation(known_rows["C1"], known_rows["C1"].workload, 6000, "ring-2")
    assert (put_task.operation, put_task.count, put_task.keys, put_task.target[-6:]) == (
        "put-quorum", 6000, 6000, " 1 99p",
    )  # fmt: skip
    side_load = known_rows["C3"].beside
    assert side_load is not None
    heavy_task = system.operation(known_rows["C3"], side_load, 0, "ring-2")
    assert (heavy_task.operation, heavy_task.count, heavy_task.target[-7:]) == (
        "put-all",
        0,
        " 32 99p",
    )
    assert heavy_task.keys > 1
    assert heavy_task.gap_s > 0


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiles what both generations' clients share, with a made-up store."""
    folder = tmp_path_factory.mktemp("classes")
    role = load_design("limplock-cassandra").roles["cassandra"].directory
    (folder / "Made.java").write_text(CLIENT)
    shared_sources = [role.parent / "java/Lanes.java", role / "CassandraClient.java"]
    sources = [str(path) for path in (*shared_sources, folder / "Made.java")]
    subprocess.run(["javac", "-proc:none", "-d", str(folder), *sources], check=True)
    return folder


@pytest.fixture
def clients(classes: Path, tmp_path: Path) -> Iterator[Clients]:
    command = ["java", "-Xmx32m", "-XX:TieredStopAtLevel=1", "-cp", str(classes), "Lanes", "Made"]
    store_clients = Clients(command, tmp_path / "log")
    yield store_clients
    store_clients.close()


@pytest.mark.parametrize(
    ("operation", "target", "outcome"),
    [("get-quorum", "full 1 1 99p", "ok"), ("get-quorum", "empty 1 1 99p", "error"),
     ("put-all", "silent 1 1 99p", "timeout"), ("put-all", "silent 1 4 99p", "timeout"),
     ("scan-all", "full 1 1 99p", "error")],
)  # fmt: skip
def test_what_replicas_do_not_answer_is_a_time_out_and_what_is_not_there_an_error(
    clients: Clients, operation: str, target: str, outcome: str
) -> None:
    lane = clients.start(Task("ring-1", operation, target, 0, 10, 1))
    while not lane.did:
        assert not lane.wait(0.01)
    clients.stop(lane)
    assert lane.did[0].outcome == outcome


def test_rows_that_are_asked_for_at_once_are_different_ones(
    clients: Clients, tmp_path: Path
) -> None:
    clients.do(Task("ring-1", "fill-all", "full 1 3 99p", 2, 10, 2), 30.0)
    clients.close()
    asked_lines = {line for line in (tmp_path / "log").read_text().splitlines() if "asked" in line}
    assert asked_lines == {f"asked filled-{key}=10 all" for key in range(6)}
