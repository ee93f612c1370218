"""A repeat of a row without a fleet: a client that is a few lines, a system that says what it is
told, a testbed that keeps what it hears. For tests only; nothing here measures anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from experiments.design.injections import Step
from experiments.design.schedule import Block
from experiments.kinds.limplock.clients.process import Clients, Task
from experiments.kinds.limplock.clients.system import Node, NotStable, Parts, System
from experiments.kinds.limplock.measure.repeat import Repeat
from experiments.kinds.limplock.row import Load, Row, rows
from experiments.kinds.limplock.scenarios import Scenario
from experiments.kinds.limplock.section import LimplockSection

NODES = [Node(name, f"198.18.0.{k}", f"198.19.0.{k}") for k, name in enumerate("abc", start=1)]
# A client that answers at once, again and again, dies when asked to, and hangs when asked to.
PROGRAM = """
import sys, threading, time
guard, tasks = threading.Lock(), {}

def say(*words):
    with guard:
        print(*words, sep="\\t", flush=True)

def did(lane):
    now = time.monotonic_ns()
    say("did", lane, now, now + 1000, "ok")

def probe(lane):
    while lane in tasks:
        did(lane)
        time.sleep(0.02)

say("ready")
for line in sys.stdin:
    word, lane, *task = line.rstrip("\\n").split("\\t")
    if word == "open":
        tasks[lane] = task
        say("open", lane)
        continue
    task = tasks[lane]
    if word == "stop":
        del tasks[lane]
        say("end", lane, "stopped")
    elif task[1] == "probe":
        threading.Thread(target=probe, args=(lane,), daemon=True).start()
    elif task[1] == "die":
        print("out of memory", file=sys.stderr, flush=True)
        sys.exit(3)
    elif task[1] != "hang":
        for _ in range(int(task[2])):
            did(lane)
        say("end", lane, "done")
"""
A_LEADS: Parts = {"leader": ("a",), "follower": ("b", "c")}
B_LEADS: Parts = {"leader": ("b",), "follower": ("a", "c")}


class Three(System):
    """A leader and two followers; `answers` are the parts at each look.

    work: what the row asks in place of its own operation; mend_fails: how often `mend` fails.
    """

    sources, opener = (), ""
    work = ""
    mend_fails = 0

    def __init__(self, answers: Sequence[Parts | None]) -> None:
        super().__init__(NODES, {})
        self.told = list(answers)

    @classmethod
    def check(cls, row: Row) -> None:
        """Accept any row."""

    def parts(self, row: Row) -> Parts:
        del row
        answer = self.told.pop(0) if len(self.told) > 1 else self.told[0]
        if answer is None:
            raise NotStable("three", expected="a leader", got="none")
        return answer

    def asked_machine(self, row: Row, parts: Parts, injected: str) -> str:
        del row
        return next(name for name in parts["follower"] if name != injected)

    def target(self, node: str, operation: str) -> str:
        del operation
        return node

    def prepare(self, row: Row, count: int, clients: Clients) -> None:
        """Prepare nothing."""

    def mend(self, clients: Clients) -> None:
        """Mend through the client, which hangs while mending has to fail."""
        operation = "hang" if self.mend_fails else "mend"
        self.mend_fails = max(0, self.mend_fails - 1)
        clients.do(Task("a", operation, "a", 1, 0, 1), 0.2 if operation == "hang" else 5.0)

    def operation(self, row: Row, load: Load, count: int, node: str) -> Task:
        task = super().operation(row, load, count, node)
        return Task(node, self.work or task.operation, node, task.count, 1, 1)

    def probe(self, row: Row, operation: str, node: str) -> Task:
        del row, operation
        return Task(node, "probe", node, 0, 1, 1)


class Agent:
    """The agent of a machine whose service runs."""

    def __init__(self) -> None:
        self.restarts = 0

    def health(self) -> dict[str, Any]:
        return {"service": "running", "ready": True}

    def restart_service(self) -> None:
        self.restarts += 1


@dataclass
class Small:
    """A testbed; `samples` and `said` are what its recorder and its narrator heard."""

    samples: list[tuple[float, str, Mapping[str, str]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    agents: Mapping[str, Agent] = field(
        default_factory=lambda: {name: Agent() for name in ("a", "b", "c")}
    )

    def __post_init__(self) -> None:
        self.clock = SimpleNamespace(monotonic=0.0, since_s=lambda monotonic: monotonic)
        self.fleet = SimpleNamespace(agents=self.agents)
        self.design = SimpleNamespace(roles={})
        self.tally = SimpleNamespace(planned=0)
        self.narrator = SimpleNamespace(detail=self.said.append)
        self.recorder = SimpleNamespace(block=None, sample=self._sample, clock=self.clock)

    def _sample(
        self, at: float, measurement: str, tags: Mapping[str, str], fields: Mapping[str, float]
    ) -> None:
        del fields
        self.samples.append((at, measurement, tags))


@dataclass
class Faults:
    """Stands in for `held`: notes the steps, and calls `then` once they are in force."""

    steps: list[Step] = field(default_factory=list)
    then: Callable[[], None] = lambda: None

    @contextmanager
    def held(self, testbed: Any, *steps: Step) -> Iterator[float]:
        del testbed
        self.steps += steps
        self.then()
        yield time.monotonic()


def repeat_of(
    system: System, clients: Clients, testbed: Small | None = None,
    scenarios: Sequence[Scenario] = (), *, cold: bool = False, closes: bool = False, **section: Any
) -> Repeat:  # fmt: skip
    """Return a short repeat of row Z3; `scenarios` replace the section's."""
    values: dict[str, Any] = {"scale": 0.001, "base_max_s": 5.0, "window_s_min": 0.5, **section}
    limplock = LimplockSection(rows=("Z3",), **values)
    block = Block(0, 0, "new", 0)
    watch: Any = SimpleNamespace(last_answer=lambda _: None)
    return Repeat(
        cast(Any, testbed or Small()), limplock, block, rows()["Z3"], "leader", system, clients,
        watch, scenarios or limplock.scenarios, cold=cold, closes=closes,
    )  # fmt: skip
