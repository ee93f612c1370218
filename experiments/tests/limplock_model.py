"""A cluster whose answers are known: what the rule is checked on before it judges a real one.

Events one after another: clients, nodes, and on each node threads, a processor and a device, the
device of one node limps. How the nodes are built says what must be found:

- threads for everything, few of them: writes to the slow device hold them all, so that reads wait
  too. With writes to the own device only, that is this node's limplock; where any node writes to
  any device and waits for it, every node's;
- a queue without a limit: the node that holds it goes on until its memory is full. Collecting
  garbage slows it down ever more, by 1 / (1 - share of memory in use); then it is gone;
- threads for each stage (SEDA; Welsh et al. 2001): reads have theirs, and nothing spreads.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

Design = Literal["pool", "queue", "stages"]
Fault = Literal["limp", "crash", "none"]
NODES = 3
LIMPING = 0
HOLDER = 1  # of the queue; also the client of the row's operation asks it, where any node will do
_UNBOUNDED = 10**9
_MEMORY_LEAST = 0.01  # what is left of the memory when the node is gone
_REFUSED_S = 0.002  # until a client knows that a node is gone
_PROBE_GAP_S = 0.2
_SPREAD = 0.3  # of the logarithm of a service time


@dataclass(frozen=True)
class Cluster:
    """One cluster and what befalls it. Times in seconds."""

    design: Design
    fault: Fault = "limp"
    anywhere: bool = False  # whether a write goes to any node's device, or to the own one
    severity: float = 100.0  # how many times slower the device gets
    threads: int = 4
    writers: int = 11  # clients of each node
    think_s: float = 0.5
    processor_s: float = 0.004
    device_s: float = 0.015
    memory: int = 10**9  # updates that a queue holds before it is gone
    steps: int = 250  # writes of the row's operation
    noise: float = 0.05  # of the logarithm of the host's speed, drawn anew for each stretch
    base_s: float = 24.0
    fault_s: float = 60.0


@dataclass(frozen=True)
class ClientRequest:
    """A request that a client made, as it was seen from there."""

    node: int
    operation: str
    needs: str
    start_s: float
    end_s: float
    outcome: str


@dataclass
class Outcome:
    """A repeat's records: probes, the row's operation, and what nobody outside can know."""

    probes: list[ClientRequest] = field(default_factory=list)
    base_run_s: float | None = None
    faulty_run_s: float | None = None
    slow_from_s: dict[int, float] = field(default_factory=dict)  # memory: three times slower
    gone_s: dict[int, float] = field(default_factory=dict)


class GoneError(Exception):
    """The node does not answer any more."""


class Slots:
    """Slots, each held by one piece of work; if all are taken, work waits in line."""

    def __init__(self, count: int) -> None:
        self.free = count
        self.line: deque[Work] = deque()


Work = Generator[float | Slots, None, None]


class Events:
    """The clock. A piece of work says how long it takes, or which slot it needs."""

    def __init__(self, start_s: float) -> None:
        self.now = start_s
        self._later: list[tuple[float, int, Work]] = []
        self._count = itertools.count()

    def begin(self, work: Work, after_s: float = 0.0) -> None:
        heapq.heappush(self._later, (self.now + after_s, next(self._count), work))

    def release(self, slots: Slots) -> None:
        if slots.line:
            self.begin(slots.line.popleft())
        else:
            slots.free += 1

    def run(self, until_s: float) -> None:
        while self._later and self._later[0][0] <= until_s:
            self.now, _, work = heapq.heappop(self._later)
            self._go_on(work)
        self.now = until_s

    def _go_on(self, work: Work) -> None:
        for want in work:
            if isinstance(want, Slots):
                if want.free == 0:
                    want.line.append(work)
                    return
                want.free -= 1
            else:
                self.begin(work, want)
                return


class Node:
    """Threads, a device, and a queue for the limping one."""

    def __init__(self, cluster: Cluster) -> None:
        count = _UNBOUNDED if cluster.design == "queue" else cluster.threads
        shared = Slots(count)
        self.threads = {"read": shared, "write": shared}
        if cluster.design == "stages":
            self.threads["write"] = Slots(count)
        self.device = Slots(1)
        self.queued = 0


class Repeat:
    """One repeat: without the fault before time 0, with it from 0 on."""

    def __init__(self, cluster: Cluster, rng: np.random.Generator) -> None:
        self._cluster = cluster
        self._rng = rng
        self._events = Events(-cluster.base_s)
        self._nodes = [Node(cluster) for _ in range(NODES)]
        self._speeds = np.exp(rng.normal(0.0, cluster.noise, 3))  # two halves of the base, fault
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Everything until the fault's end; what is under way then has not ended."""
        clients = [
            self._writer(node) for node in range(NODES) for _ in range(self._cluster.writers)
        ]
        for work in (*clients, *self._probers(), self._operation(before=True)):
            self._events.begin(work, float(self._rng.uniform(0.0, 1.0)))
        self._events.run(0.0)
        if self._cluster.fault == "crash":
            self.outcome.gone_s[LIMPING] = 0.0
        self._events.begin(self._operation(before=False))
        if self._cluster.design == "queue":
            self._events.begin(self._drain())
        self._events.run(self._cluster.fault_s)
        return self.outcome

    def _service(self, mean_s: float, node: int, device: bool = False) -> float:
        now, cluster = self._events.now, self._cluster
        stretch = 2 if now >= 0.0 else int(now >= -cluster.base_s / 2)
        slow = 1.0 / max(1.0 - self._nodes[node].queued / cluster.memory, _MEMORY_LEAST)
        if device and node == LIMPING and now >= 0.0 and cluster.fault == "limp":
            slow *= cluster.severity
        return float(mean_s * slow * self._speeds[stretch] * self._rng.lognormal(0.0, _SPREAD))

    def _alive(self, node: int) -> None:
        if node in self.outcome.gone_s:
            raise GoneError

    def _read(self, node: int) -> Work:
        self._alive(node)
        threads = self._nodes[node].threads["read"]
        yield threads
        yield self._service(self._cluster.processor_s, node)
        self._events.release(threads)
        self._alive(node)

    def _write(self, node: int, target: int) -> Work:
        """A thread of the node is held until the target's device has written."""
        self._alive(node)
        if target in self.outcome.gone_s:
            yield _REFUSED_S
            target = (target + 1) % NODES
        threads, device = self._nodes[node].threads["write"], self._nodes[target].device
        yield threads
        yield self._service(self._cluster.processor_s, node)
        yield device
        yield self._service(self._cluster.device_s, target, device=True)
        self._events.release(device)
        self._events.release(threads)
        if self._cluster.design == "queue" and node == HOLDER and self._events.now >= 0.0:
            self._enqueue()
        self._alive(node)

    def _enqueue(self) -> None:
        holder, now = self._nodes[HOLDER], self._events.now
        holder.queued += 1
        share = holder.queued / self._cluster.memory
        if share >= 2 / 3:
            self.outcome.slow_from_s.setdefault(HOLDER, now)
        if share >= 1.0:
            self.outcome.gone_s.setdefault(HOLDER, now)

    def _drain(self) -> Work:
        """The queue goes to the limping node, one by one, through its slow part."""
        holder = self._nodes[HOLDER]
        while True:
            yield self._service(self._cluster.device_s, LIMPING, device=True)
            holder.queued = max(0, holder.queued - 1)

    def _target(self, node: int) -> int:
        return int(self._rng.integers(NODES)) if self._cluster.anywhere else node

    def _writer(self, node: int) -> Work:
        while True:
            yield float(self._rng.exponential(self._cluster.think_s))
            try:
                yield from self._write(node, self._target(node))
            except GoneError:
                yield _REFUSED_S

    def _probers(self) -> list[Work]:
        probers = []
        for node in range(NODES):
            reads, writes = ("node", "limpware") if node == LIMPING else ("neither", "neither")
            probers.append(self._prober(node, "read", reads, partial(self._read, node)))
            probers.append(self._prober(node, "write", writes, partial(self._write, node, node)))
        return probers

    def _prober(self, node: int, operation: str, needs: str, ask: Callable[[], Work]) -> Work:
        """One probe after another; one that is under way in the end is seen to last until then."""
        probes = self.outcome.probes
        while True:
            start, index = self._events.now, len(probes)
            probes.append(
                ClientRequest(node, operation, needs, start, self._cluster.fault_s, "timeout")
            )
            outcome = "ok"
            try:
                yield from ask()
            except GoneError:
                yield _REFUSED_S
                outcome = "error"
            probes[index] = ClientRequest(node, operation, needs, start, self._events.now, outcome)
            yield _PROBE_GAP_S

    def _operation(self, before: bool) -> Work:
        """The row's operation: writes to the limping device, or through the queue's holder. Before
        the fault it is made over and over, and the first counts."""
        start = self._events.now
        for _ in range(self._cluster.steps):
            yield from self._step()
        took_s = self._events.now - start
        if not before:
            self.outcome.faulty_run_s = took_s
            return
        if self._events.now < 0.0:
            self.outcome.base_run_s = took_s
        while self._events.now < 0.0:
            yield from self._step()

    def _step(self) -> Work:
        """A write that the client tries until it is done; from a node that is gone it goes to the
        next, unless the queue's holder alone takes it."""
        queue = self._cluster.design == "queue"
        node = HOLDER if queue or self._cluster.anywhere else LIMPING
        while True:
            try:
                yield from self._write(node, node if queue else LIMPING)
                return
            except GoneError:
                yield _REFUSED_S if not queue else 0.5
                node = node if queue else HOLDER
