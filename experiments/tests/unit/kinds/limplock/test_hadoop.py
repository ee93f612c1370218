"""The adapter of MapReduce: workers by what they have places for, out of recorded answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from experiments.design import load_design
from experiments.kinds.limplock.clients import metrics_client
from experiments.kinds.limplock.clients.system import Node, NotStable, System, adapter_of
from experiments.kinds.limplock.measure.node_roles import assign_roles
from experiments.kinds.limplock.row import rows

JOBS, HISTORY, MAPS, BOTH, REDUCES = (
    Node(f"jobs-{k}", f"198.18.0.{k}", f"198.19.0.{k}") for k in range(1, 6)
)
WORKERS = (MAPS, BOTH, REDUCES)
FILES = [Node(f"files-{k}", f"198.18.0.2{k}", f"198.19.0.2{k}") for k in range(1, 4)]
HAS = {"maps": (2, 2, 0), "reduces": (0, 2, 2)}  # by kind, of each worker
STANDARD = "mapreduce.reduce.shuffle.read.timeout=180000"
Say = Callable[..., None]


@pytest.fixture
def kind() -> type[System]:
    return adapter_of(load_design("limplock-hadoop").roles["hadoop"].directory)


@pytest.fixture(params=["new", "old"])
def system(kind: type[System], request: pytest.FixtureRequest) -> System:
    settings = load_design("limplock-hadoop").roles["hadoop"].settings
    defaults = {key: setting.default for key, setting in settings.items()}
    adapter = kind([JOBS, HISTORY, *WORKERS], {**defaults, "GENERATION": request.param})
    adapter.called = {"hdfs": FILES}
    return adapter


@pytest.fixture
def say(system: System, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Lets the machine for jobs report these workers in the format of the system's release, with
    `taken` places for reduces occupied."""

    def told(*live: Node, taken: int = 0) -> None:
        def page(url: str) -> str:
            assert url.startswith(f"http://{JOBS.control}:")
            answer = {"new": new, "old": old}[str(system.settings["GENERATION"])](live, taken)
            return json.dumps(answer)

        monkeypatch.setattr(metrics_client, "page", page)

    return told


def new(live: tuple[Node, ...], taken: int) -> dict[str, Any]:
    """The answer of a ResourceManager at /ws/v1/cluster/nodes."""

    def resource(maps: int, reduces: int) -> dict[str, Any]:
        kinds = {"memory-mb": 2048, "vcores": 8, "jobs": 4, "maps": maps, "reduces": reduces}
        resources = [{"name": name, "units": "", "value": value} for name, value in kinds.items()]
        return {"memory": 2048, "resourceInformations": {"resourceInformation": resources}}

    lost_node = {"state": "LOST", "nodeHostName": HISTORY.address}
    nodes = [
        {"state": "RUNNING", "nodeHostName": worker.address, "usedResource": resource(0, taken),
         "totalResource": resource(HAS["maps"][index], HAS["reduces"][index])}
        for index, worker in enumerate(WORKERS)
        if worker in live
    ]  # fmt: skip
    return {"nodes": {"node": [lost_node, *nodes]}}


def old(live: tuple[Node, ...], taken: int) -> dict[str, Any]:
    """The JobTrackerInfo bean of a JobTracker."""
    trackers = [
        {
            "hostname": worker.address,
            "last_seen": 1795508266116,
            "health": "OK",
            "slots": {"map_slots": HAS["maps"][index], "map_slots_used": 0,
                      "reduce_slots": HAS["reduces"][index], "reduce_slots_used": taken},
        }
        for index, worker in enumerate(WORKERS)
        if worker in live
    ]  # fmt: skip
    return {"beans": [{"AliveNodesInfoJson": json.dumps(trackers)}]}


@pytest.mark.parametrize(
    ("row", "part", "limping"),
    [("H1", "mapper", "jobs-3"), ("H2", "reducer", "jobs-5"), ("H3", "job-tracker", "jobs-1"),
     ("H4", "task-node", "jobs-3")],
)  # fmt: skip
def test_the_worker_limps_that_has_places_for_one_kind_of_task(
    system: System, say: Say, row: str, part: str, limping: str
) -> None:
    say(*WORKERS)
    roles = assign_roles(rows()[row], part, system)
    assert (roles.limping, roles.entry) == (limping, "jobs-1")
    assert (roles.labels[limping], roles.labels["jobs-4"]) == (part, "worker")


def test_workers_that_are_not_all_there_have_no_parts(system: System, say: Say) -> None:
    say(MAPS, BOTH)
    with pytest.raises(NotStable):
        system.parts(rows()["H1"])


Beans = dict[str, list[dict[str, Any]]]
HEAP: Beans = {
    "java.lang:type=Memory": [{"HeapMemoryUsage": {"used": 30 << 20, "max": 128 << 20}}],
    "java.lang:type=GarbageCollector,*": [{"CollectionTime": 900}, {"CollectionTime": 350}],
}
# By release: the machine for jobs, then a worker.
TOLD: dict[str, tuple[int, Beans, int, Beans]] = {
    "new": (
        8088,
        {
            "Hadoop:service=ResourceManager,name=QueueMetrics,q0=root": [
                {"AppsRunning": 4, "AppsPending": 2, "AllocatedContainers": 7,
                 "PendingContainers": 5, "AvailableMB": 512}
            ],
        },
        8042,
        {
            "Hadoop:service=NodeManager,name=NodeManagerMetrics": [{"ContainersRunning": 3}],
            "Hadoop:service=NodeManager,name=ShuffleMetrics": [
                {"ShuffleConnections": 2, "ShuffleOutputsFailed": 1}
            ],
        },
    ),
    "old": (
        50030,
        {
            "Hadoop:service=JobTracker,name=JobTrackerMetrics": [
                {"jobs_running": 4, "jobs_preparing": 2, "running_maps": 3, "running_reduces": 4,
                 "waiting_maps": 2, "waiting_reduces": 3, "trackers": 3}
            ],
        },
        50060,
        {
            "Hadoop:service=TaskTracker,name=TaskTrackerMetrics": [
                {"maps_running": 1, "reduces_running": 2}
            ],
            "Hadoop:service=TaskTracker,name=ShuffleServerMetrics": [
                {"shuffle_handler_busy_percent": 97.5, "shuffle_failed_outputs": 1}
            ],
        },
    ),
}  # fmt: skip
FETCHES = {"new": {"fetches": 2.0}, "old": {"fetch_threads_busy_percent": 97.5}}


def test_each_machine_tells_its_heap_and_what_runs_or_waits_and_workers_their_places(
    system: System, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(*WORKERS, taken=2)
    generation = str(system.settings["GENERATION"])
    jobs_port, jobs, worker_port, worker = TOLD[generation]
    servers = {(JOBS.control, jobs_port): jobs, (REDUCES.control, worker_port): worker}

    def beans(host: str, port: int, pattern: str) -> list[dict[str, Any]]:
        server_beans = servers.get((host, port))
        return [] if server_beans is None else {**HEAP, **server_beans}.get(pattern, [])

    monkeypatch.setattr(metrics_client, "beans", beans)
    heap = {"heap_used_mb": 30.0, "heap_max_mb": 128.0, "gc_s": 1.25}
    job_counts = {"jobs_running": 4.0, "jobs_waiting": 2.0, "tasks_waiting": 5.0}
    worker_counts = {
        "maps_taken": 0.0,
        "reduces_taken": 2.0,
        "fetches_failed": 1.0,
        **FETCHES[generation],
    }
    assert system.look("jobs-1") == {**heap, **job_counts, "tasks_running": 7.0}
    assert system.look("jobs-5") == {**heap, **worker_counts, "tasks_running": 3.0}
    assert system.look("jobs-2") == {}
    assert system.look("jobs-4") == {}  # which does not answer, though others still count on it


def test_a_row_is_one_job_or_small_ones_with_two_tasks_each(system: System) -> None:
    known_rows = rows()
    wordcount = system.operation(known_rows["H1"], known_rows["H1"].workload, 32, "jobs-1")
    small_jobs = system.operation(known_rows["H4"], known_rows["H4"].workload, 12, "jobs-1")
    assert (wordcount.operation, wordcount.count, wordcount.size) == ("wordcount", 1, 32)
    assert (small_jobs.operation, small_jobs.count, small_jobs.size) == ("trace-task", 6, 6)
    workers = ",".join(worker.address for worker in WORKERS)
    assert (
        wordcount.target
        == f"{JOBS.address} {HISTORY.address} {FILES[0].address} {workers} {STANDARD}"
    )


def test_settings_are_what_jobs_are_configured_with(system: System) -> None:
    system.settings = {**system.settings, "SPECULATION": "eager", "MAP_OUTPUT": "compressed"}
    *_, configuration = system.target("jobs-1", "wordcount").split(" ")
    assert set(configuration.split(",")) == {
        STANDARD,
        "mapreduce.map.output.compress=true",
        "mapred.compress.map.output=true",
        "mapreduce.job.speculative.slowtaskthreshold=0.1",
        "mapreduce.job.speculative.retry-after-no-speculate=200",
        "mapreduce.job.speculative.retry-after-speculate=1000",
    }


def test_only_the_new_release_has_a_task_at_a_worker_that_one_chooses(system: System) -> None:
    row = rows()["H1"]
    is_new = system.settings["GENERATION"] == "new"
    assert list(system.probed(row, "task")) == ["jobs-3", "jobs-4", "jobs-5"] * is_new
    assert list(system.probed(row, "fetch")) == ["jobs-3", "jobs-4", "jobs-5"]
    assert system.probe(row, "fetch", "jobs-5").target.endswith(f" {REDUCES.address} {STANDARD}")
