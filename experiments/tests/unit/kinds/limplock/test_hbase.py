"""The adapter of region servers: parts, logs and metrics out of recorded answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from core.errors import InputError
from experiments.design import load_design
from experiments.kinds.limplock.clients import metrics_client
from experiments.kinds.limplock.clients.system import Node, NotStable, System, adapter_of
from experiments.kinds.limplock.measure.node_roles import assign_roles
from experiments.kinds.limplock.row import rows
from experiments.kinds.limplock.section import injected_tier

MASTER, FIRST, SECOND, LAST = (
    Node(f"regions-{k}", f"198.18.0.{k}", f"198.19.0.{k}") for k in (1, 2, 3, 4)
)
FILES = [Node(f"files-{k}", f"198.18.0.2{k}", f"198.19.0.2{k}") for k in range(1, 6)]
QUORUM = [Node(f"ensemble-{k}", f"198.18.0.3{k}", f"198.19.0.3{k}") for k in (1, 2, 3)]
# As 3.4.1 answers, of logs of two servers, the first one's begun anew.
FSCK = """\
FSCK started by root (auth:SIMPLE) from /198.18.0.1 for path /hbase/WALs at Tue Nov 24 08:19:18 UTC

/hbase/WALs <dir>
/hbase/WALs/198.18.0.2,16020,1795508266116 <dir>
/hbase/WALs/198.18.0.2,16020,1795508266116/198.18.0.2%2C16020%2C1795508266116.1795508290377 \
85 bytes, replicated: replication=3, 1 block(s):  OK
0. BP-1977453542-198.18.0.21-1795508260975:blk_1073741834_1010 len=85 Live_repl=3  \
[DatanodeInfoWithStorage[198.18.0.23:9866,DS-5ec7dc94,DISK]]

/hbase/WALs/198.18.0.2,16020,1795508266116/198.18.0.2%2C16020%2C1795508266116.1795508290410 \
85 bytes, replicated: replication=3, 1 block(s), OPENFORWRITE:  OK

Under Construction Block:
0. BP-1977453542-198.18.0.21-1795508260975:blk_1073741835_1011 len=85 Expected_repl=3  \
[DatanodeInfoWithStorage[198.18.0.24:9866,DS-6ec7dc94,DISK], \
DatanodeInfoWithStorage[198.18.0.25:9866,DS-7ec7dc94,DISK]]
/hbase/WALs/198.18.0.2,16020,1795508266116/\
198.18.0.2%2C16020%2C1795508266116.meta.1795508290961.meta \
85 bytes, replicated: replication=3, 1 block(s), OPENFORWRITE:  OK

Under Construction Block:
0. BP-1977453542-198.18.0.21-1795508260975:blk_1073741836_1012 len=85 Expected_repl=3  \
[DatanodeInfoWithStorage[198.18.0.23:9866,DS-5ec7dc94,DISK]]
/hbase/WALs/198.18.0.3,16020,1795508265792 <dir>
/hbase/WALs/198.18.0.3,16020,1795508265792/198.18.0.3%2C16020%2C1795508265792.1795508290414 \
85 bytes, replicated: replication=3, 1 block(s), OPENFORWRITE:  OK

Under Construction Block:
0. BP-1977453542-198.18.0.21-1795508260975:blk_1073741837_1013 len=85 Expected_repl=3  \
[DatanodeInfoWithStorage[198.18.0.23:9866,DS-5ec7dc94,DISK]]

Status: HEALTHY
"""
MEMORY = {"name": "java.lang:type=Memory", "HeapMemoryUsage": {"used": 2**26, "max": 2**27}}
HEAP = {"heap_used_mb": 64.0, "heap_max_mb": 128.0, "gc_s": 0.0}
IPC = {"numCallsInGeneralQueue": 10, "numActiveGeneralHandler": 30, "numActiveHandler": 30}
SERVER = {"memStoreSize": 2**20, "compactionQueueLength": 1, "storeFileCount": 2, "regionCount": 3}
Say = Callable[[Mapping[str, Any]], None]


@pytest.fixture
def system() -> System:
    role = load_design("limplock-hbase").roles["hbase"]
    nodes = [MASTER, FIRST, SECOND, LAST]
    adapter = adapter_of(role.directory)(
        nodes, {"GENERATION": "new", "REGION_REPLICAS": 1, "PUTS_UNDER_WAY": 60}
    )
    adapter.called = {"hdfs": FILES, "zookeeper": QUORUM}
    return adapter


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Sets what servers answer: the text of `fsck`, and beans by host and the end of their name.
    Other beans are missing."""

    def told(answers: Mapping[str, Any]) -> None:
        def page(url: str, **query: str) -> str:
            if url == "http://198.18.0.21:9870/fsck":
                assert query["openforwrite"] == "1"
                return str(answers["fsck"])
            host = url.removeprefix("http://").partition(":")[0]
            beans = [
                bean
                for key, bean in answers.items()
                if key.startswith(host) and query["qry"].endswith(key.split()[1])
            ]
            return json.dumps({"beans": beans})

        monkeypatch.setattr(metrics_client, "page", page)

    return told


def live(*nodes: Node) -> dict[str, Any]:
    listed = ";".join(f"{node.address},16020,1795508266116" for node in nodes)
    return {f"{MASTER.control} sub=Server": {"tag.liveRegionServers": listed}}


def test_a_region_server_that_has_no_catalogue_limps_and_is_asked_itself(
    system: System, say: Say
) -> None:
    say(live(FIRST, SECOND, LAST))
    parts = system.parts(rows()["B1"])
    assert parts == {"region-server": ("regions-2", "regions-3"),
                     "catalogue-server": ("regions-4",), "master": ("regions-1",)}  # fmt: skip
    roles = assign_roles(rows()["B1"], "region-server", system)
    assert (roles.limping, roles.entry) == ("regions-2", "regions-2")
    assert list(system.probed(rows()["B1"], "get")) == ["regions-2", "regions-3", "regions-4"]


def test_the_old_release_tells_its_servers_and_their_queues_by_other_names(
    system: System, say: Say
) -> None:
    old_system = type(system)(
        [MASTER, FIRST, SECOND, LAST],
        {"GENERATION": "old", "REGION_REPLICAS": 1, "PUTS_UNDER_WAY": 60},
    )
    assert old_system.sources == ("old/HBaseClient.java",)
    servers = [{"key": f"{node.address},16020,1", "value": {}} for node in (FIRST, SECOND, LAST)]
    say({
        f"{MASTER.control} name=Master": {"RegionServers": servers},
        f"{FIRST.control} type=Memory": MEMORY,
        f"{FIRST.control} name=RPCStatistics-16020": {"callQueueLen": 7},
    })  # fmt: skip
    assert old_system.parts(rows()["B1"])["region-server"] == ("regions-2", "regions-3")
    assert old_system.look("regions-2") == {**HEAP, "calls_queued": 7.0}


def test_who_holds_a_log_limps_and_the_server_whose_log_it_is_is_asked(
    system: System, say: Say
) -> None:
    say({**live(FIRST, SECOND, LAST), "fsck": FSCK})
    roles = assign_roles(rows()["B4"], "node-that-holds-the-log", system)
    assert (roles.limping, roles.entry) == ("files-4", "regions-2")
    assert roles.labels["files-4"] == "node-that-holds-the-log-1"
    assert roles.labels["regions-2"] == "region-server-1"


@pytest.mark.parametrize(
    ("row", "said"),
    [("B1", {}), ("B1", live(FIRST, LAST)),
     ("B4", {**live(FIRST, SECOND, LAST), "fsck": FSCK.replace("/198.18.0.2,", "/198.18.0.9,")})],
)  # fmt: skip
def test_servers_that_are_not_all_there_have_no_parts(
    system: System, say: Say, row: str, said: Mapping[str, Any]
) -> None:
    say(said)
    with pytest.raises(NotStable):
        system.parts(rows()[row])


def test_a_server_tells_of_its_threads_and_memory_and_a_dead_one_of_nothing(
    system: System, say: Say
) -> None:
    say({f"{FIRST.control} type=Memory": MEMORY, f"{FIRST.control} sub=IPC": IPC,
         f"{FIRST.control} sub=Server": SERVER, f"{MASTER.control} type=Memory": MEMORY,
         f"{MASTER.control} type=GarbageCollector,*": {"CollectionTime": 3000}})  # fmt: skip
    assert system.look("regions-2") == {**HEAP, "handlers_active": 30.0, "calls_queued": 10.0,
                                        "memstore_mb": 1.0, "compactions_queued": 1.0,
                                        "store_files": 2.0}  # fmt: skip
    assert system.look("regions-1") == {**HEAP, "gc_s": 3.0}
    assert system.look("regions-3") == {}


def test_a_row_s_operation_is_the_paper_s_in_calls_of_its_size(system: System) -> None:
    known_rows = rows()
    tasks = {
        name: system.operation(known_rows[name], known_rows[name].workload, count, "regions-2")
        for name, count in (("B1", 30_000), ("B2", 3000), ("B3", 60_000), ("B4", 100), ("B5", 205))
    }
    shapes = {
        name: (task.operation, task.count, task.size, task.keys) for name, task in tasks.items()
    }
    assert shapes == {"B1": ("put-many", 300, 200, 300), "B2": ("get", 3000, 200, 3000),
                      "B3": ("scan", 60, 1000, 60), "B4": ("get-cached", 100, 200, 10),
                      "B5": ("compact", 1, 0, 1)}  # fmt: skip
    side_load = known_rows["B4"].beside
    assert side_load is not None
    heavy_task = system.operation(known_rows["B4"], side_load, 0, "regions-2")
    assert (heavy_task.operation, heavy_task.count) == ("put-heavy", 0)
    assert heavy_task.target.endswith(" 1 60")
    quorum = "198.18.0.31,198.18.0.32,198.18.0.33"
    assert tasks["B4"].target == f"{quorum} 198.18.0.2 limplock-1 1"
    assert tasks["B5"].target == f"{quorum} 198.18.0.2 files-1 1"


def test_tables_of_several_copies_are_others_as_that_is_set_when_they_are_made(
    system: System,
) -> None:
    replicated = type(system)(
        [MASTER, FIRST, LAST], {"GENERATION": "new", "REGION_REPLICAS": 2, "PUTS_UNDER_WAY": 60}
    )
    replicated.called = system.called
    assert replicated.target("regions-2", "get").split(" ")[1:] == ["198.18.0.2", "limplock-2", "2"]


def test_a_row_may_limp_a_machine_of_a_tier_that_its_system_calls() -> None:
    design, row = load_design("limplock-hbase"), rows()["B4"]
    assert injected_tier(design, row) == "files"
    assert injected_tier(design, rows()["B1"]) == "regions"
    with pytest.raises(InputError) as error:
        injected_tier(design, row.model_copy(update={"injected_role": "solr"}))
    assert error.value.place.endswith("fleet.tfvars: tiers.regions.calls")
