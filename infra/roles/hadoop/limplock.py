"""Limplock's rows on MapReduce: the tasks of workers, jobs, and scarce resources.

As in the paper, maps and reduces run on different workers if the setting PLACES says so. The
ResourceManager or JobTracker reports the places of each worker. Requests to it and to the workers
go over the control network, which no limping card serves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from core.errors import InputError
from experiments.kinds.limplock.clients import metrics_client
from experiments.kinds.limplock.clients.jvm import look_at_jvm_by_page
from experiments.kinds.limplock.clients.process import Clients, Task
from experiments.kinds.limplock.clients.system import Node, NotStable, PageMetric, Parts, System
from experiments.kinds.limplock.row import Load, Row

_PREPARE_S = 120.0
_CLEAR_S = 60.0
_PIECES = 4
_PAGES = {
    "new": "http://{}:8088/ws/v1/cluster/nodes",
    "old": "http://{}:50030/jmx?qry=Hadoop:service=JobTracker,name=JobTrackerInfo",
}
_PORTS = {"new": (8088, 8042), "old": (50030, 50060)}  # of the machine for jobs and of a worker
# By release: attributes of the beans of the machine for jobs and of a worker, and the names of the
# metrics; attributes with the same name are added up. The jobs and tasks of YARN are all that it
# runs, with leaders of jobs and probes.
_METRICS: Mapping[str, tuple[Mapping[str, Mapping[str, str]], Mapping[str, Mapping[str, str]]]] = {
    "new": (
        {
            "Hadoop:service=ResourceManager,name=QueueMetrics,q0=root": {
                "AppsRunning": "jobs_running", "AppsPending": "jobs_waiting",
                "AllocatedContainers": "tasks_running", "PendingContainers": "tasks_waiting",
            },
        },
        {
            "Hadoop:service=NodeManager,name=NodeManagerMetrics": {
                "ContainersRunning": "tasks_running",
            },
            "Hadoop:service=NodeManager,name=ShuffleMetrics": {
                "ShuffleConnections": "fetches", "ShuffleOutputsFailed": "fetches_failed",
            },
        },
    ),
    "old": (
        {
            "Hadoop:service=JobTracker,name=JobTrackerMetrics": {
                "jobs_running": "jobs_running", "jobs_preparing": "jobs_waiting",
                "running_maps": "tasks_running", "running_reduces": "tasks_running",
                "waiting_maps": "tasks_waiting", "waiting_reduces": "tasks_waiting",
            },
        },
        {
            "Hadoop:service=TaskTracker,name=TaskTrackerMetrics": {
                "maps_running": "tasks_running", "reduces_running": "tasks_running",
            },
            "Hadoop:service=TaskTracker,name=ShuffleServerMetrics": {
                "shuffle_handler_busy_percent": "fetch_threads_busy_percent",
                "shuffle_failed_outputs": "fetches_failed",
            },
        },
    ),
}  # fmt: skip
_MAPS, _REDUCES = "maps", "reduces"
_OPERATIONS = ("wordcount", "trace-task")
_EAGER = {
    "mapreduce.job.speculative.slowtaskthreshold": "0.1",
    "mapreduce.job.speculative.retry-after-no-speculate": "200",
    "mapreduce.job.speculative.retry-after-speculate": "1000",
}
_COMPRESSED = ("mapreduce.map.output.compress", "mapred.compress.map.output")  # new, old
_FETCH_TIMEOUT = "mapreduce.reduce.shuffle.read.timeout"
_TASKS_OF_JOB = 2  # of a small one: a map and a reduce
Places = Mapping[str, Mapping[str, tuple[int, int]]]
"""By a worker's address and the kind of task: how many places are taken, of how many."""


class Hadoop(System):
    """A machine for jobs, one for history, and workers: the tier's machines in this order."""

    opener = "HadoopClient"
    shown = (
        PageMetric("reduces_taken", "places for reduces that are taken"),
        PageMetric("maps_taken", "places for maps that are taken"),
        PageMetric("tasks_waiting", "tasks that wait for a place, at the machine for jobs"),
        PageMetric("fetches", "maps' outputs that are being fetched of a worker"),
        PageMetric("fetch_threads_busy_percent", "of a worker's threads for them, % at work"),
        PageMetric("tasks_running", "tasks at work (machine for jobs: all)"),
        PageMetric("heap_used_mb", "heap in use, MB", limit="heap_max_mb"),
    )

    def __init__(self, nodes: Sequence[Node], settings: Mapping[str, Any]) -> None:
        super().__init__(nodes, settings)
        self._generation = str(settings["GENERATION"])
        placing = f"../hdfs/{self._generation}/Placing.java"
        self.sources = (f"{self.opener}.java", f"{self._generation}/Tasks.java", placing)
        self._jobs, self._history, *workers = nodes
        self._workers = [node.name for node in workers]

    @classmethod
    def check(cls, row: Row) -> None:
        """Raise InputError for operations that the client does not have."""
        if row.beside is not None or row.workload.operation not in _OPERATIONS:
            got = (row.beside or row.workload).operation
            expected = f"one of {', '.join(_OPERATIONS)}, and nothing beside"
            raise InputError(f"row {row.name}", expected=expected, got=got)

    def parts(self, row: Row) -> Parts:
        """Return workers by the kinds of their places: maps, reduces, or both.

        All reduces of a job fetch the output of each of its maps.
        """
        places = self._places()
        lacking = [name for name in self._workers if self.nodes[name].address not in places]
        if lacking:
            raise _not_stable(f"none of {', '.join(lacking)}")
        names_by_part: dict[str, list[str]] = {}
        for name in self._workers:
            names_by_part.setdefault(_part_of(places[self.nodes[name].address]), []).append(name)
        parts = {part: tuple(names) for part, names in names_by_part.items()}
        if "task-node" in row.injected:
            parts = {"task-node": parts.get("mapper", ()), **parts}
        return {**parts, "job-tracker": (self._jobs.name,), "history": (self._history.name,)}

    def asked_machine(self, row: Row, parts: Parts, injected: str) -> str:
        """Return the machine for jobs."""
        del row, parts, injected
        return self._jobs.name

    def target(self, node: str, operation: str) -> str:
        """Return addresses of jobs, history, name node and workers, and the options of jobs."""
        del operation
        workers = [node] if node in self._workers else self._workers
        namenode = self.called["hdfs"][0].address
        addresses = ",".join(self.nodes[name].address for name in workers)
        options = ",".join(f"{key}={value}" for key, value in options_of(self.settings).items())
        return f"{self._jobs.address} {self._history.address} {namenode} {addresses} {options}"

    def prepare(self, row: Row, count: int, clients: Clients) -> None:
        """Write the text, with a replica on each worker."""
        target = self.target(self._jobs.name, "text")
        if row.workload.operation == "wordcount":
            task = Task(self._jobs.name, "text", target, 1, count, 1)
        else:
            task = Task(self._jobs.name, "pieces", target, _PIECES, 0, _PIECES)
        clients.do(task, _PREPARE_S)

    def reset(self, row: Row, count: int, clients: Clients) -> None:
        """End jobs that are still running."""
        del row, count
        target = self.target(self._jobs.name, "clear")
        clients.do(Task(self._jobs.name, "clear", target, 1, 0, 1), _CLEAR_S)

    def operation(self, row: Row, load: Load, count: int, node: str) -> Task:
        """Return one job that counts `count` megabytes, or small jobs with `count` tasks."""
        del row
        target = self.target(node, load.operation)
        if load.operation == "wordcount":
            return Task(node, "wordcount", target, 1, count, 1)
        jobs = max(1, count // _TASKS_OF_JOB)
        return Task(node, "trace-task", target, jobs, jobs, jobs)

    def probed(self, row: Row, operation: str) -> Sequence[str]:
        """Return the workers; the old release cannot run a task at a chosen worker."""
        del row
        return [] if operation == "task" and self._generation == "old" else self._workers

    def probe(self, row: Row, operation: str, node: str) -> Task:
        """Return an empty task, or a reduce's fetch from a worker with a map's output."""
        del row
        return Task(node, operation, self.target(node, operation), 0, 0, 1)

    def look(self, node: str) -> Mapping[str, float]:
        """Read heap, running and waiting tasks, and the taken places of a worker.

        The machine for history has no metrics.
        """
        if node == self._history.name:
            return {}
        control, is_worker = self.nodes[node].control, node in self._workers
        port = _PORTS[self._generation][is_worker]
        metrics = look_at_jvm_by_page(control, port)
        if not metrics:
            return {}
        for bean, names in _METRICS[self._generation][is_worker].items():
            attributes = metrics_client.bean(control, port, bean)
            for key, name in names.items():
                if key in attributes:
                    metrics[name] = metrics.get(name, 0.0) + float(attributes[key])
        if is_worker:
            taken_places = self._places().get(self.nodes[node].address, {})
            metrics |= {f"{kind}_taken": float(taken) for kind, (taken, _) in taken_places.items()}
        return metrics

    def _places(self) -> Places:
        """Return the places of live workers; empty if the machine for jobs does not answer."""
        url = _PAGES[self._generation].format(self._jobs.control)
        try:
            return places_of(json.loads(metrics_client.page(url)))
        except (httpx.HTTPError, ValueError):
            return {}


def options_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration of jobs for the role's settings."""
    options = {_FETCH_TIMEOUT: str(settings["FETCH_TIMEOUT_MS"])}
    if settings["MAP_OUTPUT"] == "compressed":
        options |= dict.fromkeys(_COMPRESSED, "true")
    if settings["SPECULATION"] == "eager":
        options |= _EAGER
    return options


def places_of(answer: Mapping[str, Any]) -> Places:
    """Parse what a ResourceManager or a JobTracker reports of its workers."""
    if "beans" in answer:
        trackers = json.loads(answer["beans"][0]["AliveNodesInfoJson"]) if answer["beans"] else []
        return {tracker["hostname"]: _read_slots(tracker["slots"]) for tracker in trackers}
    nodes = (answer["nodes"] or {}).get("node", [])
    return {
        node["nodeHostName"]: _read_resources(node["usedResource"], node["totalResource"])
        for node in nodes
        if node["state"] == "RUNNING"
    }


def _read_slots(slots: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    kinds = {_MAPS: "map_slots", _REDUCES: "reduce_slots"}
    return {kind: (slots[f"{key}_used"], slots[key]) for kind, key in kinds.items()}


def _read_resources(
    used: Mapping[str, Any], total: Mapping[str, Any]
) -> dict[str, tuple[int, int]]:
    def by_name(resource: Mapping[str, Any]) -> dict[str, int]:
        listed = resource["resourceInformations"]["resourceInformation"]
        return {resource_value["name"]: int(resource_value["value"]) for resource_value in listed}

    return {
        kind: (by_name(used).get(kind, 0), by_name(total).get(kind, 0))
        for kind in (_MAPS, _REDUCES)
    }


def _part_of(places: Mapping[str, tuple[int, int]]) -> str:
    has = [kind for kind, (_, total) in places.items() if total]
    return {_MAPS: "mapper", _REDUCES: "reducer"}[has[0]] if len(has) == 1 else "worker"


def _not_stable(got: str) -> NotStable:
    return NotStable("the workers", expected="all of them with the machine for jobs", got=got)


SYSTEM = Hadoop
