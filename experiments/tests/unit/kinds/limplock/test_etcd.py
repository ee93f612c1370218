"""etcd as limplock's rows see it: parts from what servers say of themselves."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from experiments.kinds.limplock.clients.system import Node, NotStable, System, adapter_of
from experiments.kinds.limplock.row import rows
from experiments.paths import ROOT

ROLE = ROOT / "infra" / "roles" / "etcd"
ROW = rows()["E1"]
NODES = [Node(f"members-{k}", f"198.18.0.{k}", f"198.19.0.{k}") for k in (1, 2, 3)]
# Of a follower's /metrics: etcd 3.4.23.
TEXT = """# HELP etcd_server_has_leader Whether or not a leader exists. 1 is existence, 0 is not.
# TYPE etcd_server_has_leader gauge
etcd_server_has_leader 1
etcd_server_heartbeat_send_failures_total 0
etcd_server_id{server_id="8211f1d0f64f3269"} 1
etcd_server_is_leader 0
etcd_server_proposals_committed_total 1.2417e+04
etcd_server_proposals_pending 3
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 0
process_resident_memory_bytes 4.3868160e+07
"""


def server(
    *, leads: bool = False, knows: bool = True, committed: float = 500.0
) -> dict[str, float]:
    return {"etcd_server_is_leader": float(leads), "etcd_server_has_leader": float(knows),
            "etcd_server_proposals_committed_total": committed}  # fmt: skip


def etcd(*metrics: Mapping[str, float]) -> System:
    """A cluster whose servers say this; an empty answer is none."""

    metrics_of = dict(zip((node.name for node in NODES), metrics, strict=True))

    class Told(adapter_of(ROLE)):  # type: ignore[misc]
        def _metrics(self, node: str) -> Mapping[str, float]:
            return metrics_of[node]

    return Told(NODES, {})


def test_the_leader_is_who_says_so_and_the_client_asks_another_that_does_not_limp() -> None:
    system = etcd(server(), server(leads=True), server())
    parts = system.parts(ROW)
    assert parts == {"leader": ("members-2",), "follower": ("members-1", "members-3")}
    assert system.asked_machine(ROW, parts, "members-2") == "members-1"
    assert system.asked_machine(ROW, parts, "members-1") == "members-3"
    assert system.target("members-1", "put") == "198.18.0.1:2379"


@pytest.mark.parametrize(
    ("told", "got"),
    [
        ((server(), server(), server()), "none"),
        ((server(leads=True), server(leads=True), server()), "members-1, members-2"),
        ((server(leads=True), server(knows=False), server()), "members-3"),
        ((server(leads=True), server(committed=100.0), server()), "members-3"),
        ((server(leads=True), {}, server()), "members-3"),
    ],
)
def test_a_cluster_that_is_not_whole_is_unsettled(
    told: tuple[Mapping[str, float], ...], got: str
) -> None:
    with pytest.raises(NotStable) as error:
        etcd(*told).parts(ROW)
    assert got in error.value.got


def test_metrics_without_labels_are_read_as_numbers() -> None:
    metrics = sys.modules[adapter_of(ROLE).__module__].read_metrics(TEXT)
    assert metrics["etcd_server_proposals_committed_total"] == 12417.0
    assert metrics["process_resident_memory_bytes"] == 43868160.0
    assert set(metrics) == {
        "etcd_server_has_leader", "etcd_server_heartbeat_send_failures_total",
        "etcd_server_is_leader", "etcd_server_proposals_committed_total",
        "etcd_server_proposals_pending", "process_resident_memory_bytes",
    }  # fmt: skip
