"""Limplock's rows on HDFS: places of blocks, the client's target, and the metrics of a server.

Parts and metrics come from the servers' own pages (`/jmx`), over the control network, which no
limping card serves. The NameNode reports the live DataNodes; the client chooses the DataNodes of
its files, and asks the NameNode whether they are there.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from core.errors import InputError, MeasurementFailed
from experiments.design.workloads import module_at
from experiments.kinds.limplock.clients import metrics_client
from experiments.kinds.limplock.clients.jvm import look_at_jvm_by_page
from experiments.kinds.limplock.clients.process import Clients, Lane, Task
from experiments.kinds.limplock.clients.system import Node, NotStable, PageMetric, Parts, System
from experiments.kinds.limplock.row import Load, Row

_placement = module_at(Path(__file__).with_name("placement.py"))
_MOVES = _placement.MOVES
_PORT = 8020
_PAGES = {  # of NameNode, SecondaryNameNode and DataNode
    "new": (9870, 9868, 9864),
    "old": (50070, 50090, 50075),
}
_PREPARE_S = 240.0
_CLEAR_S = 30.0
_SILENT_S = 30.0  # after so long HDFS itself calls a DataNode stale

_CHECKPOINT_S = 10.0  # from the end of a checkpoint to the begin of the next
_CHANGE_S = 600.0  # for a disk a thousand times slower
_INJECT_S = 1.5  # time before the next checkpoint for a fault to be injected
_POLL_S = 0.05
# Each update in the log of a checkpoint contains this name, so a thirtieth of the paper's updates
# have as many bytes.
_LONG_FOLDER = "/row" + 12 * ("/" + 250 * "x")
_CREATES_AT_ONCE = 16  # creates that the client sends at once, as in HdfsClient
_PIECE_BYTES = 16_384  # of a read or a write that is a probe: a millisecond of a card
# Each DataNode has more than its machine keeps in memory, so that a piece that was not read yet is
# on the disk. A piece is so large that a throttle, which passes a tenth of a second at once, delays
# it.
_COLD_BYTES, _COLD_PIECE_BYTES = 384 << 20, 256 << 10
_FOLDERS = {
    "create": "/row", "write": "/row", "replicate": "/row", "read": "/files", "stat": "/",
    "mkdir": "/dirs", "checkpoint": _LONG_FOLDER, "regenerate": "/row", "decommission": "/row",
    "balance": "/row",
}  # fmt: skip
_REQUIRED_SETTINGS: Mapping[
    str, Mapping[str, Any]
] = {  # settings without which a row's operation cannot be done
    "checkpoint": {"CHECKPOINT_S": _CHECKPOINT_S},
    "decommission": {"LEAVING": "yes"},
    "balance": {"CAPACITY_MB": 2048},  # the balancer compares per cent of a DataNode
}
_SETTLE_S = 60.0
# Folders and files that are removed before a run; a balancer that was killed leaves its mark.
_CLEAR_FOLDERS = {"balance": ("/row", "/filling", "/system/balancer.id")}
# Data of the under-utilised DataNode. The excess is then less than a block; else two would move.
_LESS_BYTES = 4 << 20
_IDLE_LOOKS = 5
_KEPT_THREADS = 1.0  # threads of a DataNode that has served a request, also when it is idle
_CLIENT_OPTIONS = {  # settings that the row's client gets, and its names for them
    "HEDGED_READ_THREADS": "dfs.client.hedged.read.threadpool.size",
    "HEDGED_READ_MS": "dfs.client.hedged.read.threshold.millis",
    "TIMEOUT_MS": "dfs.client.socket-timeout",
}
# Options for the time that a balancing waits before it looks again.
_BALANCER_OPTIONS = ("dfs.heartbeat.interval", "dfs.namenode.redundancy.interval.seconds")
_MASTER_OPERATIONS = ("create", "stat", "mkdir")
# Attributes of beans, by their names in either generation, and the names of the metrics.
_ALL_SERVERS = {"java.lang:type=Threading": {"ThreadCount": "threads"}}
_NAMENODE = {
    "Hadoop:service=NameNode,name=RpcActivityForPort8020": {
        "CallQueueLength": "call_queue", "callQueueLen": "call_queue",
        "RpcQueueTimeAvgTime": "queue_ms", "RpcQueueTime_avg_time": "queue_ms",
        "NumInProcessHandler": "handlers_busy",
    },
    "Hadoop:service=NameNode,name=FSNamesystemState": {
        "UnderReplicatedBlocks": "under_replicated", "PendingReplicationBlocks": "regenerating",
        "TotalLoad": "transfers", "FilesTotal": "files",
    },
}  # fmt: skip
_DATANODE = {
    "Hadoop:service=DataNode,name=DataNodeInfo": {
        "XceiverCount": "transfers", "XmitsInProgress": "regenerating",
    },
}  # fmt: skip
_INFO = "Hadoop:service=NameNode,name=NameNodeInfo"
_CALLS = "Hadoop:service=NameNode,name=RpcDetailedActivityForPort8020"


class Hdfs(System):
    """A NameNode, a SecondaryNameNode and DataNodes: the tier's machines in this order.

    If a DataNode limps in a row, the client asks that one: it is in the pipeline of all writes, and
    for reads each DataNode in turn is the first replica, beginning with the limping one.
    """

    opener = "HdfsClient"
    shown = (
        PageMetric("call_queue", "calls that wait for a handler, at the NameNode"),
        PageMetric("handlers_busy", "handlers at work, at the NameNode", limit="handlers_max"),
        PageMetric("transfers", "threads that transfer blocks (NameNode: of all DataNodes)"),
        PageMetric("regenerating", "blocks on their way to further DataNodes"),
        PageMetric("under_replicated", "blocks with too few replicas, as the NameNode counts"),
        PageMetric("threads", "threads in all"),
        PageMetric("heap_used_mb", "heap in use, MB", limit="heap_max_mb"),
    )

    def __init__(self, nodes: Sequence[Node], settings: Mapping[str, Any]) -> None:
        super().__init__(nodes, settings)
        generation = str(settings["GENERATION"])
        self._is_old = generation == "old"
        self.sources = ("HdfsClient.java", "Moves.java", f"{generation}/Placing.java")
        names = list(self.nodes)
        self._master, self._secondary, self._datanodes = names[0], names[1], names[2:]
        master, secondary, datanode = _PAGES[generation]
        self._pages = {name: (self.nodes[name].control, datanode) for name in self._datanodes}
        self._pages[self._master] = self.nodes[self._master].control, master
        self._idle: dict[str, float] = {}  # transfers of each DataNode while it is idle
        # The old one serves on one address only: that from which the NameNode fetches the image.
        self._pages[self._secondary] = self.nodes[self._secondary].address, secondary

    @classmethod
    def check(cls, row: Row) -> None:
        """Raise InputError for operations that the client does not have."""
        for load in filter(None, (row.workload, row.beside)):
            if load.operation not in _FOLDERS:
                expected = f"one of {', '.join(_FOLDERS)}"
                raise InputError(f"row {row.name}", expected=expected, got=load.operation)

    def parts(self, row: Row) -> Parts:
        """Return the parts once the NameNode is out of safe mode and hears of every DataNode.

        A DataNode that leaves may be silent, because the old release ends its server. Raises
        NotStable before.
        """
        info = self._bean(self._master, _INFO)
        if not info or info.get("Safemode"):
            raise _not_stable(str(info.get("Safemode") or "no answer of the NameNode")[:200])
        live, groups = _addresses(info["LiveNodes"]), self._parts_of_datanodes(row)
        expected = set(self._datanodes) - set(groups.get("leaving", ()))
        lost = sorted(name for name in expected if self.nodes[name].address not in live)
        if lost:
            raise _not_stable(f"nothing heard of {', '.join(lost)}")
        return {"master": (self._master,), **groups, "secondary": (self._secondary,)}

    def asked_machine(self, row: Row, parts: Parts, injected: str) -> str:
        """Return the NameNode for its metadata, else the DataNode that limps."""
        del parts
        return self._master if row.workload.operation in _MASTER_OPERATIONS else injected

    def target(self, node: str, operation: str) -> str:
        """Return the NameNode, a folder, and the DataNodes, beginning with this one."""
        if operation in ("read", "write"):
            options = {word: self.settings[key] for key, word in _CLIENT_OPTIONS.items()}
            return self._target(_FOLDERS[operation], self._circle_from(node), options)
        return self._target(_FOLDERS[operation], self._circle_from(node))

    def prepare(self, row: Row, count: int, clients: Clients) -> None:
        """Write the files that the row and its probes read, on their DataNodes."""
        self._check_fleet(row)
        if row.workload.operation == "balance":
            self._idle = self._idle_transfers()
        tasks = []
        if row.workload.operation == "read":
            tasks.append(self._place_task("/files", self._datanodes, _bytes(row.workload), count))
        for operation in {probe.operation for probe in row.probes} & {"read-cached", "read-block"}:
            size = _COLD_BYTES if _is_cold(row, operation) else _PIECE_BYTES
            for name in self.probed(row, operation):
                tasks.append(
                    self._place_task(self._probe_folder(row, operation, name), [name], size, 1)
                )
        _do_all(clients, tasks)

    def reset(self, row: Row, count: int, clients: Clients) -> None:
        """Remove the last run's files, and place those to be moved or copied."""
        self.mend(clients)
        operation, size = row.workload.operation, _bytes(row.workload)
        if operation == "balance":
            self._await_still()
        for folder in _CLEAR_FOLDERS.get(operation, ("/row",)):
            clients.do(Task(self._master, "clear", self._target(folder, []), 1, 0, 1), _CLEAR_S)
        if row.workload.replicas:
            sources = self._parts_of_datanodes(row)["source"]
            clients.do(self._place_task("/row", sources, size, row.workload.count or 1), _PREPARE_S)
        if operation in _MOVES:
            places = _placement.initial_places(operation, self._datanodes, count)
            tasks = [
                self._place_task(f"/row/{k}", nodes, size, 1) for k, nodes in enumerate(places)
            ]
            if operation == "balance":
                tasks += [self._place_task(f"/filling/{self.nodes[name].address}", [name], size, 1)
                          for name in self._datanodes[:-1]]  # fmt: skip
                last = self.nodes[self._datanodes[-1]].address
                tasks.append(
                    self._place_task(f"/filling/{last}", self._datanodes[-1:], _LESS_BYTES, 1)
                )
            _do_all(clients, tasks)
        if operation == "balance":
            self._await_initial_places(size)

    def mend(self, clients: Clients) -> None:
        """Return a DataNode that leaves or has left to the cluster."""
        if self.settings["LEAVING"] == "yes":
            clients.do(Task(self._master, "welcome", self._target("/", []), 1, 0, 1), _CLEAR_S)

    def _idle_transfers(self) -> dict[str, float]:
        """Count the transfers of each idle DataNode.

        Those of 1.0.4 do not report them; the NameNode reports their sum.
        """
        looks = [{name: self.look(name) for name in (*self._datanodes, self._master)}
                 for _ in range(_IDLE_LOOKS)]  # fmt: skip
        reports = any("transfers" in look[name] for look in looks for name in self._datanodes)
        least = _KEPT_THREADS * (1 if reports else len(self._datanodes))
        return {
            name: max(min(look[name].get("transfers", least) for look in looks), least)
            for name in (self._datanodes if reports else [self._master])
        }

    def _await_still(self) -> None:
        """Wait until no DataNode copies a block.

        A copy outlives the balancer that began it, and would fill a DataNode that should be empty.
        Raises MeasurementFailed.
        """
        copying = dict(self._idle)
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline:
            counts = {name: self.look(name).get("transfers", np.inf) for name in copying}
            copying = {name: count for name, count in counts.items() if count > self._idle[name]}
            if not copying:
                return
            time.sleep(_POLL_S)
        raise MeasurementFailed(
            "transfers of DataNodes",
            expected=f"no more than {self._idle} within {_SETTLE_S:g} s",
            got=str(copying),
        )

    def _await_initial_places(self, size: int) -> None:
        """Wait until the NameNode knows the initial places of blocks for a balancing.

        One DataNode has a block more than the mean, and one a block less. Raises MeasurementFailed.
        """
        names, used = {self.nodes[name].address: name for name in self._datanodes}, {}
        expected = {part: sorted(names_of_part) for part, names_of_part in
                  _placement.parts_of("balance", self._datanodes).items()}  # fmt: skip
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline:
            live = json.loads(self._bean(self._master, _INFO).get("LiveNodes", "{}"))
            used = {
                names[address.split(":")[0]]: datanode["usedSpace"]
                for address, datanode in live.items()
            }
            parts = _placement.split_by_use(used, size) if used else {}
            if {part: sorted(names_of_part) for part, names_of_part in parts.items()} == expected:
                return
            time.sleep(_POLL_S)
        raise MeasurementFailed(
            "blocks on DataNodes", expected=f"{expected} within {_SETTLE_S:g} s", got=str(used)
        )

    def operation(self, row: Row, load: Load, count: int, node: str) -> Task:
        """Return the task of a load.

        Many creates are under way at once, without a pause if they are endless. A move of all
        blocks is one request.
        """
        task = super().operation(row, load, count, node)
        if load.operation in _MOVES:
            names = [self._datanodes[-1], *self._datanodes[:-1]]
            options = dict.fromkeys(_BALANCER_OPTIONS, self.settings["INTERVAL_S"])
            target, move = self._target("/row", names, options), _MOVES[load.operation]
            return replace(task, operation=move, target=target, count=1, keys=1)
        if load.operation == "read" and self.settings["READS"] == "positions":
            return replace(task, operation="read-positions")
        if load.operation == "create" and load.count is None:
            under_way = int(self.settings["CREATES_UNDER_WAY"])
            return replace(task, operation="create-heavy", size=under_way)
        if load.operation == "create":
            return replace(task, count=-(-count // _CREATES_AT_ONCE))
        if load.replicas:
            names = self._datanodes[: load.replicas[1]]
            return replace(task, target=self._target(_FOLDERS[load.operation], names))
        return task

    def opened(self, clients: Clients, row: Row, node: str, count: int) -> Lane:
        """Start the load; for a checkpoint, fill the log after one and shortly before the next."""
        if row.workload.operation != "checkpoint":
            return super().opened(clients, row, node, count)
        _await_change(self._image, self._image(), threading.Event())
        checkpoint_end = time.monotonic()
        task = self.operation(row, row.workload, count, node)
        clients.do(replace(task, operation="log", count=-(-count // _CREATES_AT_ONCE)), _PREPARE_S)
        log = self._log()
        time.sleep(max(0.0, checkpoint_end + _CHECKPOINT_S - _INJECT_S - time.monotonic()))

        def wait_for_image(halt: threading.Event) -> None:
            image = self._image()
            _await_change(
                self._log, log, halt
            )  # what is in the next image is what was logged until now
            lane.started = time.monotonic()
            _await_change(self._image, image, halt)

        lane = clients.call(task, wait_for_image)
        return lane

    def probed(self, row: Row, operation: str) -> Sequence[str]:
        """Return the NameNode for metadata, else the DataNodes without those that lose blocks."""
        if operation in _MASTER_OPERATIONS:
            return [self._master]
        parts = self._parts_of_datanodes(row)
        lost = (*parts.get("lost", ()), *parts.get("leaving", ()))
        return [name for name in self._datanodes if name not in lost]

    def probe(self, row: Row, operation: str, node: str) -> Task:
        """Return a small task that this machine alone serves."""
        if operation in _MASTER_OPERATIONS:
            return Task(node, operation, self.target(node, operation), 0, 0, 1)
        target = self._target(self._probe_folder(row, operation, node), [node])
        size = _COLD_PIECE_BYTES if _is_cold(row, operation) else _PIECE_BYTES
        return Task(node, operation, target, 0, size, 1)

    def look(self, node: str) -> Mapping[str, float]:
        """Read queues, transfers and heap of a server."""
        metrics = look_at_jvm_by_page(*self._pages[node])
        if not metrics:
            return {}
        beans = {self._master: _NAMENODE, self._secondary: {}}.get(node, _DATANODE)
        for bean, keys in {**_ALL_SERVERS, **beans}.items():
            attributes = self._bean(node, bean)
            metrics |= {
                name: float(attributes[key]) for key, name in keys.items() if key in attributes
            }
        if node == self._master:
            metrics["handlers_max"] = float(self.settings["HANDLERS"])
        return metrics

    def _check_fleet(self, row: Row) -> None:
        """Raise InputError for a row that the arm's fleet or settings cannot run."""
        place, operation = f"row {row.name}", row.workload.operation
        least = max(row.workload.replicas or [_placement.AMONG if operation in _MOVES else 1])
        if (got := len(self._datanodes)) < least:
            raise InputError(place, expected=f"{least} DataNodes", got=f"{got}")
        required = _REQUIRED_SETTINGS.get(operation, {})
        settings = {key: self.settings[key] for key in required}
        if settings != required:
            raise InputError(
                place, expected=f"settings {required}", got=str(settings), hint="Set them."
            )

    def _image(self) -> str:
        """Identify the NameNode's image: its last transaction, or the number of images received."""
        if self._is_old:
            return str(self._bean(self._master, _CALLS).get("rollFsImage_num_ops", ""))
        info = self._bean(self._master, _INFO).get("JournalTransactionInfo")
        return json.loads(info)["MostRecentCheckpointTxId"] if info else ""

    def _log(self) -> str:
        """Identify the NameNode's current log: its files, or the number of logs begun."""
        if self._is_old:
            return str(self._bean(self._master, _CALLS).get("rollEditLog_num_ops", ""))
        return str(self._bean(self._master, _INFO).get("NameJournalStatus", ""))

    def _parts_of_datanodes(self, row: Row) -> Parts:
        """Return the DataNodes, by their part if replicas are added or moved."""
        operation = row.workload.operation
        if operation in _MOVES:
            return dict(_placement.parts_of(operation, self._datanodes))
        if not row.workload.replicas:
            return {"datanode": tuple(self._datanodes)}
        few, many = row.workload.replicas
        return {
            "source": tuple(self._datanodes[:few]),
            "destination": tuple(self._datanodes[few:many]),
        }

    def _circle_from(self, node: str) -> list[str]:
        """Return the DataNodes in a circle from this one; in order for any other machine."""
        position = self._datanodes.index(node) if node in self._datanodes else 0
        return self._datanodes[position:] + self._datanodes[:position]

    def _target(
        self, folder: str, names: Sequence[str], options: Mapping[str, Any] = MappingProxyType({})
    ) -> str:
        addresses = ",".join(self.nodes[name].address for name in names) or "-"
        target = f"{self.nodes[self._master].address}:{_PORT} {folder} {addresses}"
        words = ",".join(f"{key}={value}" for key, value in options.items())
        return f"{target} {words}" if words else target

    def _place_task(self, folder: str, names: Sequence[str], size: int, count: int) -> Task:
        return Task(names[0], "place", self._target(folder, names), count, size, count)

    def _probe_folder(self, row: Row, operation: str, node: str) -> str:
        kind = "cold" if _is_cold(row, operation) else operation
        return f"/probes/{kind}/{self.nodes[node].address}"

    def _bean(self, node: str, bean: str) -> dict[str, Any]:
        """Read the attributes of a bean; empty if there is no answer or no such bean."""
        return metrics_client.bean(*self._pages[node], bean)


def _await_change(look: Callable[[], str], before: str, halt: threading.Event) -> None:
    """Wait until `look` returns a new value, or `halt` is set.

    Raises MeasurementFailed after `_CHANGE_S`.
    """
    deadline = time.monotonic() + _CHANGE_S
    while look() in ("", before) and not halt.wait(_POLL_S):
        if time.monotonic() > deadline:
            raise MeasurementFailed(
                "a checkpoint",
                expected=f"within {_CHANGE_S:g} s",
                got="none",
                hint="What the SecondaryNameNode printed says more.",
            )


def _do_all(clients: Clients, tasks: Sequence[Task]) -> None:
    """Run tasks at once. Raises MeasurementFailed if one is not done in time."""
    lanes = [clients.start(task) for task in tasks]
    for lane in lanes:
        if not (lane.wait(_PREPARE_S) and lane.is_done):
            raise MeasurementFailed(
                "files to be read or moved",
                expected=f"to be written within {_PREPARE_S:g} s",
                got=lane.reason or "not all of them",
                hint="The client's log in the run's folder says more.",
            )


def _addresses(live: str) -> set[str]:
    """Return the addresses of the DataNodes in `LiveNodes` with a recent contact."""
    nodes = json.loads(live)
    return {name.split(":")[0] for name, node in nodes.items() if node["lastContact"] <= _SILENT_S}


def _is_cold(row: Row, operation: str) -> bool:
    """Tell whether a probe must read the disk of a DataNode, not its memory."""
    return row.limpware == "disk" and operation == "read-block" and "master" not in row.injected


def _bytes(load: Load) -> int:
    return round(1000 * (load.size_kb or 0.0))


def _not_stable(got: str) -> NotStable:
    return NotStable("the NameNode", expected="out of safe mode, with all DataNodes", got=got)


SYSTEM = Hdfs
