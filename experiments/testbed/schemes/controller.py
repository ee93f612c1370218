"""The fail-over controller: the treatment of a lost machine, by scheme.

A lost machine is taken out of its arbiter and fenced (its power is cut) at once. After that it
cannot serve, also if it was alive but unreachable. Then

- `cloud`: after `boot_time_s` a machine is made anew in its place;
- `pf`: a standby is powered on in its place, once there is one; the lost one is repaired and then
  waits in the pool, powered off;
- `ara`: nothing replaces it; it is repaired and powered on.

Fail-overs are sequential, and so are repairs, because PCRAFT's models have one rate of each (Fig.
1). The wait of a fail-over for an earlier one is recorded separately.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from core.errors import SparecraftError
from experiments.design.failover import Failover, Mechanism
from experiments.testbed.schemes.heartbeat import Heartbeats, Lost
from experiments.testbed.schemes.journal import Journal
from experiments.testbed.schemes.operations import BlockEnded, MachineOperations, ignore_progress

_ATTEMPTS = 3
_POLL_S = 0.05
_JOIN_S = 300.0  # a worker ends what it does to a machine: a terraform apply is not cut short


@dataclass
class Case:
    """A lost machine and what its fail-over took so far [s]."""

    machine: str
    tier: str
    down_since: float
    queued_at: float
    parts: dict[str, float] = field(default_factory=dict)
    attempts: int = 0

    def lap(self, name: str, since: float) -> float:
        """Add the time since `since` to a part; returns now."""
        now = time.monotonic()
        self.parts[name] = self.parts.get(name, 0.0) + now - since
        return now


@dataclass
class Controller:
    """Keeps the tiers of a fleet at strength from `start` to `stop`, which restores the fleet.

    `mechanisms` by tier, `nodes` and `standbys` by tier; `rng` draws repair times.
    """

    settings: Failover
    operations: MachineOperations
    journal: Journal
    mechanisms: Mapping[str, Mechanism]
    nodes: Mapping[str, Sequence[str]]
    standbys: Mapping[str, Sequence[str]]
    rng: np.random.Generator

    def __post_init__(self) -> None:
        settings = self.settings
        self._beats = Heartbeats(
            self.operations.ask, settings.heartbeat_s, settings.misses, self.handle_loss
        )
        self._ended = threading.Event()
        self._replacing: queue.Queue[Case] = queue.Queue()
        self._repairing: queue.Queue[Case] = queue.Queue()
        self._pools: dict[str, queue.Queue[str]] = {tier: queue.Queue() for tier in self.nodes}
        self._workers = [
            threading.Thread(target=self._work, args=work, name=name, daemon=True)
            for name, work in (
                ("fail-over", (self._replacing, self._replace)),
                ("repair", (self._repairing, self._repair)),
            )
        ]

    def start(self, at: float) -> None:
        """Put every node in service at `at` [monotonic s], and every standby in its pool."""
        for tier, nodes in self.nodes.items():
            for machine in self.standbys[tier]:
                self._pools[tier].put(machine)
            for machine in nodes:
                self.journal.enter(machine, at)
                self._beats.watch(machine)
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        """End what is under way, and bring every machine to where it was at the start."""
        self.journal.note_block_end()
        self._ended.set()
        self._beats.stop()
        for worker in self._workers:
            if worker.is_alive():
                worker.join(timeout=_JOIN_S)
        self._restore()

    def handle_loss(self, loss: Lost) -> None:
        """Take a machine out of its arbiter, stop it, and queue its replacement or repair."""
        machine, tier = loss.machine, self.operations.tiers[loss.machine]
        crashed_at = self.journal.crashed_at(machine)
        down_since = loss.since if crashed_at is None else crashed_at
        kind = self.mechanisms[tier]
        self.journal.leave(machine, down_since)
        self.journal.note_silence(machine, loss.since)
        self.journal.note("failover", kind, "start", machine, at=loss.at, text=loss.text)
        now = time.monotonic()
        case = Case(machine, tier, down_since, now, {"detection_s": loss.at - down_since})
        try:
            self.operations.take_out(machine)
            now = case.lap("told_out_s", now)
            self.operations.platform.stop(machine)
        except SparecraftError as error:
            # Not fenced: it may serve still, so nothing may take its place.
            self.journal.note_failure(machine, "fence", error)
            return
        case.queued_at = case.lap("fence_s", now)
        if kind != "cloud" and self.settings.repair_mean_s is not None:
            self._repairing.put(case)
        if kind != "ara":
            self._replacing.put(case)

    def _work(self, cases: queue.Queue[Case], step: Callable[[Case], None]) -> None:
        while not self._ended.is_set():
            try:
                case = cases.get(timeout=0.1)
            except queue.Empty:
                continue
            try:
                step(case)
            except BlockEnded:
                return
            except SparecraftError as error:
                self.journal.note_failure(case.machine, "replacement", error)
                case.attempts += 1
                case.queued_at = time.monotonic()
                if case.attempts < _ATTEMPTS:
                    cases.put(case)

    def _replace(self, case: Case) -> None:
        now = case.lap("wait_s", case.queued_at)
        cloud = self.mechanisms[case.tier] == "cloud"
        replacement = case.machine if cloud else self._take_standby(case)
        if not cloud:
            now = case.lap("pool_wait_s", now)
        self.operations.pause(self.settings.boot_time_s, replacement, self._ended)
        now = case.lap("boot_s", now)
        if cloud:
            self.operations.platform.replace(replacement, ignore_progress)
            self.journal.note_recovery(replacement)
        else:
            self.operations.platform.start(replacement)
        case.lap("start_s", now)
        self._bring_in(case, replacement)

    def _take_standby(self, case: Case) -> str:
        """Return the next machine of the tier's pool; an empty pool is an event of its own."""
        pool = self._pools[case.tier]
        try:
            return pool.get(timeout=_POLL_S)
        except queue.Empty:
            self.journal.note("failover", "standby_pool_empty", "start", case.machine)
        try:
            while True:
                with suppress(queue.Empty):
                    return pool.get(timeout=_POLL_S)
                self.operations.pause(0.0, case.machine, self._ended)
        finally:
            self.journal.note("failover", "standby_pool_empty", "end", case.machine)

    def _repair(self, case: Case) -> None:
        assert self.settings.repair_mean_s is not None
        began = time.monotonic()
        wait_s = began - case.queued_at
        self.journal.note("repair", case.tier, "start", case.machine)
        length_s = float(self.rng.exponential(self.settings.repair_mean_s))
        self.operations.pause(length_s, case.machine, self._ended)
        to_pool = self.mechanisms[case.tier] == "pf"
        parts = {"repair_s": time.monotonic() - began, "wait_s": wait_s}
        parameters = {**parts, "to_pool": to_pool}
        self.journal.note("repair", case.tier, "end", case.machine, parameters=parameters)
        self.journal.note_recovery(case.machine)
        if to_pool:
            self._pools[case.tier].put(case.machine)
            return
        case.parts |= parts
        now = time.monotonic()
        self.operations.pause(self.settings.boot_time_s, case.machine, self._ended)
        now = case.lap("boot_s", now)
        self.operations.platform.start(case.machine)
        case.lap("start_s", now)
        self._bring_in(case, case.machine)

    def _bring_in(self, case: Case, replacement: str) -> None:
        now = time.monotonic()
        try:
            self.operations.wait_ready(replacement, self.settings.ready_timeout_s, self._ended)
            now = case.lap("readiness_s", now)
            self.operations.let_in(replacement, self._ended)
        except BlockEnded:
            raise
        except SparecraftError:
            self.operations.take_out(replacement)
            self.operations.platform.stop(replacement)
            raise
        now = case.lap("told_s", now)
        self.journal.enter(replacement, now)
        self._beats.watch(replacement)
        waited_s = case.parts.get("wait_s", 0.0) + case.parts.get("pool_wait_s", 0.0)
        total_s = now - case.down_since
        parameters = {
            "replacement": replacement,
            **case.parts,
            "total_s": total_s,
            "recovery_s": total_s - waited_s,
        }
        kind = self.mechanisms[case.tier]
        self.journal.note("failover", kind, "end", case.machine, at=now, parameters=parameters)

    def _restore(self) -> None:
        """Bring nodes back into service and switch standbys off; failures are in the verdicts."""
        no_stop = threading.Event()  # never set: the block is over, this is the next one's start
        for tier, nodes in self.nodes.items():
            for machine in [*nodes, *self.standbys[tier]]:
                try:
                    self._restore_one(machine, machine in nodes, no_stop)
                except SparecraftError as error:
                    self.journal.note_failure(machine, "revert", error)

    def _restore_one(self, machine: str, is_node: bool, no_stop: threading.Event) -> None:
        if is_node:
            is_cloud = self.mechanisms[self.operations.tiers[machine]] == "cloud"
            self.operations.power_on(machine, as_new=is_cloud)
            self.operations.wait_ready(machine, self.settings.ready_timeout_s, no_stop)
            self.operations.let_in(machine, no_stop)
        else:
            self.operations.take_out(machine)
            self.operations.forget_settings(machine)
            self.operations.platform.stop(machine)
        self.journal.note_recovery(machine)
        self.journal.leave(machine, time.monotonic())
