"""A block's injections: on schedule, with short leases, and all reverted at the end.

A fault on a machine has a lease that this controller renews while it lives. If the controller is
killed, the agents undo the fault within `LEASE_S`. Machine faults go through the platform, unless
it has the agent approximate them (`through_agent`). If the controller is killed, a separate process
undoes them (`platforms/watchdog.py`), on EC2 `sparecraft down`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from core.errors import SparecraftError, as_reason
from core.runfiles.events import Dose
from experiments.design.contracts import EPOCH_MS, KINDS, MACHINE_KINDS, MACHINE_REBOOT
from experiments.design.injections import Injection, Step
from experiments.record.dose import dose_of
from experiments.testbed.agents import Agent
from experiments.testbed.blast_radius import BlastRadius
from experiments.testbed.downtime import DowntimeMeter
from experiments.testbed.platforms import Platform

LEASE_S = 12.0
_RENEW_EVERY_S = 4.0
_TICK_S = 0.05
_MISSED_S = 1.0  # an injection due so long before the end was missed, not just cut off
_AT_ONCE = 32  # calls to agents and platform: an undo does not wait for another, slow machine
_HELD_BACK = SparecraftError(
    "[guard] machines_per_tier_max",
    expected="room for one more machine before the injection is over",
    got="as many disturbed machines of its tier as may be",
)

_BY_ITSELF = ("lease", "restart", "sigterm")  # the agent's reasons to undo a fault without a call


@dataclass
class Tally:
    """Counts over a run. An injection counts once all its steps are injected; `struck` are machines
    that lost power or were frozen on purpose."""

    planned: int = 0
    injected: int = 0
    reverted: int = 0
    errors: list[str] = field(default_factory=list)
    struck: set[str] = field(default_factory=set)


@dataclass
class _ActiveInjection:
    injection: Injection
    started: float
    faults: list[tuple[Step, str]]


@dataclass(frozen=True)
class FaultController:
    """Runs injections against a clock that starts with `run`; `log` is as `Recorder.event`."""

    agents: Mapping[str, Agent]
    platform: Platform
    log: Callable[..., None]
    tally: Tally
    radius: BlastRadius
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _silences: dict[str, DowntimeMeter] = field(default_factory=dict)  # by the platform's faults

    def run(
        self, injections: Sequence[Injection], origin: float, end_s: float, stop: threading.Event
    ) -> None:
        """Carry out `injections`, at_s after `origin` (monotonic); returns at `end_s` or `stop`.

        Everything that was active is reverted then. An injection that was not due before the end,
        which a block may reach with its last reply, does not count as planned. An injection that
        would disturb too many machines at once waits until there is room, and is an error if there
        is room only after its end.
        """
        waiting = sorted(
            (injection for injection in injections if injection.at_s < end_s),
            key=lambda injection: injection.at_s,
        )
        due: list[Injection] = []  # but held back
        active: list[_ActiveInjection] = []
        renew_at_s = 0.0
        epoch = time.time() - (time.monotonic() - origin)  # Unix time of the origin
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="faults") as pool:
            starting: list[Future[_ActiveInjection | None]] = []
            futures: list[Future[None]] = []
            while not stop.is_set() and (now_s := time.monotonic() - origin) < end_s:
                while waiting and waiting[0].at_s <= now_s:
                    due.append(waiting.pop(0))
                    self.tally.planned += 1
                due, candidates = [], due
                for injection in candidates:
                    if self.radius.take(injection.machines):
                        begins_ms = round((epoch + injection.at_s) * 1e3)
                        starting.append(pool.submit(self._start, injection, begins_ms))
                    elif injection.end_s <= now_s:
                        self._fail(injection, injection.steps[-1], "inject", _HELD_BACK)
                    else:
                        due.append(injection)
                active += _take_started(starting)
                for over in [running for running in active if running.injection.end_s <= now_s]:
                    active.remove(over)
                    futures.append(pool.submit(self._end, over, origin, now_s))
                if now_s >= renew_at_s:
                    renew_at_s = now_s + _RENEW_EVERY_S
                    futures += [pool.submit(self._renew, running) for running in active]
                stop.wait(min(_TICK_S, end_s - now_s))
            ended_s = min(time.monotonic() - origin, end_s)
            self.tally.planned += sum(injection.at_s < ended_s - _MISSED_S for injection in waiting)
            # Active injections are reverted at once; starting ones first have to be active.
            futures += [pool.submit(self._end, running, origin, ended_s) for running in active]
            wait(starting)
            futures += [
                pool.submit(self._end, running, origin, ended_s)
                for running in _take_started(starting)
            ]
            for injection in due:
                self._fail(injection, injection.steps[-1], "inject", _HELD_BACK)
        for silence in self._silences.values():
            silence.close()
        for future in futures:
            future.result()  # a defect must not stay hidden

    def _start(self, injection: Injection, begins_ms: int) -> _ActiveInjection | None:
        injected: list[tuple[Step, str]] = []
        for planned_step in injection.steps:
            step = _add_begin(planned_step, begins_ms)
            try:
                injected.append((step, self._inject(step)))
            except Exception as error:  # whatever it is: the injected steps have to be reverted
                self._fail(injection, step, "inject", error)
                now = time.monotonic()
                if self._undo(injection, injected, now, now):
                    self.radius.give(injection.machines)
                return None
        started = time.monotonic()
        with self._lock:
            self.tally.injected += 1
        for step, fault in injected:
            stand_in = self.platform.through_agent.get(step.kind)
            text = f"approximated by {stand_in}" if stand_in else ""
            self._report(injection, step, "inject", fault, injection.duration_s, text)
        return _ActiveInjection(injection, started, injected)

    def _end(self, active: _ActiveInjection, origin: float, now_s: float) -> None:
        """Undo an injection, at its own end or earlier at the block's, which is now."""
        asked_at = origin + min(now_s, active.injection.end_s)
        if self._undo(active.injection, active.faults, active.started, asked_at):
            self.radius.give(active.injection.machines)
            with self._lock:
                self.tally.reverted += 1

    def _undo(
        self,
        injection: Injection,
        injected: Sequence[tuple[Step, str]],
        since: float,
        asked_at: float,
    ) -> bool:
        clean = True
        for step, fault in reversed(injected):
            try:
                text, dose = self._revert(step, fault, since)
            except Exception as error:  # whatever it is: the other steps have to be reverted
                self._fail(injection, step, "revert", error)
                clean = False
                continue
            lasted_s = time.monotonic() - since
            self._report(injection, step, "revert", fault, lasted_s, text, asked_at, dose)
            if text in _BY_ITSELF and step.machine not in self.tally.struck:
                early = SparecraftError(
                    "fault", expected="in force until it was to end", got=f"undone before ({text})"
                )
                self._fail(injection, step, "inject", early)
        return clean

    def _inject(self, step: Step) -> str:
        if self._by_platform(step):
            with self._lock:
                self.tally.struck.add(step.machine)
            before, fault = time.monotonic(), f"{step.kind}-{step.machine}"
            self.platform.inject(step.kind, step.machine)
            self._silences[fault] = DowntimeMeter(self.agents[step.machine], before)
            return fault
        kind = self.platform.through_agent.get(step.kind, step.kind)
        return self.agents[step.machine].inject(kind, step.parameters, LEASE_S)

    def _revert(self, step: Step, fault: str, since: float) -> tuple[str, Dose | None]:
        if self._by_platform(step):
            lasted_s = None if step.kind == MACHINE_REBOOT else time.monotonic() - since
            dose = self._silences[fault].dose(lasted_s)
            self.platform.revert(step.kind, step.machine)
            return "", dose
        answer = self.agents[step.machine].revert(fault)
        return str(answer.get("revert_reason", "")), dose_of(answer.get("dose"))

    def _by_platform(self, step: Step) -> bool:
        return step.kind in MACHINE_KINDS and step.kind not in self.platform.through_agent

    def _renew(self, active: _ActiveInjection) -> None:
        for step, fault in active.faults:
            if self._by_platform(step):
                continue
            try:
                self.agents[step.machine].renew(fault, LEASE_S)
            except Exception as error:  # whatever it is: the other leases are renewed
                text = f"renew: {as_reason(error)}"
                self._report(active.injection, step, "error", fault, None, text)

    def _fail(self, injection: Injection, step: Step, action: str, error: Exception) -> None:
        text = f"{action}: {as_reason(error)}"
        with self._lock:
            self.tally.errors.append(f"{step.kind} on {step.machine}: {text}")
        self._report(injection, step, "error", "", None, text)

    def _report(
        self,
        injection: Injection,
        step: Step,
        action: str,
        fault: str,
        duration_s: float | None,
        text: str,
        asked_at: float | None = None,
        dose: Dose | None = None,
    ) -> None:
        try:
            self.log(
                time.monotonic(),
                what=injection.what,
                kind=step.kind,
                machine=step.machine,
                action=action,
                id=fault,
                parameters=step.parameters,
                duration_s=duration_s,
                text=text,
                asked=asked_at,
                dose=dose,
            )
        except Exception as error:  # such as a full disk: active faults have to be reverted
            text = f"{step.kind} on {step.machine}: {action}: not logged: {as_reason(error)}"
            with self._lock:
                self.tally.errors.append(text)


def _add_begin(step: Step, begins_ms: int) -> Step:
    """Add the planned begin to the parameters of a step, if its kind has a parameter for it.

    All machines of a fault get the same time.
    """
    names = (
        {parameter.name for parameter in KINDS[step.kind].parameters} if step.kind in KINDS else ()
    )
    if EPOCH_MS not in names or step.parameters.get(EPOCH_MS) is not None:
        return step
    return replace(step, parameters={**step.parameters, EPOCH_MS: begins_ms})


def _take_started(starting: list[Future[_ActiveInjection | None]]) -> list[_ActiveInjection]:
    """Remove finished starts from `starting`, and return the injections that are active."""
    finished = [future for future in starting if future.done()]
    for future in finished:
        starting.remove(future)
    return [active for future in finished if (active := future.result()) is not None]
