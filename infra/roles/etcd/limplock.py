"""Limplock's rows on etcd: its leader, the client's target, and the metrics of a server.

Parts and metrics come from `/metrics`, over the control network, which no limping card serves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import httpx

from experiments.kinds.limplock.clients import metrics_client
from experiments.kinds.limplock.clients.leader_follower import LeaderFollower
from experiments.kinds.limplock.clients.system import PageMetric, Parts
from experiments.kinds.limplock.row import Row

_PORT = 2379
_BEHIND_MOST = 100  # entries of the log that a follower has yet to commit
_LINE = re.compile(r"^([a-z_]+) ([0-9.eE+-]+)$", re.MULTILINE)
_IS_LEADER, _HAS_LEADER, _COMMITTED = (
    "etcd_server_is_leader", "etcd_server_has_leader", "etcd_server_proposals_committed_total",
)  # fmt: skip
_METRICS = {
    "etcd_server_proposals_pending": "proposals_pending",
    "etcd_server_slow_apply_total": "slow_applies",
    "etcd_server_heartbeat_send_failures_total": "heartbeats_late",
    "etcd_server_leader_changes_seen_total": "leader_changes",
    "etcd_network_client_grpc_received_bytes_total": "received_bytes",
    "process_resident_memory_bytes": "resident_bytes",
    "go_goroutines": "goroutines",
}


class Etcd(LeaderFollower):
    """A cluster; the row's client asks a follower that does not limp."""

    port, operations, made_by = _PORT, ("put",), "put"
    sources = ("EtcdClient.java",)
    opener = "EtcdClient"
    shown = (
        PageMetric("proposals_pending", "proposals that wait to be committed"),
        PageMetric("heartbeats_late", "heartbeats that the leader sent too late, so far"),
        PageMetric("resident_bytes", "memory in use, MB", 2.0**20),
    )

    def parts(self, row: Row) -> Parts:
        """Return the leader, and the followers that know it and are not far behind."""
        del row
        metrics = {name: self._metrics(name) for name in self.nodes}
        leaders = tuple(name for name, values in metrics.items() if values.get(_IS_LEADER))
        least = max((metrics[name][_COMMITTED] for name in leaders), default=0.0) - _BEHIND_MOST
        followers = tuple(
            name for name, values in metrics.items()
            if name not in leaders and values.get(_HAS_LEADER) and values[_COMMITTED] >= least
        )  # fmt: skip
        return self.led(leaders, followers)

    def look(self, node: str) -> Mapping[str, float]:
        """Read the values of `/metrics` on proposals, heartbeats and memory."""
        metrics = self._metrics(node)
        return {name: metrics[key] for key, name in _METRICS.items() if key in metrics}

    def _metrics(self, node: str) -> Mapping[str, float]:
        """Read the metrics without labels; empty if the server does not answer."""
        try:
            return read_metrics(
                metrics_client.page(f"http://{self.nodes[node].control}:{_PORT}/metrics")
            )
        except httpx.HTTPError:
            return {}


def read_metrics(text: str) -> dict[str, float]:
    """Parse names and values of a server's text, without those that have labels."""
    return {name: float(value) for name, value in _LINE.findall(text)}


SYSTEM = Etcd
