"""The block store's adapter: parts and metrics out of what servers say of themselves."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from core.errors import InputError, MeasurementFailed
from experiments.design import load_design
from experiments.kinds.limplock.clients import metrics_client
from experiments.kinds.limplock.clients.process import Clients, Lane, Task, Work
from experiments.kinds.limplock.clients.system import Node, NotStable, System, adapter_of
from experiments.kinds.limplock.row import rows

NODES = [Node(f"store-{k}", f"198.18.0.{k}", f"198.19.0.{k}") for k in range(1, 7)]
MASTER, SECONDARY, *DATANODES = [node.name for node in NODES]
# As 3.4.1 and 1.0.4 say it, without what is not read.
LIVE: dict[str, dict[str, dict[str, Any]]] = {
    "new": {
        f"198.18.0.{k}:9866": {"xferaddr": f"198.18.0.{k}:9866", "lastContact": k - 3}
        for k in range(3, 7)
    },
    "old": {f"198.18.0.{k}": {"usedSpace": 28672, "lastContact": 1} for k in range(3, 7)},
}
RPC = {
    "new": {"CallQueueLength": 3, "RpcQueueTimeAvgTime": 4.25, "NumInProcessHandler": 10},
    "old": {"callQueueLen": 3, "RpcQueueTime_avg_time": 4.25},
}
STATE = {"UnderReplicatedBlocks": 2, "PendingReplicationBlocks": 1, "TotalLoad": 5}
MEMORY = {"HeapMemoryUsage": {"max": 67_108_864, "used": 31_457_280}}
INFO, MEMORY_BEAN = "name=NameNodeInfo", "java.lang:type=Memory"
Say = Callable[[dict[str, dict[str, Any]]], None]


@pytest.fixture(params=["new", "old"])
def generation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def system(generation: str) -> System:
    role = load_design("limplock-hdfs").roles["hdfs"]
    defaults = {key: setting.default for key, setting in role.settings.items()}
    return adapter_of(role.directory)(NODES, {**defaults, "GENERATION": generation})


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Sets the beans that every server answers; any other bean is missing."""

    def told(beans: dict[str, dict[str, Any]]) -> None:
        def page(_: str, port: int, pattern: str) -> list[dict[str, Any]]:
            assert port > 1024
            return [bean for name, bean in beans.items() if pattern.endswith(name)]

        monkeypatch.setattr(metrics_client, "beans", page)

    return told


def info(live: dict[str, Any], safemode: str = "") -> dict[str, dict[str, Any]]:
    return {INFO: {"Safemode": safemode, "LiveNodes": json.dumps(live)}}


def test_who_holds_blocks_is_what_the_namenode_says(
    system: System, say: Say, generation: str
) -> None:
    say(info(LIVE[generation]))
    parts = system.parts(rows()["F6"])
    assert parts == {"master": (MASTER,), "datanode": tuple(DATANODES), "secondary": (SECONDARY,)}
    assert system.asked_machine(rows()["F6"], parts, "store-3") == "store-3"
    assert system.asked_machine(rows()["F4"], parts, MASTER) == MASTER


def test_a_file_gets_more_replicas_from_some_datanodes_at_others(
    system: System, say: Say, generation: str
) -> None:
    say(info(LIVE[generation]))
    row = rows()["F9"]
    parts = system.parts(row)
    assert parts["source"] == ("store-3", "store-4")
    assert parts["destination"] == ("store-5", "store-6")
    task = system.operation(row, row.workload, 1, "store-5")
    addresses = ",".join(f"198.18.0.{k}" for k in range(3, 7))
    assert task.target == f"198.18.0.1:8020 /row {addresses}"


@pytest.mark.parametrize("wrong", ["safe", "lost", "silent", "gone"])
def test_without_all_datanodes_and_an_open_namenode_nobody_has_a_part(
    system: System, say: Say, generation: str, wrong: str
) -> None:
    live = {name: dict(facts) for name, facts in LIVE[generation].items()}
    first_name = next(iter(live))
    if wrong == "lost":
        del live[first_name]
    elif wrong == "silent":
        live[first_name]["lastContact"] = 31
    safemode = "Safe mode is ON." if wrong == "safe" else ""
    say({} if wrong == "gone" else info(live, safemode))
    with pytest.raises(NotStable):
        system.parts(rows()["F6"])


def test_a_datanode_that_leaves_may_be_gone_and_is_asked_for_nothing(
    system: System, say: Say, generation: str
) -> None:
    leaving_name = list(LIVE[generation])[-1]
    say(info({name: facts for name, facts in LIVE[generation].items() if name != leaving_name}))
    parts = system.parts(rows()["F11"])
    assert (parts["leaving"], parts["remaining"]) == ((DATANODES[-1],), tuple(DATANODES[:-1]))
    with pytest.raises(NotStable):
        system.parts(rows()["F8"])
    for name in ("F8", "F11"):
        assert system.probed(rows()[name], "regenerate") == DATANODES[:-1]
    assert system.probed(rows()["F10"], "regenerate") == DATANODES


def test_what_is_written_and_read_begins_on_the_datanode_that_limps(system: System) -> None:
    row = rows()["F6"]
    task = system.operation(row, row.workload, 2, "store-4")
    assert (task.count, task.size, task.keys) == (2, 65_536_000, 2)
    target = ["198.18.0.1:8020", "/row", "198.18.0.4,198.18.0.5,198.18.0.6,198.18.0.3"]
    assert task.target.split()[:3] == target


@pytest.mark.parametrize(("count", "asked"), [(8000, 500), (17, 2), (0, 0)])
def test_creates_are_asked_for_many_at_once_and_no_fewer_than_the_paper_s(
    system: System, count: int, asked: int
) -> None:
    row = rows()["F1"]
    assert system.operation(row, row.workload, count, MASTER).count == asked


def test_metadata_are_asked_of_the_namenode_and_blocks_of_their_datanode(system: System) -> None:
    row = rows()["F1"]
    assert system.probed(row, "stat") == system.probed(row, "mkdir") == [MASTER]
    assert system.probed(row, "read-block") == DATANODES
    for name, operation, folder in (
        ("F1", "read-block", "/probes/read-block/198.18.0.5"),
        ("F6", "read-block", "/probes/read-block/198.18.0.5"),
        ("F2", "read-block", "/probes/cold/198.18.0.5"),  # which needs a disk: of another file
        ("F2", "read-cached", "/probes/read-cached/198.18.0.5"),
    ):
        probe = system.probe(rows()[name], operation, "store-5")
        assert probe.target.split()[1:] == [folder, "198.18.0.5"]


def test_the_queue_of_calls_and_the_heap_are_read_in_words_of_either_generation(
    system: System, say: Say, generation: str
) -> None:
    say({"RpcActivityForPort8020": RPC[generation], "FSNamesystemState": STATE, MEMORY_BEAN: MEMORY,
         "java.lang:type=GarbageCollector,*": {"CollectionTime": 1250}})  # fmt: skip
    metrics = system.look(MASTER)
    assert (metrics["call_queue"], metrics["queue_ms"], metrics["under_replicated"]) == (
        3.0,
        4.25,
        2.0,
    )
    heap = {"heap_used_mb": 30.0, "heap_max_mb": 64.0, "gc_s": 1.25}
    assert metrics.items() >= heap.items()
    [handlers] = [metric for metric in system.shown if metric.metric == "handlers_busy"]
    assert metrics[str(handlers.limit)] == float(system.settings["HANDLERS"]) == 10.0
    assert system.look(SECONDARY) == heap
    say({"RpcActivityForPort8020": RPC[generation]})
    assert system.look(MASTER) == {}


class Asked:
    """A client that notes each task and does none."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def do(self, task: Task, timeout_s: float) -> None:
        assert timeout_s > 0
        self.tasks.append(task)

    def call(self, task: Task, work: Work) -> Lane:
        return Lane(task, 0, work=work)

    def start(self, task: Task) -> Lane:
        self.tasks.append(task)
        lane = Lane(task, 0)
        lane.end(0.0, "done")
        return lane


def test_a_fleet_or_an_arm_that_cannot_do_a_row_is_refused_before_anything_is_asked(
    system: System,
) -> None:
    small_store = type(system)(NODES[:5], system.settings)
    for store, name in (
        (small_store, "F9"),
        (small_store, "F8"),
        (system, "F5"),
        (system, "F10"),
        (system, "F11"),
    ):
        with pytest.raises(InputError):
            store.prepare(rows()[name], 1, cast(Clients, Asked()))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_blocks_that_are_to_be_moved_are_as_many_as_the_row_asks_for(
    system: System, count: int
) -> None:
    client = Asked()  # of an adapter that never prepared a row, as each block of a run has its own
    system.reset(rows()["F8"], count, cast(Clients, client))
    targets = [task.target.split()[1] for task in client.tasks if task.operation == "place"]
    assert targets == [f"/row/{number}" for number in range(count)]


def test_a_checkpoint_is_from_the_next_log_to_the_next_image(
    system: System, generation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[type(system).__module__]
    monkeypatch.setattr(module, "_CHECKPOINT_S", 0.0)
    # Image and log, each time somebody looks.
    states = iter([("1", "a"), ("2", "a"), ("2", "a"), ("2", "a"), ("2", "b"), ("3", "b")])

    def page(*arguments: object) -> dict[str, Any]:
        image, log = next(states)
        if generation == "old":
            assert "RpcDetailedActivity" in str(arguments)
            return {"rollFsImage_num_ops": image, "rollEditLog_num_ops": log}
        assert INFO in str(arguments)
        journal = json.dumps({"MostRecentCheckpointTxId": image})
        return {"JournalTransactionInfo": journal, "NameJournalStatus": log}

    monkeypatch.setattr(metrics_client, "bean", page)
    client = Asked()
    lane = system.opened(cast(Clients, client), rows()["F5"], SECONDARY, 2040)
    assert [(task.operation, task.count) for task in client.tasks] == [("log", 128)]
    assert lane.work is not None
    lane.work(threading.Event())
    assert lane.started > 0.0
    assert next(states, None) is None


def test_all_blocks_of_a_datanode_that_loses_or_dismisses_them_are_one_operation(
    system: System,
) -> None:
    for name, operation in (("F8", "regain"), ("F11", "dismiss"), ("F10", "balance")):
        row = rows()[name]
        task = system.operation(row, row.workload, 2, "store-3")
        assert (task.operation, task.count) == (operation, 1)
        assert task.target.split()[2].startswith("198.18.0.6,198.18.0.3")


def test_what_an_arm_says_of_reads_reaches_the_client_that_reads(system: System) -> None:
    settings = {"READS": "positions", "HEDGED_READ_THREADS": 8, "HEDGED_READ_MS": 100}
    hedged = type(system)(NODES, {**system.settings, **settings})
    row = rows()["F7"]
    task = hedged.operation(row, row.workload, 1, "store-3")
    assert task.operation == "read-positions"
    options = dict(word.split("=") for word in task.target.split()[3].split(","))
    assert options == {"dfs.client.hedged.read.threadpool.size": "8",
                       "dfs.client.hedged.read.threshold.millis": "100",
                       "dfs.client.socket-timeout": "60000"}  # fmt: skip
    assert system.operation(row, row.workload, 1, "store-3").operation == "read"
    assert len(hedged.probe(row, "read-block", "store-3").target.split()) == 3


def held(blocks: Sequence[int]) -> dict[str, Any]:
    """The NameNode's report of DataNodes with so many blocks of 64 MB."""
    return info({
        f"{node.address}:9866": {"usedSpace": 24_576 + 65_536_000 * count}
        for node, count in zip(NODES[2:], blocks, strict=True)
    })  # fmt: skip


@pytest.fixture
def tasks() -> list[Task]:
    """The tasks that `roomy` gives to several clients at once."""
    return []


@pytest.fixture
def roomy(system: System, tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> System:
    """A store of 2 GB."""
    monkeypatch.setattr(
        sys.modules[type(system).__module__], "_do_all", lambda _, batch: tasks.extend(batch)
    )
    return type(system)(NODES, {**system.settings, "CAPACITY_MB": 2048})


def test_a_balancing_begins_where_no_copy_of_the_last_one_goes_on(
    roomy: System, say: Say, tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(held([2, 1, 1, 0]))
    idle_counts = [0.0, 1.0, 1.0, 1.0, 4.0] * 5  # the first was not asked for a block yet
    counts = iter([*idle_counts, 1.0, 2.0, 1.0, 3.0, 1.0, 2.0, 1.0])
    monkeypatch.setattr(roomy, "look", lambda _: {"transfers": next(counts)})
    row, client = rows()["F10"], Asked()
    client.tasks = tasks
    roomy.prepare(row, 1, cast(Clients, client))
    roomy.reset(row, 1, cast(Clients, client))
    assert next(counts, None) is None  # two were looked at again, then one
    operations = [(task.operation, task.target.split()[1]) for task in tasks]
    folders = [folder for operation, folder in operations if operation == "clear"]
    assert folders == ["/row", "/filling", "/system/balancer.id"]
    assert ("place", f"/filling/{NODES[-1].address}") in operations


def test_where_data_nodes_do_not_tell_their_copies_the_name_node_does(
    roomy: System, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(held([2, 1, 1, 0]))
    totals = iter([4.0] * 5 + [6.0, 5.0, 4.0])

    def look(name: str) -> dict[str, float]:
        return {"transfers": next(totals)} if name == MASTER else {}

    monkeypatch.setattr(roomy, "look", look)
    roomy.prepare(rows()["F10"], 1, cast(Clients, Asked()))
    roomy.reset(rows()["F10"], 1, cast(Clients, Asked()))
    assert next(totals, None) is None


@pytest.mark.parametrize("blocks", [[0, 1, 1, 2], [1, 1, 1, 1]])
def test_a_balancing_that_would_begin_elsewhere_is_refused(
    roomy: System, say: Say, blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(held(blocks))
    monkeypatch.setattr(sys.modules[type(roomy).__module__], "_SETTLE_S", 0.1)
    with pytest.raises(MeasurementFailed, match="blocks on DataNodes"):
        roomy.reset(rows()["F10"], 1, cast(Clients, Asked()))


@pytest.fixture
def placement(system: System) -> Any:
    return sys.modules[type(system).__module__]._placement


def test_a_block_that_loses_a_replica_can_go_to_the_limping_datanode_only(placement: Any) -> None:
    for operation in ("regenerate", "decommission"):
        first_places, second_places = placement.initial_places(operation, DATANODES, 2)
        assert set(DATANODES) - set(first_places) == {DATANODES[0]}
        assert DATANODES[-1] in first_places
        assert second_places[0] == DATANODES[-1]
    assert len(second_places) == 1  # of a DataNode that leaves: it is the source


@pytest.mark.parametrize(("held", "over", "under"), [
    ([2, 1, 1, 0], ("store-3",), ("store-6",)),
    ([1, 1, 1, 1], (), ()),
    ([0, 4, 0, 4], ("store-4", "store-6"), ("store-3", "store-5")),
])  # fmt: skip
def test_who_is_over_utilised_has_more_than_half_a_block_above_the_mean(
    placement: Any, held: list[int], over: tuple[str, ...], under: tuple[str, ...]
) -> None:
    used = {name: 24_576 + 65_536_000 * blocks
            for name, blocks in zip(DATANODES, held, strict=True)}  # fmt: skip
    parts = placement.split_by_use(used, 65_536_000)
    assert (parts["over-utilised"], parts["under-utilised"]) == (over, under)
    assert sorted(sum(parts.values(), ())) == DATANODES
