"""The Locust side of the load: one user that runs a drawn plan.

The runner starts it (see generator.py). By hand, with Locust's page on http://127.0.0.1:8089:

    locust -f experiments/load/workers/locust/locustfile.py --web-host 127.0.0.1 --users 1 \\
        --plan results/X/latest/load/block-00.plan.json --records /tmp/records.jsonl

Locust's own figures are rounded to two digits, and a failed request is in them at the time-out
(`core/statistics/percentiles.py`); the records are the measurement.
"""

from __future__ import annotations

import logging
import socket
import time
from pathlib import Path
from typing import Any, ClassVar

import gevent
from locust import User, events, task
from locust.env import Environment
from locust.exception import StopUser

from core.statistics.percentiles import counted_ms, time_out_ms
from experiments.load.plan import LoadPlan, read_plan
from experiments.load.workers.locust.open_loop import OpenLoop, RecordFile
from experiments.load.workers.locust.plan_runner import PlanRunner
from experiments.load.workers.locust.process import Control, settle
from experiments.record.records import RequestRecord

START_AFTER_S = 0.5  # by hand, without a runner that says when


def _arguments(parser: Any) -> None:
    group = parser.add_argument_group("Sparecraft")
    group.add_argument("--plan", required=True, help="the block's plan, JSON")
    group.add_argument("--records", required=True, help="where records are appended, JSON lines")
    group.add_argument("--control-fd", type=int, default=-1, help="the runner's socket")


events.init_command_line_parser.add_listener(_arguments)


class OpenLoopUser(User):
    """All users of the plan in one: see open_loop.py."""

    fixed_count = 1
    plan: ClassVar[LoadPlan]
    records: ClassVar[RecordFile]
    control: ClassVar[Control]

    def on_start(self) -> None:
        """Arrange that the measurements are written whatever ends Locust."""
        self._runner: PlanRunner | None = None
        self._priority = ""
        self._error: str | None = None
        self._closed = False
        self.environment.events.quitting.add_listener(self._close)

    @task
    def run_plan(self) -> None:
        """Run the plan once; after an exception Locust would begin again."""
        try:
            loop = OpenLoop(self.plan, clock=time.monotonic, record=self._record)
            self._runner = PlanRunner(self.records, loop)
            self._priority = settle()
            self.control.say(state="ready")
            self._runner.run(*self._when())
        except Exception as error:
            logging.exception("the load worker failed")
            self._error = f"{type(error).__name__}: {error}"
        self._close()
        gevent.spawn(self._leave)
        raise StopUser

    def _when(self) -> tuple[float, float]:
        """Return the run's t0 on the monotonic clock, and the block's start after it."""
        if not self.control.attached:
            return time.monotonic(), START_AFTER_S
        message = self.control.hear()
        if message is None:
            raise RuntimeError("the runner is gone")
        gevent.spawn(self.control.await_end, self._leave_early)
        return float(message["t0_s"]), float(message["start_s"])

    def _leave_early(self) -> None:
        if not self._closed:
            self._leave()

    def _record(self, record: RequestRecord) -> None:
        self.records.append(record)
        good = record["outcome"] == "ok"
        self.environment.events.request.fire(
            request_type="GET",
            name=self.plan.load.user,
            response_time=counted_ms(
                record["outcome"],
                record["latency_ms"],
                time_out_ms(self.plan.load.connect_timeout_s, self.plan.load.response_timeout_s),
            ),
            response_length=record["bytes"],
            exception=None if good else RuntimeError(record["outcome"]),
            context={},
        )

    def _close(self, **_: Any) -> None:
        """Write the measurements and tell the runner; once."""
        if self._closed:
            return
        self._closed = True
        totals = self._runner.end() if self._runner else {"launched": 0, "recorded": 0}
        self.records.close()
        use = {
            "worker": 0,
            "host": socket.gethostname(),
            "priority": self._priority,
            "planned": len(self.plan.offsets_s),
            "recorded": totals["recorded"],
            **(self._runner.cpu() if self._runner else {}),
        }
        self.control.say(
            state="done",
            **totals,
            unwritten=self.records.waiting,
            error=self._error or self.records.error,
            workers=[use],
        )

    def _leave(self) -> None:
        runner = self.environment.runner
        if self.environment.web_ui is None:
            runner.quit()
        else:
            runner.stop()


def _open_inputs(environment: Environment, **_: Any) -> None:
    # In the init event, because Locust ends when that fails; a user that fails is only restarted.
    options: Any = environment.parsed_options
    OpenLoopUser.plan = read_plan(Path(options.plan))
    OpenLoopUser.records = RecordFile(Path(options.records))
    OpenLoopUser.control = Control(options.control_fd)


events.init.add_listener(_open_inputs)
