"""The ensemble's adapter: parts and metrics out of what servers say to four-letter words."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from experiments.design import load_design
from experiments.kinds.limplock.clients.jvm import read_jvm
from experiments.kinds.limplock.clients.system import Node, NotStable, System, adapter_of
from experiments.kinds.limplock.row import rows

NODES = [Node(f"ensemble-{k}", f"198.18.0.{k}", f"198.19.0.{k}") for k in (1, 2, 3)]
LEADER = """\
zk_version\t3.9.5
zk_server_state\tleader
zk_outstanding_requests\t7
zk_avg_latency\t1.25
zk_synced_followers\t2
zk_sum_1_learner_handler_qp_size\t{sum}
zk_cnt_1_learner_handler_qp_size\t{count}
"""
FOLLOWER = "zk_version\t3.9.5\nzk_server_state\tfollower\nzk_outstanding_requests\t0\n"
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
EXPORTED = """\
# HELP jvm_memory_bytes_used Used bytes of a given JVM memory area.
jvm_memory_bytes_used{area="heap",} 3.145728E7
jvm_memory_bytes_used{area="nonheap",} 4.0E7
jvm_memory_bytes_max{area="heap",} 6.7108864E7
jvm_gc_collection_seconds_count{gc="Copy",} 12.0
jvm_gc_collection_seconds_sum{gc="Copy",} 0.25
jvm_gc_collection_seconds_sum{gc="MarkSweepCompact",} 1.5
jvm_threads_current 27.0
"""
Say = Callable[[dict[str, str | OSError]], None]


@pytest.fixture
def system() -> System:
    role = load_design("limplock-zookeeper").roles["zookeeper"]
    return adapter_of(role.directory)(NODES, {"GENERATION": "new"})


@pytest.fixture
def say(system: System, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Sets what each server answers, by its address on the control network."""
    module = sys.modules[type(system).__module__]

    def told(answers: dict[str, str | OSError]) -> None:
        def word(command: str, host: str) -> str:
            assert command == "mntr"
            answer = answers[host]
            if isinstance(answer, OSError):
                raise answer
            return answer

        monkeypatch.setattr(module, "_ask", word)
        monkeypatch.setattr(module, "look_at_jvm", lambda host: {"heap_used_mb": float(len(host))})

    return told


def hosts(*words: str | OSError) -> dict[str, str | OSError]:
    return {node.control: word for node, word in zip(NODES, words, strict=True)}


def test_the_leader_and_its_followers_are_told_apart(system: System, say: Say) -> None:
    say(hosts(FOLLOWER, LEADER.format(sum=0, count=0), FOLLOWER))
    parts = system.parts(rows()["Z3"])
    assert parts == {"leader": ("ensemble-2",), "follower": ("ensemble-1", "ensemble-3")}
    assert system.asked_machine(rows()["Z4"], parts, "ensemble-1") == "ensemble-3"
    assert system.asked_machine(rows()["Z3"], parts, "ensemble-2") == "ensemble-1"


@pytest.mark.parametrize(
    "words",
    [(FOLLOWER, FOLLOWER, FOLLOWER), (FOLLOWER, LEADER, NOT_SERVING),
     (FOLLOWER, LEADER, OSError("refused")),
     (FOLLOWER, LEADER.replace("followers\t2", "followers\t1"), FOLLOWER)],
)  # fmt: skip
def test_an_ensemble_that_is_not_whole_has_no_parts(
    system: System, say: Say, words: tuple[str | OSError, ...]
) -> None:
    say(hosts(*words))
    with pytest.raises(NotStable):
        system.parts(rows()["Z3"])


def test_the_queue_to_followers_is_what_it_was_since_the_last_look(
    system: System, say: Say
) -> None:
    say(hosts(LEADER.format(sum=100, count=10), FOLLOWER, NOT_SERVING))
    assert "queued_to_learners" not in system.look("ensemble-1")
    say(hosts(LEADER.format(sum=700, count=30), FOLLOWER, NOT_SERVING))
    metrics = system.look("ensemble-1")
    assert (metrics["queued_to_learners"], metrics["outstanding_requests"]) == (30.0, 7.0)
    assert metrics["heap_used_mb"] > 0
    assert system.look("ensemble-3") == {}


def test_a_row_asks_as_many_bytes_an_operation_as_the_paper_s(system: System) -> None:
    large_task = system.operation(rows()["Z5"], rows()["Z5"].workload, 2400, "ensemble-1")
    small_task = system.operation(rows()["Z3"], rows()["Z3"].workload, 2800, "ensemble-1")
    assert (large_task.count, large_task.size, large_task.keys) == (2400, 20_000, 100)
    assert (small_task.count, small_task.size, small_task.keys) == (2800, 1000, 2800)
    assert small_task.target == "198.18.0.1:2181"


def test_heap_and_collections_are_read_from_the_exporter() -> None:
    metrics = read_jvm(EXPORTED)
    assert metrics == {"heap_used_mb": 30.0, "heap_max_mb": 64.0, "gc_s": 1.75, "threads": 27.0}
