"""Limplock's rows on Cassandra: all nodes are replicas, and any node can coordinate.

Requests go to the new release by CQL, to the old one by Thrift. The state of a node comes over the
control network, which no limping card serves: from the beans that the exporter of its JVM shows,
and for the old release from Thrift, the only source of the nodes that it reaches.
"""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from core.errors import InputError
from experiments.kinds.limplock.clients.jvm import exported, read_jvm, samples
from experiments.kinds.limplock.clients.process import Clients, Task
from experiments.kinds.limplock.clients.system import Node, NotStable, PageMetric, Parts, System
from experiments.kinds.limplock.row import Load, Row

_CLIENTS = {"new": ("CqlClient", 9042), "old": ("ThriftClient", 9160)}
_OPERATIONS = ("get", "put")
_ROW_BYTES = 170  # the paper gives no size; the release's stress tool puts five columns of 34
_PUT_KEYS, _PROBED_KEYS = 1000, 10
_FILLED_AT_ONCE = 32
_HEAVY_AT_ONCE, _HEAVY_GAP_S = 32, 0.1  # at most 320 puts a second: a host of two cores does more
_PREPARE_S = 180.0
_ANSWER_S = 3.0
_BEANS = (
    # metric, bean and its attribute, scope, end of its name; "" matches any, and values are summed
    ("reads_active", "metrics_ThreadPools_Value", "ReadStage", "ActiveTasks"),
    ("reads_pending", "metrics_ThreadPools_Value", "ReadStage", "PendingTasks"),
    ("writes_active", "metrics_ThreadPools_Value", "MutationStage", "ActiveTasks"),
    ("writes_pending", "metrics_ThreadPools_Value", "MutationStage", "PendingTasks"),
    ("requests_active", "metrics_ThreadPools_Value", "Native-Transport-Requests", "ActiveTasks"),
    ("to_peers_pending", "metrics_Connection_Value", "", "PendingTasks"),
    ("to_peers_timed_out", "metrics_Connection_Count", "", "TotalTimeouts"),
    ("dropped", "metrics_DroppedMessage_Count", "", "Dropped"),
    ("hints", "metrics_Storage_Count", "", "TotalHints"),
    ("hints", "db_StorageProxy_TotalHints", "", ""),
    ("speculative_reads", "metrics_Keyspace_Count", "", "SpeculativeRetries"),
    ("nodes_up", "net_FailureDetector_UpEndpointCount", "", ""),
    ("nodes_down", "net_FailureDetector_DownEndpointCount", "", ""),
)


class Cassandra(System):
    """A ring; as in the paper, the row's client asks a node that does not limp."""

    shown = (
        PageMetric("to_peers_pending", "messages that wait to be sent to other nodes"),
        PageMetric("hints", "hints written so far"),
        PageMetric("nodes_down", "nodes that are taken for dead"),
        PageMetric("speculative_reads", "reads asked of one replica more, so far"),
        PageMetric("writes_active", "threads of the write stage at work"),
        PageMetric("reads_active", "threads of the read stage at work"),
        PageMetric("heap_used_mb", "heap in use, MB", limit="heap_max_mb"),
    )

    def __init__(self, nodes: Sequence[Node], settings: Mapping[str, Any]) -> None:
        super().__init__(nodes, settings)
        self._generation = str(settings["GENERATION"])
        self.opener, self._port = _CLIENTS[self._generation]
        self.sources = ("CassandraClient.java", f"{self.opener}.java")
        self._retry = str(settings["SPECULATIVE_RETRY"])
        self._filled = 0

    @classmethod
    def check(cls, row: Row) -> None:
        """Raise InputError for operations that the client does not have."""
        for load in filter(None, (row.workload, row.beside)):
            if load.operation not in _OPERATIONS or load.consistency is None:
                raise InputError(
                    f"row {row.name}",
                    expected=f"one of {', '.join(_OPERATIONS)}, with a consistency",
                    got=f"{load.operation}, {load.consistency or 'none'}",
                )

    def parts(self, row: Row) -> Parts:
        """Return all nodes as replicas, once each one reaches all; raises NotStable before."""
        del row
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            reached = dict(zip(self.nodes, pool.map(self._count_reached, self.nodes), strict=True))
        if any(count != len(self.nodes) for count in reached.values()):
            raise NotStable(
                "the ring",
                expected=f"nodes that reach all {len(self.nodes)}",
                got=", ".join(f"{name} reaches {count}" for name, count in reached.items()),
            )
        return {"replica": tuple(self.nodes)}

    def _count_reached(self, node: str) -> int:
        """Return the number of nodes that this one takes as alive, itself included.

        It is 0 if the node does not answer.
        """
        control = self.nodes[node].control
        if self._generation == "old":
            return reached_of(_thrift("describe_schema_versions", control))
        metrics = read_beans(exported(control))
        return int(metrics.get("nodes_up", 0.0))

    def asked_machine(self, row: Row, parts: Parts, injected: str) -> str:
        """Return the first replica that does not limp."""
        del row
        return next(name for name in parts["replica"] if name != injected)

    def target(self, node: str, operation: str) -> str:
        """Return one coordinator, which the client does not replace, and one row at a time."""
        del operation
        return self._target(node, 1)

    def _target(self, node: str, at_once: int) -> str:
        return f"{self.nodes[node].address} {self._port} {at_once} {self._retry}"

    def prepare(self, row: Row, count: int, clients: Clients) -> None:
        """Make the table and fill it, on all replicas, for the row and its probes."""
        first = next(iter(self.nodes))
        clients.do(Task(first, "create", self._target(first, 1), 1, 0, 1), _PREPARE_S)
        keys = count if row.workload.operation == "get" else _PROBED_KEYS
        if keys > self._filled:
            calls = -(-keys // _FILLED_AT_ONCE)
            target = self._target(first, _FILLED_AT_ONCE)
            clients.do(Task(first, "fill-all", target, calls, _ROW_BYTES, calls), _PREPARE_S)
            self._filled = keys

    def operation(self, row: Row, load: Load, count: int, node: str) -> Task:
        """Return the task of a load.

        The row's own load is sequential; the one beside it has many puts under way.
        """
        operation = f"{load.operation}-{load.consistency}"
        keys = load.keys or count or _PUT_KEYS
        if load is row.beside:
            target = self._target(node, _HEAVY_AT_ONCE)
            return Task(node, operation, target, count, _ROW_BYTES, keys, gap_s=_HEAVY_GAP_S)
        return Task(node, operation, self._target(node, 1), count, _ROW_BYTES, keys)

    def probe(self, row: Row, operation: str, node: str) -> Task:
        """Return a task on a few rows."""
        del row
        return Task(node, operation, self._target(node, 1), 0, _ROW_BYTES, _PROBED_KEYS)

    def look(self, node: str) -> Mapping[str, float]:
        """Read stages, queues to peers, dropped messages, hints and heap of a node."""
        text = exported(self.nodes[node].control)
        return read_beans(text) | read_jvm(text)


def read_beans(text: str) -> dict[str, float]:
    """Extract the metrics of `_BEANS` from the exporter's text."""
    metrics: dict[str, float] = {}
    for name, labels, value in samples(text):
        for metric, bean, scope, ending in _BEANS:
            if (
                name == f"org_apache_cassandra_{bean}"
                and scope in ("", labels.get("scope"))
                and labels.get("name", "").endswith(ending)
            ):
                metrics[metric] = metrics.get(metric, 0.0) + value
    return metrics


def _thrift(call: str, host: str) -> bytes:
    """Return the framed binary answer to a call without arguments; empty if there is none."""
    name = call.encode()
    message = struct.pack(">II", 0x80010001, len(name)) + name + struct.pack(">IB", 0, 0)
    try:
        with socket.create_connection((host, 9160), timeout=_ANSWER_S) as connection:
            connection.sendall(struct.pack(">I", len(message)) + message)
            with connection.makefile("rb") as answer:
                (length,) = struct.unpack(">I", answer.read(4))
                return answer.read(length)
    except (OSError, struct.error):
        return b""


def reached_of(answer: bytes) -> int:
    """Count the nodes with a schema in an answer to describe_schema_versions.

    The answer maps versions to addresses, with silent nodes under UNREACHABLE.
    """
    try:
        return _parse_reached(io.BytesIO(answer))
    except struct.error:
        return 0


def _parse_reached(answer: io.BytesIO) -> int:
    def number() -> int:
        return int(struct.unpack(">I", answer.read(4))[0])

    def text() -> bytes:
        return answer.read(number())

    answer.read(4)  # the kind of message
    text()
    answer.read(9)  # its number; field and types of the map
    count = 0
    for _ in range(number()):
        version = text()
        answer.read(1)  # type of the list
        addresses = [text() for _ in range(number())]
        count += len(addresses) if version != b"UNREACHABLE" else 0
    return count


SYSTEM = Cassandra
