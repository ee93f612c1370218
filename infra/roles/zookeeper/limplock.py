"""Limplock's rows on ZooKeeper: its leader, the client's target, and the metrics of a server.

Parts and metrics come from the four-letter word `mntr` and from the JVM, over the control network,
which no limping card serves.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.kinds.limplock.clients.jvm import look_at_jvm
from experiments.kinds.limplock.clients.leader_follower import LeaderFollower
from experiments.kinds.limplock.clients.process import Clients
from experiments.kinds.limplock.clients.system import Node, NotStable, PageMetric, Parts
from experiments.kinds.limplock.row import Row

_PORT = 2181
_ANSWER_S = 2.0
_PARTS = ("leader", "follower")
_QUEUE = "_learner_handler_qp_size"  # 3.9: packets that wait for a follower, as each one leaves
_METRICS = (
    "avg_latency", "max_latency", "outstanding_requests", "packets_received", "packets_sent",
    "pending_syncs", "synced_followers", "approximate_data_size",
)  # fmt: skip


class ZooKeeper(LeaderFollower):
    """An ensemble; as in the paper, the row's client asks a follower that does not limp."""

    port, operations, made_by = _PORT, ("get", "set"), "create"
    sources = ("ZooKeeperClient.java",)
    opener = "ZooKeeperClient"
    shown = (
        PageMetric("outstanding_requests", "requests under way in a server"),
        PageMetric("queued_to_learners", "proposals that wait for a follower, at the leader"),
        PageMetric("heap_used_mb", "heap in use, MB", limit="heap_max_mb"),
        PageMetric("avg_latency", "mean latency as the server counts it, ms"),
    )

    def __init__(self, nodes: Sequence[Node], settings: Mapping[str, Any]) -> None:
        super().__init__(nodes, settings)
        self._queued: dict[str, list[float]] = {}

    def parts(self, row: Row) -> Parts:
        """Return the leader, and its followers once all are synced; raises NotStable before."""
        del row
        answers = {name: self._read_mntr(name) for name in self.nodes}
        servers = {part: _servers_in(answers, part) for part in _PARTS}
        synced = sum(float(values.get("zk_synced_followers", 0)) for values in answers.values())
        parts = self.led(servers["leader"], servers["follower"])
        if synced < len(self.nodes) - 1:
            raise NotStable("the ensemble", expected="synced followers", got=f"{synced:g}")
        return parts

    def prepare(self, row: Row, count: int, clients: Clients) -> None:
        """Make the znodes of the row and its probes."""
        task = self.operation(row, row.workload, count, next(iter(self.nodes)))
        self.make(clients, task.size, task.keys)
        super().prepare(row, count, clients)

    def look(self, node: str) -> Mapping[str, float]:
        """Read the numbers of `mntr`, the queue for followers, and the heap."""
        values = self._read_mntr(node)
        metrics = {key: float(values[f"zk_{key}"]) for key in _METRICS if f"zk_{key}" in values}
        sums = [_sum_queues(values, f"zk_{counter}_") for counter in ("sum", "cnt")]
        before, self._queued[node] = self._queued.get(node, sums), sums
        if (samples := sums[1] - before[1]) > 0:
            metrics["queued_to_learners"] = (sums[0] - before[0]) / samples
        return metrics | look_at_jvm(self.nodes[node].control) if values else {}

    def _read_mntr(self, node: str) -> dict[str, str]:
        """Read keys and values of `mntr`; empty if the server does not answer."""
        try:
            answer = _ask("mntr", self.nodes[node].control)
        except OSError:
            return {}
        pairs = (line.split("\t", 1) for line in answer.splitlines() if "\t" in line)
        return {key: value.strip() for key, value in pairs}


def _sum_queues(values: Mapping[str, str], start: str) -> float:
    """Sum the leader's counters of its queues over all followers."""
    counters = (value for key, value in values.items() if key.startswith(start) and _QUEUE in key)
    return sum(float(value) for value in counters)


def _servers_in(answers: Mapping[str, Mapping[str, str]], state: str) -> tuple[str, ...]:
    return tuple(name for name, values in answers.items() if values.get("zk_server_state") == state)


def _ask(word: str, host: str) -> str:
    """Return a server's answer to a four-letter word."""
    answer = b""
    with socket.create_connection((host, _PORT), timeout=_ANSWER_S) as connection:
        connection.sendall(word.encode())
        while part := connection.recv(65536):
            answer += part
    return answer.decode()


SYSTEM = ZooKeeper
