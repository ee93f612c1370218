"""Limplock's rows on HBase: the regions of servers, and the HDFS machines that hold a server's log.

Every table has a region on each region server. The last server also has the catalogue and limps in
no row, because all clients without a cached location would wait for it. The state of servers comes
over the control network, which no limping card serves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from core.errors import InputError
from experiments.kinds.limplock.clients import metrics_client
from experiments.kinds.limplock.clients.jvm import look_at_jvm_by_page
from experiments.kinds.limplock.clients.process import Clients, Lane, Task
from experiments.kinds.limplock.clients.system import Node, NotStable, PageMetric, Parts, System
from experiments.kinds.limplock.row import Load, Row

_MASTER_PORT, _SERVER_PORT, _NAMENODE_PORT = 16010, 16030, 9870
_PREPARE_S = 120.0
_HANDLERS = 30.0  # hbase.regionserver.handler.count, as released; only the new release reports them
# The paper gives no size: with 700 bytes each, its scan would have used all of its card.
_VALUE_BYTES = 200
_PROBE_TABLE, _PROBE_KEYS = "limplock", 10
_ROWS, _FILES = "rows", "files"  # tables of the rows' own operations
_ROWS_OF_PUT, _ROWS_OF_SCAN = 100, 1000  # rows of one call
# A thousand puts a second: the paper's benchmarks used 30 to 70 % of the capacity of a system.
_HEAVY_CALLS, _HEAVY_GAP_S = 1000, 0.1
_CACHED_GAP_S = 0.01  # otherwise a hundred gets would be over before puts pile up
_OPERATIONS = ("put", "get", "get-cached", "scan", "compact")
_LOG = "node-that-holds-the-log"
_MEGABYTE = 2.0**20
_MASTER = {
    "new": "Hadoop:service=HBase,name=Master,sub=Server",
    "old": "hadoop:service=Master,name=Master",
}
_METRICS = {  # by release and bean: the name of the attribute, of the metric, and its unit
    "new": {
        "Hadoop:service=HBase,name=RegionServer,sub=IPC": (
            ("numActiveGeneralHandler", "handlers_active", 1.0),
            ("numCallsInGeneralQueue", "calls_queued", 1.0),
        ),
        "Hadoop:service=HBase,name=RegionServer,sub=Server": (
            ("memStoreSize", "memstore_mb", _MEGABYTE),
            ("compactionQueueLength", "compactions_queued", 1.0),
            ("flushQueueLength", "flushes_queued", 1.0),
            ("storeFileCount", "store_files", 1.0),
            ("blockCacheSize", "block_cache_mb", _MEGABYTE),
        ),
        "Hadoop:service=HBase,name=RegionServer,sub=WAL": (
            ("slowSyncRollRequest", "log_rolls_slow", 1.0),
            ("successfulLogRolls", "log_rolls", 1.0),
        ),
    },
    "old": {
        "hadoop:service=HBase,name=RPCStatistics-16020": (("callQueueLen", "calls_queued", 1.0),),
        "hadoop:service=RegionServer,name=RegionServerStatistics": (
            ("memstoreSizeMB", "memstore_mb", 1.0),
            ("compactionQueueSize", "compactions_queued", 1.0),
            ("flushQueueSize", "flushes_queued", 1.0),
            ("storefiles", "store_files", 1.0),
            ("blockCacheSize", "block_cache_mb", _MEGABYTE),
        ),
    },
}
_LOGS = "/hbase/WALs"
_FILE = re.compile(r"^(/\S+) \d+ bytes")
_HOLDER = re.compile(r"([\d.]+):\d+[,\]]")


class HBase(System):
    """A master and region servers.

    The row's client asks for the region of the injected server, because no other server has it.
    """

    opener = "HBaseClient"
    shown = (
        PageMetric("handlers_active", "threads that handle requests, at work", limit=_HANDLERS),
        PageMetric("calls_queued", "requests that wait for such a thread"),
        PageMetric("memstore_mb", "rows in memory that are not in files yet, MB"),
        PageMetric("log_rolls_slow", "logs begun anew since writes took long, so far"),
        PageMetric("heap_used_mb", "heap in use, MB", limit="heap_max_mb"),
    )

    def __init__(self, nodes: Sequence[Node], settings: Mapping[str, Any]) -> None:
        super().__init__(nodes, settings)
        self._generation = str(settings["GENERATION"])
        self._copies = int(settings["REGION_REPLICAS"])
        self.sources = (f"{self._generation}/{self.opener}.java",)
        self._master, *servers = nodes
        # In the order of the client: it moves region by region, and the catalogue to the last.
        self._servers = [
            server.name for server in sorted(servers, key=lambda server: server.address)
        ]

    @classmethod
    def check(cls, row: Row) -> None:
        """Raise InputError for operations that the client does not have."""
        for load in filter(None, (row.workload, row.beside)):
            if load.operation not in _OPERATIONS:
                expected = f"one of {', '.join(_OPERATIONS)}"
                raise InputError(f"row {row.name}", expected=expected, got=load.operation)

    def parts(self, row: Row) -> Parts:
        """Return the region servers that the master has, and the holders of the first one's log."""
        live = _live_servers(
            metrics_client.bean(self._master.control, _MASTER_PORT, _MASTER[self._generation])
        )
        lacking = [name for name in self._servers if self.nodes[name].address not in live]
        if lacking:
            raise _not_stable(f"none of {', '.join(lacking)}")
        parts = {
            "region-server": tuple(self._servers[:-1]),
            "catalogue-server": (self._servers[-1],),
            "master": (self._master.name,),
        }
        return {_LOG: self._log_holders(), **parts} if _LOG in row.injected else parts

    def asked_machine(self, row: Row, parts: Parts, injected: str) -> str:
        """Return the injected server, or the one whose log is injected."""
        del row
        return injected if injected in parts["region-server"] else self._first

    def probed(self, row: Row, operation: str) -> Sequence[str]:
        """Return the region servers: a master has no rows."""
        del row, operation
        return self._servers

    @property
    def _first(self) -> str:
        """The server that limps if any region server may."""
        return min(self._servers[:-1])

    def target(self, node: str, operation: str) -> str:
        """Return the server's region of the table for probes."""
        del operation
        return self._table(node, _PROBE_TABLE)

    def _table(self, node: str, table: str) -> str:
        """Return a server's region of a table, or all regions if `node` is empty.

        Each number of copies has its own tables, because it is a setting of a table.
        """
        quorum = ",".join(node_of_quorum.address for node_of_quorum in self.called["zookeeper"])
        server = self.nodes[node].address if node else "any"
        return f"{quorum} {server} {table}-{self._copies} {self._copies}"

    def prepare(self, row: Row, count: int, clients: Clients) -> None:
        """Make tables with a region on each server, and fill those that are read."""
        task = self.operation(row, row.workload, count, self._first)
        for table in (_PROBE_TABLE, _ROWS, _FILES):
            size = len(self._servers)
            self._run_task(clients, Task(self._first, "table", self._table("", table), 1, size, 1))
        self.mend(clients)
        for node in self._servers:
            target = self.target(node, "put")
            self._run_task(
                clients, Task(node, "put", target, _PROBE_KEYS, _VALUE_BYTES, _PROBE_KEYS)
            )
            if self._copies > 1:  # copies have only flushed data
                self._run_task(clients, Task(node, "flush", target, 1, 0, 1))
        if task.operation in ("get", "scan"):
            calls = -(-count // _ROWS_OF_PUT)
            self._run_task(
                clients, Task(task.node, "put-many", task.target, calls, _VALUE_BYTES, calls)
            )
            self._run_task(clients, Task(task.node, "compact", task.target, 1, 0, 1))

    def mend(self, clients: Clients) -> None:
        """Move the regions back to their servers: those of a dead one are on others."""
        self._run_task(clients, Task(self._first, "spread", self._table("", _PROBE_TABLE), 1, 0, 1))

    def reset(self, row: Row, count: int, clients: Clients) -> None:
        """Flush the memory into files, because a run would otherwise have to write it."""
        del count
        if row.workload.operation == "put":
            target = self._table(self._first, _ROWS)
            self._run_task(clients, Task(self._first, "compact", target, 1, 0, 1))

    def _run_task(self, clients: Clients, task: Task) -> None:
        clients.do(task, _PREPARE_S)

    def operation(self, row: Row, load: Load, count: int, node: str) -> Task:
        """Return the task of a load.

        Rows are put by the hundred, because no client puts 5,000 a second one by one. Puts beside
        the row are single, and more can be under way than a server has threads.
        """
        del row
        rows = self._table(node, _ROWS)
        if load.operation == "compact":
            return Task(node, "compact", self._table(node, _FILES), 1, 0, 1)
        if load.operation == "put" and load.count is None:
            if self._generation == "new":
                rows = f"{rows} {self.settings['PUTS_UNDER_WAY']}"
            return Task(node, "put-heavy", rows, 0, _VALUE_BYTES, _HEAVY_CALLS, _HEAVY_GAP_S)
        if load.operation == "put":
            calls = -(-count // _ROWS_OF_PUT)
            return Task(node, "put-many", rows, calls, _VALUE_BYTES, calls)
        if load.operation == "scan":
            calls = max(1, count // _ROWS_OF_SCAN)
            return Task(node, "scan", rows, calls, min(count, _ROWS_OF_SCAN), calls)
        if load.operation == "get":
            return Task(node, "get", rows, count, _VALUE_BYTES, count)
        target = self.target(node, load.operation)
        return Task(node, "get-cached", target, count, _VALUE_BYTES, _PROBE_KEYS, _CACHED_GAP_S)

    def opened(self, clients: Clients, row: Row, node: str, count: int) -> Lane:
        """Start the load; before a compaction the files to be compacted are written."""
        load = row.workload
        if load.operation == "compact":
            files = load.keys or 1
            size = round(1000 * (load.size_kb or 0.0) * count / files)
            target = self._table(node, _FILES)
            self._run_task(clients, Task(node, "store", target, files, size, files))
        return super().opened(clients, row, node, count)

    def probe(self, row: Row, operation: str, node: str) -> Task:
        """Return a task on a few rows, which are in memory."""
        del row
        target = self.target(node, operation)
        return Task(node, operation, target, 0, _VALUE_BYTES, _PROBE_KEYS)

    def look(self, node: str) -> Mapping[str, float]:
        """Read a region server's threads, queues and memory, or a master's heap."""
        port = _MASTER_PORT if node == self._master.name else _SERVER_PORT
        control = self.nodes[node].control
        metrics = look_at_jvm_by_page(control, port)
        if metrics and port == _SERVER_PORT:
            for bean, names in _METRICS[self._generation].items():
                metrics |= numbers_of(metrics_client.bean(control, port, bean), names)
        return metrics

    def _log_holders(self) -> tuple[str, ...]:
        """Return the machines with a replica of the first server's current log file.

        The old release cannot report them: its `fsck` omits blocks that are being written.
        """
        query = {"ugi": "root", "path": _LOGS}
        query |= dict.fromkeys(("files", "blocks", "locations", "openforwrite"), "1")
        namenode, *datanodes = self.called["hdfs"]
        try:
            text = metrics_client.page(f"http://{namenode.address}:{_NAMENODE_PORT}/fsck", **query)
        except httpx.HTTPError as error:
            raise _not_stable(f"a name node that says {error!r}") from error
        holders = holders_of(text, self.nodes[self._first].address)
        if not holders:
            raise _not_stable(f"no log of {self._first}")
        return tuple(datanode.name for datanode in datanodes if datanode.address in holders)


def numbers_of(
    bean: Mapping[str, Any], names: Sequence[tuple[str, str, float]]
) -> dict[str, float]:
    """Extract the known attributes of a bean, under our names."""
    return {name: float(bean[key]) / unit for key, name, unit in names if key in bean}


def holders_of(text: str, server: str) -> set[str]:
    """Parse `fsck` output for the addresses that hold a region server's newest log."""
    holders: dict[str, set[str]] = {}
    path = ""
    for line in text.splitlines():
        if file := _FILE.match(line):
            path = file[1]
        if path.startswith(f"{_LOGS}/{server},") and not path.endswith(".meta"):
            holders.setdefault(path, set()).update(_HOLDER.findall(line))
    return holders[max(holders)] if holders else set()


def _live_servers(master: Mapping[str, Any]) -> set[str]:
    """Return the addresses of the region servers of the master, for both releases."""
    listed = str(master.get("tag.liveRegionServers", "")).split(";")
    listed += [str(server["key"]) for server in master.get("RegionServers", ())]
    return {server.split(",")[0] for server in listed if server}


def _not_stable(got: str) -> NotStable:
    return NotStable("the region servers", expected="all of them with the master", got=got)


SYSTEM = HBase
