"""A load worker: connects to a master (`master.py`), sends its share of one block, and ends.

    python -m experiments.load.workers.locust.worker --master 10.0.1.5 --port 5557

It is Locust's WorkerRunner with one user. Master and workers exchange Locust's custom messages:

    worker                                        master
    hello     it listens; its host and kernel     share   its part of the plan
    time      its monotonic clock                 time    asks for it
    ready     at the start line                   go      t0 and start, on the worker's clock
    lines     records, as they come
    finished  the end of it, its CPU share        halt    give up what is in flight

A worker sends to its own fleet only, whoever its master is: `plan.entry_url` refuses other hosts.
On a load machine a service restarts it after each block.

Exit codes: 0 the share was sent, whatever the answers; 1 it ended early; 3 no master was found.
"""

from __future__ import annotations

import argparse
import logging
import signal
import socket
import sys
import time
from typing import Any, ClassVar, NoReturn

import gevent
from gevent.event import AsyncResult
from locust import User, events, task
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import WorkerRunner

from core.errors import EnvironmentMissing
from experiments.load.plan import MASTER_PORT, PLAN, LoadPlan
from experiments.load.workers.locust.clock import kernel
from experiments.load.workers.locust.open_loop import OpenLoop, Records
from experiments.load.workers.locust.plan_runner import PlanRunner
from experiments.load.workers.locust.process import settle

CONNECT_S = 60.0
MASTER_SILENT_S = 10.0  # a heartbeat comes each second
_LINGER_MS = 2000


class LineSender(Records):
    """Sends records to the master, which notices those that do not arrive."""

    def __init__(self, runner: WorkerRunner) -> None:
        super().__init__()
        self._runner = runner

    def flush(self) -> None:
        """Send the queued records."""
        lines, self._lines = self._lines, []
        if lines:
            self._runner.send_message("lines", {"lines": b"".join(lines)})


class Work:
    """One share of one block, from the master's first message to the final report."""

    def __init__(self, runner: WorkerRunner) -> None:
        self.complete = False
        self._runner = runner
        self._plan: LoadPlan | None = None
        self._plan_runner: PlanRunner | None = None
        self._records = LineSender(runner)
        self._go = AsyncResult()
        self._closed = False
        runner.register_message("share", self._on_share)
        runner.register_message("time", self._on_time)
        runner.register_message("go", self._on_go)
        runner.register_message("halt", self._on_halt)
        runner.send_message("hello", {"host": socket.gethostname(), "kernel": kernel()})

    def carry_out(self) -> None:
        """Wait for `go`, run the share, and report its end to the master."""
        assert self._plan is not None  # the share is sent before the user is
        try:
            record = self._records.append
            loop = OpenLoop(self._plan, clock=time.monotonic, record=record)
            self._plan_runner = PlanRunner(self._records, loop)
            self._runner.send_message("ready", {"priority": settle()})
            self._plan_runner.run(*self._go.get())
            self.complete = not self._closed
        except Exception as error:
            logging.exception("the load worker failed")
            self.close(f"{type(error).__name__}: {error}")
        self.close()

    def close(self, error: str | None = None) -> None:
        """Give up the requests in flight, send the remaining records and report the end; once."""
        if self._closed:
            return
        self._closed = True
        totals = self._plan_runner.end() if self._plan_runner else {"launched": 0}
        self._records.flush()
        cpu = self._plan_runner.cpu() if self._plan_runner else {}
        self._runner.send_message("finished", {**totals, **cpu, "error": error})

    def _on_share(self, msg: Any, **_: Any) -> None:
        self._plan = PLAN.validate_json(msg.data["plan"])

    def _on_time(self, msg: Any, **_: Any) -> None:
        answer = {"asked_s": msg.data["asked_s"], "worker_s": time.monotonic()}
        self._runner.send_message("time", answer)

    def _on_go(self, msg: Any, **_: Any) -> None:
        self._go.set((msg.data["t0_s"], msg.data["start_s"]))

    def _on_halt(self, **_: Any) -> None:
        self.close()


class ShareUser(User):
    """Locust's user. After another worker's death Locust starts more of them: they find no work."""

    work: ClassVar[Work | None] = None

    @task
    def run_plan(self) -> None:
        """Run the share once; after an exception Locust would begin again."""
        work, ShareUser.work = ShareUser.work, None
        if work is not None:
            work.carry_out()
        raise StopUser


def run_worker(host: str, port: int, connect_timeout_s: float) -> int:
    """Carry out one share for the master at this address, and return the exit code.

    Raises: EnvironmentMissing if no master answers in time.
    """
    environment = Environment(user_classes=[ShareUser], events=events)
    runner = _connect(environment, host, port, connect_timeout_s)
    work = ShareUser.work = Work(runner)

    def leave() -> None:
        work.close()
        environment.events.quitting.fire(environment=environment)
        runner.greenlet.kill(block=False)

    gevent.signal_handler(signal.SIGTERM, leave)
    gevent.signal_handler(signal.SIGINT, leave)
    watch = gevent.spawn(_watch_master, environment, leave)
    runner.greenlet.join()
    watch.kill()
    context = runner.client.socket.context
    runner.client.close(linger=_LINGER_MS)
    context.term()  # waits until the last messages are sent
    return 0 if work.complete else 1


def _connect(environment: Environment, host: str, port: int, timeout_s: float) -> WorkerRunner:
    try:
        with gevent.Timeout(timeout_s):
            return environment.create_worker_runner(host, port)
    except (gevent.Timeout, OSError) as error:
        raise EnvironmentMissing(
            "load worker",
            expected=f"a Locust master at {host}:{port} within {timeout_s:g} s",
            got="no answer" if isinstance(error, gevent.Timeout) else str(error),
            hint="Is the master running, and its port open to this machine?",
        ) from error


def _watch_master(environment: Environment, leave: Any) -> None:
    """End the worker when the master is silent: Locust itself would wait for a minute."""
    heard_s = time.monotonic()

    def on_heartbeat(**_: Any) -> None:
        nonlocal heard_s
        heard_s = time.monotonic()

    environment.events.heartbeat_received.add_listener(on_heartbeat)
    while time.monotonic() - heard_s < MASTER_SILENT_S:
        gevent.sleep(1.0)
    logging.error("no heartbeat of the master for %g s: the worker ends", MASTER_SILENT_S)
    leave()


def main() -> NoReturn:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.load.workers.locust.worker",
        description="Send one share of a block of load for a Locust master, then end. "
        "Exit code 0: sent; 1: ended early; 3: no master found.",
    )
    parser.add_argument("--master", required=True, metavar="HOST", help="the master's address")
    parser.add_argument(
        "--port", type=int, default=MASTER_PORT, help="its port (default: %(default)s)"
    )
    parser.add_argument(
        "--connect-timeout",
        type=float,
        default=CONNECT_S,
        metavar="SECONDS",
        help="give up when no master answers for so long (default: %(default)s)",
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        code = run_worker(options.master, options.port, options.connect_timeout)
    except EnvironmentMissing as error:
        logging.error("%s", error)
        code = error.exit_code
    sys.exit(code)


if __name__ == "__main__":
    main()
