"""The program that sends a plan's arrivals by the users of a Locust file.

    python -m experiments.load.workers.locust.file_users --plan FILE --records FILE --control-fd N

Read `user_pool.py` first (a user waits for an arrival), then `request_events.py` (a request becomes
a record). The effect of the file on the process is limited: its import, on_start, each task, its
hosts, and the time in which no other greenlet can run. Exceeding a limit ends the block with a
message that names the place.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import gevent
import locust
from locust.argument_parser import get_parser
from locust.env import Environment

from experiments.load.client import Answer
from experiments.load.plan import LoadPlan, entry_url, read_plan
from experiments.load.workers.locust.loaded_file import error_place, load_file
from experiments.load.workers.locust.open_loop import Arrivals, RecordFile
from experiments.load.workers.locust.plan_runner import PlanRunner
from experiments.load.workers.locust.process import Control, settle
from experiments.load.workers.locust.request_events import RequestEvents, limit_requests
from experiments.load.workers.locust.service import check_certificates, hosts_of, resolve
from experiments.load.workers.locust.target_guard import TargetGuard
from experiments.load.workers.locust.user_pool import (
    ERRORS_MAX,
    LOOK_EVERY_S,
    LocustFileFailed,
    TaskRun,
    UserPool,
)
from experiments.paths import ROOT
from experiments.record.records import RequestRecord

START_S = 50.0  # less than the generator's limit: import, and on_start of every user
BLOCKED_S = 10.0  # the file lets nothing else run for so long
USELESS_MAX = 20  # tasks in a row that raise and send nothing
_PORTS = {"http": 80, "https": 443}


class FileLoop(Arrivals):
    """Each arrival begins a task of a free user."""

    def __init__(
        self, plan: LoadPlan, guard: TargetGuard, record: Callable[[RequestRecord], None]
    ) -> None:
        super().__init__(plan, clock=time.monotonic, record=record)
        self.pool: UserPool | None = None
        self.ended = 0
        self._guard = guard
        self._useless = 0
        load = plan.load
        self.events = RequestEvents(
            self.request, time.monotonic, load.connect_timeout_s + load.response_timeout_s
        )

    def launch(self, index: int, intended_s: float) -> None:
        """Give the arrival to a free user of its class; without one it is not started."""
        assert self.pool is not None
        name = self._plan.operations[self._plan.operation_of[index]].name
        self.launched += 1
        if not self.pool.begin(name, TaskRun(index, self._t0_s + intended_s)):
            self.ended += 1
            not_started = Answer("dropped", 0, 0, math.nan)
            self.finish(index, name, intended_s, self._clock(), not_started)

    def request(self, run: TaskRun, name: str, sent_s: float, answer: Answer) -> None:
        """Record a request of a task. It was due at its send time minus the task's lateness."""
        self.finish(run.index, name, sent_s - run.lag_s - self._t0_s, sent_s, answer)

    def drain(self) -> None:
        """Wait for the end of each task, which its time-out guarantees."""
        assert self.pool is not None
        while self.pool.busy and not self._stopped and not self._defect:
            gevent.sleep(LOOK_EVERY_S)

    def fail(self, text: str) -> None:
        """End the block early with this error."""
        self._defect = self._defect or LocustFileFailed(text)

    def end_task(self, run: TaskRun, seat: Any) -> None:
        """Count a task, and end the block if too many tasks in a row send nothing."""
        self.ended += 1
        self.events.end_task(run, seat)
        self._useless = self._useless + 1 if run.raised and run.requests == 0 else 0
        if self._useless >= USELESS_MAX and self.pool is not None:
            first = next(iter(self.pool.counts.errors), "")
            self.fail(f"{USELESS_MAX} tasks in a row raised, and made no request: {first}")

    def watch_forever(self) -> None:
        """Run as a greenlet: end tasks at their time-out, and look for forbidden hosts."""
        while True:
            gevent.sleep(LOOK_EVERY_S)
            if self.pool is not None:
                self.pool.end_late()
            try:
                self.look()
            except LocustFileFailed as error:
                self._defect = self._defect or error

    def look(self) -> None:
        """Raise LocustFileFailed for a violation of the file so far."""
        if self._defect:
            raise self._defect
        if self._guard.requests:
            raise LocustFileFailed(
                f"it asks {self._guard.describe()}, no host of this design's fleet: nothing was "
                "sent there"
            )


class FileUsers:
    """One block: the file, its users, the plan, and the final message about it."""

    def __init__(self, plan: LoadPlan, records: RecordFile, control: Control) -> None:
        assert plan.locustfile is not None
        self._plan = plan
        self._records = records
        self._control = control
        self._path = ROOT / plan.locustfile.file
        self._task_timeout_s = plan.locustfile.task_timeout_s
        self._guard = TargetGuard(_addresses(plan))
        self._loop = FileLoop(plan, self._guard, records.append)
        self._runner = PlanRunner(records, self._loop)
        self._priority = ""
        self._closed = False
        self._beat_s = time.monotonic()
        self._blocked_s = START_S  # while it is imported

    def carry_out(self) -> int:
        """Return the exit code: 0, whatever the answers were; 1 if it ended early."""
        error: str | None = None
        watch = gevent.spawn(self._loop.watch_forever)
        beat = gevent.spawn(self._beat_forever)
        signal.signal(signal.SIGALRM, self._check_blocked)
        signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
        gevent.signal_handler(signal.SIGTERM, self._leave)
        environment = None
        try:
            environment = self._start()
            self._priority = settle()
            self._control.say(state="ready")
            message = self._control.hear()
            if message is None:
                raise RuntimeError("the runner is gone")
            gevent.spawn(self._control.await_end, self._leave)
            self._runner.run(float(message["t0_s"]), float(message["start_s"]))
        except LocustFileFailed as failed:
            error = f"{self._path.name}: {failed}"
        except (Exception, SystemExit) as failed:
            logging.exception("the load worker failed")
            error = f"{type(failed).__name__}: {failed}"
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        gevent.killall([watch, beat])
        self._close(error)
        if environment is not None:
            self._stop_users(environment)
        return 1 if error else 0

    def _start(self) -> Environment:
        """Import the file, start its users with on_start, and return Locust's environment."""
        end_s = time.monotonic() + START_S
        load = self._plan.load
        random.seed(repr(self._plan.offsets_s[:1]))  # equal arrivals, equal choices of tasks
        limit_requests(self._loop.events, load.connect_timeout_s, load.response_timeout_s)
        if self._plan.tls is not None:
            check_certificates(self._plan.tls)
        if self._plan.target is not None:
            resolve(self._plan.target)
        self._guard.watch()
        classes = self._import()
        environment = Environment(user_classes=classes, events=locust.events)
        environment.parsed_options = get_parser(default_config_files=[]).parse_args([])
        hosts = hosts_of(self._plan)
        environment.host = hosts[0]
        environment.parsed_options.host = hosts[0]
        runner = environment.create_local_runner()
        runner.quit = runner.stop = self._on_quit  # type: ignore[method-assign]
        self._loop.events.listen(environment)
        weights = self._plan.locustfile.weights if self._plan.locustfile else {}
        pool = UserPool(
            environment,
            self._path,
            [(user_class, weights[user_class.__name__]) for user_class in classes],
            hosts,
            load.max_in_flight,
            task_timeout_s=self._task_timeout_s,
            clock=time.monotonic,
            on_end=self._loop.end_task,
        )
        self._loop.pool = pool
        environment.events.init.fire(environment=environment, runner=runner, web_ui=None)
        environment.events.test_start.fire(environment=environment)
        pool.start(end_s - time.monotonic(), self._loop.look)
        self._loop.look()
        return environment

    def _import(self) -> list[type[locust.User]]:
        names = {operation.name for operation in self._plan.operations}
        try:
            users, _ = load_file(self._path)
        except (Exception, SystemExit) as error:
            self._loop.look()
            line, text = error_place(self._path, error)
            raise LocustFileFailed(f"line {line}: {text}" if line else text) from error
        self._blocked_s, self._beat_s = BLOCKED_S, time.monotonic()
        self._loop.look()
        if missing := names - set(users):
            raise LocustFileFailed(f"no user class {', '.join(sorted(missing))} in it")
        return [user_class for name, user_class in users.items() if name in names]

    def _on_quit(self, *_: Any, **__: Any) -> None:
        self._loop.fail("it ends the run by itself (runner.quit or stop): a run ends with its plan")

    def _leave(self) -> None:
        """Write the measurements and end the process, on the runner's request."""
        self._close(None)
        os._exit(1)

    def _close(self, error: str | None) -> None:
        """Write the measurements and tell the runner; once."""
        if self._closed:
            return
        self._closed = True
        loop = self._loop
        loop.stop()
        self._records.close()
        unfinished = loop.launched - loop.ended
        self._control.say(
            state="done",
            launched=loop.launched,
            recorded=loop.recorded,
            ended=loop.ended,
            unfinished=unfinished,
            unwritten=self._records.waiting,
            error=error or self._records.error,
            workers=[self._use()],
        )

    def _use(self) -> dict[str, object]:
        pool = self._loop.pool
        use = {
            "worker": 0,
            "host": socket.gethostname(),
            "priority": self._priority,
            "planned": len(self._plan.offsets_s),
            "recorded": self._loop.recorded,
            **self._runner.cpu(),
        }
        if pool is None:
            return use
        counts = pool.counts
        errors = [f"{text} ({count}x)" for text, count in counts.errors.most_common(ERRORS_MAX)]
        tasks = {
            "users": len(pool.seats),
            "not_started": counts.not_started,
            "no_request": counts.no_request,
            "raised": counts.raised,
            "timed_out": counts.timed_out,
            "replaced": counts.replaced,
            "outside": self._loop.events.outside,
            "errors": errors,
        }
        return {**use, "tasks": tasks}

    def _stop_users(self, environment: Environment) -> None:
        """Run on_stop, test_stop and quitting for a short time, without measurement."""
        with gevent.Timeout(4.0, False):
            if self._loop.pool is not None:
                self._loop.pool.stop()
            environment.events.test_stop.fire(environment=environment)
            environment.events.quitting.fire(environment=environment, reverse=True)

    def _beat_forever(self) -> None:
        while True:
            self._beat_s = time.monotonic()
            gevent.sleep(LOOK_EVERY_S)

    def _check_blocked(self, _: int, frame: FrameType | None) -> None:
        """End the process if the file let no other greenlet run; called each second by a signal."""
        if time.monotonic() - self._beat_s < self._blocked_s:
            return
        where = self._path.name
        while frame is not None:
            if frame.f_code.co_filename == str(self._path):
                where = f"{where}:{frame.f_lineno}"
                break
            frame = frame.f_back
        self._close(f"{where}: it let nothing else run for {self._blocked_s:g} s")
        os._exit(1)


def _addresses(plan: LoadPlan) -> list[tuple[str, int]]:
    entries = [entry_url(url, plan.target) for urls in plan.entries.values() for url in urls]
    return [(str(entry.hostname), entry.port or _PORTS.get(entry.scheme, 0)) for entry in entries]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.load.workers.locust.file_users")
    parser.add_argument("--plan", type=Path, required=True, help="the block's plan, JSON")
    parser.add_argument("--records", type=Path, required=True, help="where records are appended")
    parser.add_argument("--control-fd", type=int, required=True, help="the runner's socket")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # what the file, or Locust for it, reads of the command line
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    plan = read_plan(options.plan)
    users = FileUsers(plan, RecordFile(options.records), Control(options.control_fd))
    code = users.carry_out()
    os._exit(code)  # whatever threads the file has begun


if __name__ == "__main__":
    main()
