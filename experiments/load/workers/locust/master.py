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
    """The runner asked for the end, or is gone."""


@dataclass
class Member:
    """The master's knowledge of one worker."""

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
        """True if the worker only waits for `go`."""
        return self.priority is not None and self.offset is not None

    def measured_offset(self) -> Offset:
        """Return the offset by the exchanges since the last call."""
        exchanges, self.exchanges = self.exchanges, []
        return offset_of(exchanges, same_clock=self.kernel == kernel())

    def use(self) -> dict[str, object]:
        """Return the facts about the worker that the run records."""
        report = self.finished or {}
        return {
            "worker": self.number,
            "host": self.host,
            "priority": self.priority,
            "planned": self.planned,
            "recorded": self.recorded,
            "cpu_share": report.get("cpu_share"),
            "cpu_share_max": report.get("cpu_share_max"),
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
        self._recorded = bytearray(len(plan.offsets_s))
        self._start_s = 0.0
        self._end_s = 0.0
        self._halting = False
        self._stopping = False
        for name in ("hello", "ready", "time", "lines", "finished"):
            runner.register_message(name, getattr(self, f"_on_{name}"))

    def halt(self) -> None:
        """End early and keep the measurements."""
        self._halting = True

    def carry_out(self, connect_timeout_s: float, local: LocalWorkers | None = None) -> None:
        """Carry out the block. Raises MeasurementFailed if not all workers are ready in time, or if
        one of `local` ends before that.
        """
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
        """Wait for the workers, send their shares, compare clocks, and wait until all are ready."""
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
        goal = "ready, with their clocks compared"
        self._expect(goal, lambda: sum(member.is_ready for member in self._members), timeout_s)

    @property
    def _members(self) -> list[Member]:
        return list(self._by_id.values())

    def _expect(self, goal: str, count_members: Callable[[], int], timeout_s: float) -> None:
        count = self._plan.load.workers

        def is_decided() -> bool:
            return count_members() >= count or bool(self._endings())

        self._wait(is_decided, time.monotonic() + timeout_s)
        if count_members() >= count:
            return
        raise MeasurementFailed(
            "load master",
            expected=f"{count} workers {goal} within {timeout_s:g} s",
            got="; ".join([f"{count_members()} of {count}", *self._endings()]),
            hint="Do they start, and do they reach the master's port? What they say stands above.",
        )

    def _endings(self) -> list[str]:
        """Describe the workers that ended before the start, with their errors."""
        codes = self._local.exit_codes() if self._local else []
        finished = sum(1 for member in self._members if member.finished)
        ended = [f"{finished} ended early"] if finished else []
        return [*ended, *self._errors(), *(f"one ended with exit code {code}" for code in codes)]

    def _errors(self) -> list[str]:
        """Return the errors of workers that ended by one."""
        reports = [member.finished for member in self._members if member.finished]
        return [str(report["error"]) for report in reports if report["error"]]

    def _compare_clocks(self, members: list[Member], timeout_s: float) -> None:
        """Ask each worker `EXCHANGES` times for its clock, one after the other."""
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
        gevent.spawn(self._control.await_end, self.halt)
        t0_s, start_s = float(message["t0_s"]), float(message["start_s"])
        for member in self._members:
            assert member.offset is not None  # _gather has seen to it
            times = {"t0_s": t0_s + member.offset.offset_s, "start_s": start_s}
            self._runner.send_message("go", times, member.client_id)
        self._start_s = start_s
        self._end_s = t0_s + start_s + self._plan.length_s

    def _follow(self) -> None:
        """Wait until each worker has finished or is gone, and the time of the block is over."""
        load = self._plan.load
        limit_s = self._end_s + load.connect_timeout_s + load.response_timeout_s + _DRAIN_S
        self._wait(self._is_over, limit_s)
        self._wait(lambda: False, self._end_s)
        active = [
            member for member in self._members if member.finished and not self._has_ended(member)
        ]
        self._compare_clocks(active, _CLOCK_AGAIN_S)
        for member in active:
            if member.exchanges and member.offset:
                again = member.measured_offset()
                member.drift_s = again.offset_s - member.offset.offset_s
        for member in self._members:
            if member.recorded < member.planned:
                self._record_lost(member)

    def _record_lost(self, member: Member) -> None:
        """Record as `lost` the requests that a worker should have sent and did not report."""
        count = 0
        for index in range(member.number, len(self._recorded), self._plan.load.workers):
            if not self._recorded[index]:
                self._recorded[index] = 1
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
        self._wait(self._is_over, end_s)

    def _conclude(self) -> None:
        self._records.close()
        reports = [member.finished or {"launched": member.recorded} for member in self._members]
        self._control.say(
            state="done",
            launched=sum(report["launched"] for report in reports),
            recorded=sum(self._recorded),
            unfinished=sum(report.get("unfinished", 0) for report in reports),
            unwritten=self._records.waiting,
            error=self._records.error or next(iter(self._errors()), None),
            workers=[member.use() for member in self._members],
        )

    def _is_over(self) -> bool:
        return all(member.finished or self._has_ended(member) for member in self._members)

    def _has_ended(self, member: Member) -> bool:
        client = self._runner.clients.get(member.client_id)
        return client is None or client.state == STATE_MISSING

    def _wait(self, condition: Callable[[], bool], end_s: float) -> bool:
        """Wait until the condition holds; false if it does not before `end_s`. Raises Halted."""
        while not condition():
            if self._halting and not self._stopping:
                raise Halted
            if time.monotonic() >= end_s:
                return False
            gevent.sleep(_POLL_S)
        return True

    def _on_hello(self, msg: Any, **_: Any) -> None:
        """Register a worker. One that comes when there are enough gets no share, and ends with the
        others.
        """
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
            if self._recorded[index] or index % self._plan.load.workers != member.number:
                logging.error("worker %d: request %d is not its own", member.number, index)
                continue
            self._recorded[index] = 1
            member.recorded += 1
            self._records.append_line(line)

    def _on_finished(self, msg: Any, **_: Any) -> None:
        if member := self._by_id.get(msg.node_id):
            member.finished = msg.data


def main() -> None:
    """Run the master, with the command line of `__main__.py`."""
    parser = argparse.ArgumentParser(prog="python -m experiments.load.workers.locust.master")
    parser.add_argument("--plan", type=Path, required=True, help="the block's plan, JSON")
    parser.add_argument("--records", type=Path, required=True, help="where records are appended")
    parser.add_argument("--control-fd", type=int, required=True, help="the runner's socket")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    plan, records = read_plan(options.plan), RecordFile(options.records)
    control = Control(options.control_fd)
    remote = plan.remote or RemoteWorkers("127.0.0.1", 0, CONNECT_S)
    environment = Environment(user_classes=[ShareUser], events=events)
    runner = environment.create_master_runner(remote.bind, remote.port)
    master = Master(plan, records, control, runner)
    gevent.signal_handler(signal.SIGTERM, master.halt)
    local = None
    if plan.remote is None:
        local = LocalWorkers(plan.load.workers, runner.server.port, CONNECT_S)
    try:
        master.carry_out(remote.connect_timeout_s, local)
    except MeasurementFailed as error:
        control.say(state="done", launched=0, recorded=0, error=str(error))
        sys.exit(error.exit_code)
    finally:
        runner.quit()
        if local:
            local.stop()


if __name__ == "__main__":
    main()
