"""The master of several load workers: splits the plan, starts all at one instant, keeps records.

The runner starts it (generator.py) and talks to it as to the generator of one process. It is
Locust's MasterRunner; `worker.py` has its messages to the workers. It sends no load itself.

A worker that is gone (Locust heard no heartbeat for 4 s, or it said goodbye) does not end the
block: its unreported requests are `lost` in the records, and a run with lost requests is not valid.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gevent
from locust import events
from locust.env import Environment
from locust.runners import STATE_MISSING, MasterRunner

from core.errors import MeasurementFailed
from experiments.load.plan import PLAN, LoadPlan, RemoteWorkers, read_plan
from experiments.load.workers.locust.clock import EXCHANGES, Exchange, Offset, kernel, offset_of
from experiments.load.workers.locust.local_workers import LocalWorkers
from experiments.load.workers.locust.open_loop import RecordFile
from experiments.load.workers.locust.process import Control
from experiments.load.workers.locust.sharding import share
from experiments.load.workers.locust.worker import ShareUser
from experiments.record.records import RequestRecord

CONNECT_S = 120.0  # for workers of this machine, which may be busy while they import Locust
_POLL_S = 0.01
_CLOCK_S = 5.0
_CLOCK_AGAIN_S = 1.0
_DRAIN_S = 1.0  # beyond the time-outs, for the workers' own end
_HALT_S = 1.5


class Halted(Exception):
    """The runner is gone or said so."""


@dataclass
class Member:
    """One worker, as far as the master knows it."""

    number: int
    client_id: str
    host: str
    kernel: str
    planned: int = 0
    priority: str | None = None
    finished: dict[str, object] | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    offset: Offset | None = None
    drift_s: float = 0.0
    recorded: int = 0

    @property
    def is_ready(self) -> bool:
        """Tell whether it only waits for `go`."""
        return self.priority is not None and self.offset is not None

    def measured_offset(self) -> Offset:
        """Return the offset by the exchanges since the last call."""
        exchanges, self.exchanges = self.exchanges, []
        return offset_of(exchanges, same_clock=self.kernel == kernel())

    def use(self) -> dict[str, object]:
        """Return the facts that the run keeps about it."""
        told = self.finished or {}
        return {
            "worker": self.number,
            "host": self.host,
            "priority": self.priority,
            "planned": self.planned,
            "recorded": self.recorded,
            "cpu_share": told.get("cpu_share"),
            "cpu_share_max": told.get("cpu_share_max"),
            "clock_offset_s": self.offset.offset_s if self.offset else None,
            "clock_uncertainty_s": self.offset.uncertainty_s if self.offset else None,
            "clock_drift_s": self.drift_s,
        }


class Master:
    """One block over `plan.load.workers` workers."""

    def __init__(
        self, plan: LoadPlan, records: RecordFile, control: Control, runner: MasterRunner
    ) -> None:
        self._plan = plan
        self._records = records
        self._control = control
        self._runner = runner
        self._local: LocalWorkers | None = None
        self._by_id: dict[str, Member] = {}
        self._seen = bytearray(len(plan.offsets_s))
        self._start_s = 0.0
        self._end_s = 0.0
        self._halting = False
        self._stopping = False
        for name in ("hello", "ready", "time", "lines", "finished"):
            runner.register_message(name, getattr(self, f"_on_{name}"))

    def halt(self) -> None:
        """End early; what was measured is kept."""
        self._halting = True

    def carry_out(self, connect_timeout_s: float, local: LocalWorkers | None = None) -> None:
        """The block. Raises MeasurementFailed where not all workers come to be ready in time, or
        one of `local` ends before."""
        self._local = local
        flusher = gevent.spawn(self._records.flush_forever)
        try:
            self._gather(connect_timeout_s)
            self._go()
            self._follow()
        except Halted:
            self._stop_members()
        finally:
            flusher.kill()
        self._conclude()

    def _gather(self, timeout_s: float) -> None:
        """Connect, share out, compare clocks, and bring every worker to the start."""
        count = self._plan.load.workers
        self._expect("connected", lambda: len(self._by_id), timeout_s)
        for member in self._members:
            part = share(self._plan, member.number, count)
            member.planned = len(part.offsets_s)
            self._runner.send_message("share", {"plan": PLAN.dump_json(part)}, member.client_id)
        self._compare_clocks(self._members, _CLOCK_S)
        for member in self._members:
            if member.exchanges:
                member.offset = member.measured_offset()
        self._runner.start(count, spawn_rate=count)
        at_start = "ready, with their clocks compared"
        self._expect(at_start, lambda: sum(m.is_ready for m in self._members), timeout_s)

    @property
    def _members(self) -> list[Member]:
        return list(self._by_id.values())

    def _expect(self, what: str, seen: Callable[[], int], timeout_s: float) -> None:
        count = self._plan.load.workers

        def over() -> bool:
            return seen() >= count or bool(self._endings())

        self._wait(over, time.monotonic() + timeout_s)
        if seen() >= count:
            return
        raise MeasurementFailed(
            "load master",
            expected=f"{count} workers {what} within {timeout_s:g} s",
            got="; ".join([f"{seen()} of {count}", *self._endings()]),
            hint="Do they start, and do they reach the master's port? What they say stands above.",
        )

    def _endings(self) -> list[str]:
        """Name the workers that have ended, and why, while all should come to the start."""
        codes = self._local.exit_codes() if self._local else []
        finished = sum(1 for member in self._members if member.finished)
        ended = [f"{finished} ended early"] if finished else []
        return [*ended, *self._errors(), *(f"one ended with exit code {code}" for code in codes)]

    def _errors(self) -> list[str]:
        """Why workers ended that should not have."""
        told = [member.finished for member in self._members if member.finished]
        return [str(one["error"]) for one in told if one["error"]]

    def _compare_clocks(self, members: list[Member], timeout_s: float) -> None:
        """`EXCHANGES` questions to each, one after the other."""
        end_s = time.monotonic() + timeout_s
        for member in members:
            for _ in range(EXCHANGES):
                self._ask_time(member, end_s)

    def _ask_time(self, member: Member, end_s: float) -> None:
        before = len(member.exchanges)
        self._runner.send_message("time", {"asked_s": time.monotonic()}, member.client_id)
        self._wait(lambda: len(member.exchanges) > before, end_s)

    def _go(self) -> None:
        self._control.say(state="ready")
        hearing = gevent.spawn(self._control.hear)
        self._wait(hearing.ready, math.inf)
        message = hearing.value
        if message is None:
            raise Halted
        gevent.spawn(self._watch_runner)
        t0_s, start_s = float(message["t0_s"]), float(message["start_s"])
        for member in self._members:
            assert member.offset is not None  # _gather has seen to it
            told = {"t0_s": t0_s + member.offset.offset_s, "start_s": start_s}
            self._runner.send_message("go", told, member.client_id)
        self._start_s = start_s
        self._end_s = t0_s + start_s + self._plan.length_s

    def _watch_runner(self) -> None:
        while self._control.hear() is not None:
            pass
        self.halt()

    def _follow(self) -> None:
        """Wait until each worker has finished or is gone, and the time of the block is over."""
        load = self._plan.load
        limit_s = self._end_s + load.connect_timeout_s + load.response_timeout_s + _DRAIN_S
        self._wait(lambda: all(m.finished or self._has_ended(m) for m in self._members), limit_s)
        self._wait(lambda: False, self._end_s)
        ended = [m for m in self._members if m.finished and not self._has_ended(m)]
        self._compare_clocks(ended, _CLOCK_AGAIN_S)
        for member in ended:
            if member.exchanges and member.offset:
                again = member.measured_offset()
                member.drift_s = again.offset_s - member.offset.offset_s
        for member in self._members:
            if member.recorded < member.planned:
                self._lose(member)

    def _lose(self, member: Member) -> None:
        """The requests that a worker was to send and did not report, as records."""
        count = 0
        for index in range(member.number, len(self._seen), self._plan.load.workers):
            if not self._seen[index]:
                self._seen[index] = 1
                self._records.append(self._lost_record(index))
                count += 1
        logging.error("worker %d: %d of %d requests lost", member.number, count, member.planned)

    def _lost_record(self, index: int) -> RequestRecord:
        offset_s = self._plan.offsets_s[index]
        return {
            "phase": self._plan.phase_at(offset_s),
            "index": index,
            "name": self._plan.operations[self._plan.operation_of[index]].name,
            "intended_s": round(self._start_s + offset_s, 6),
            "sent_s": None,
            "done_s": None,
            "latency_ms": None,
            "lag_ms": None,
            "outcome": "lost",
            "status": 0,
            "bytes": 0,
        }

    def _stop_members(self) -> None:
        self._stopping = True
        for member in self._members:
            self._runner.send_message("halt", {}, member.client_id)
        end_s = time.monotonic() + _HALT_S
        self._wait(lambda: all(m.finished or self._has_ended(m) for m in self._members), end_s)

    def _conclude(self) -> None:
        self._records.close()
        told = [member.finished or {"launched": member.recorded} for member in self._members]
        self._control.say(
            state="done",
            launched=sum(one["launched"] for one in told),
            recorded=sum(self._seen),
            unfinished=sum(one.get("unfinished", 0) for one in told),
            unwritten=self._records.waiting,
            error=self._records.error or next(iter(self._errors()), None),
            workers=[member.use() for member in self._members],
        )

    def _has_ended(self, member: Member) -> bool:
        client = self._runner.clients.get(member.client_id)
        return client is None or client.state == STATE_MISSING

    def _wait(self, holds: Callable[[], bool], end_s: float) -> bool:
        """Wait until it holds; false if it did not before `end_s`. Raises Halted."""
        while not holds():
            if self._halting and not self._stopping:
                raise Halted
            if time.monotonic() >= end_s:
                return False
            gevent.sleep(_POLL_S)
        return True

    def _on_hello(self, msg: Any, **_: Any) -> None:
        """One that comes when there are enough has nothing to do, and ends with the others."""
        number = len(self._by_id)
        if msg.node_id not in self._by_id and number < self._plan.load.workers:
            member = Member(number, msg.node_id, msg.data["host"], msg.data["kernel"])
            self._by_id[msg.node_id] = member

    def _on_ready(self, msg: Any, **_: Any) -> None:
        if member := self._by_id.get(msg.node_id):
            member.priority = msg.data["priority"]

    def _on_time(self, msg: Any, **_: Any) -> None:
        if member := self._by_id.get(msg.node_id):
            asked_s, worker_s = msg.data["asked_s"], msg.data["worker_s"]
            member.exchanges.append(Exchange(asked_s, worker_s, time.monotonic()))

    def _on_lines(self, msg: Any, **_: Any) -> None:
        member = self._by_id.get(msg.node_id)
        if member is None:
            return
        for line in msg.data["lines"].splitlines(keepends=True):
            index = json.loads(line)["index"]
            if self._seen[index] or index % self._plan.load.workers != member.number:
                logging.error("worker %d: request %d is not its own", member.number, index)
                continue
            self._seen[index] = 1
            member.recorded += 1
            self._records.append_line(line)

    def _on_finished(self, msg: Any, **_: Any) -> None:
        if member := self._by_id.get(msg.node_id):
            member.finished = msg.data


def main(arguments: list[str] | None = None) -> None:
    """The command line, as `__main__.py` has it."""
    parser = argparse.ArgumentParser(prog="python -m experiments.load.workers.locust.master")
    parser.add_argument("--plan", type=Path, required=True, help="the block's plan, JSON")
    parser.add_argument("--records", type=Path, required=True, help="where records are appended")
    parser.add_argument("--control-fd", type=int, required=True, help="the runner's socket")
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    plan, records = read_plan(asked.plan), RecordFile(asked.records)
    control = Control(asked.control_fd)
    elsewhere = plan.remote or RemoteWorkers("127.0.0.1", 0, CONNECT_S)
    environment = Environment(user_classes=[ShareUser], events=events)
    runner = environment.create_master_runner(elsewhere.bind, elsewhere.port)
    master = Master(plan, records, control, runner)
    gevent.signal_handler(signal.SIGTERM, master.halt)
    local = None
    if plan.remote is None:
        local = LocalWorkers(plan.load.workers, runner.server.port, CONNECT_S)
    try:
        master.carry_out(elsewhere.connect_timeout_s, local)
    except MeasurementFailed as error:
        control.say(state="done", launched=0, recorded=0, error=str(error))
        sys.exit(error.exit_code)
    finally:
        runner.quit()
        if local:
            local.stop()


if __name__ == "__main__":
    main()
