"""One repeat of a row: a run without a fault, a run in each scenario, and a run without a fault
again, with probes all the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar

from core.errors import EnvironmentMissing, MeasurementFailed, SparecraftError
from experiments.design.injections import Step
from experiments.design.schedule import Block
from experiments.kinds.limplock.clients.process import ClientEnded, Clients, Lane
from experiments.kinds.limplock.clients.system import NotStable, System
from experiments.kinds.limplock.measure.endure import LINES, Deaths, outlast
from experiments.kinds.limplock.measure.node_roles import NodeRoles, assign_roles
from experiments.kinds.limplock.measure.whitebox import Whitebox
from experiments.kinds.limplock.row import Row
from experiments.kinds.limplock.scenarios import BASE, CLOSING, CRASH, Scenario, label
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import BESIDE, PROBE, ROW, Window
from experiments.run.active_fault import active_fault
from experiments.testbed.agents import AgentError
from experiments.testbed.fleet import await_ready
from experiments.testbed.live_fleet import serving
from experiments.testbed.testbed import Testbed

Answer = TypeVar("Answer")
_POLL_S = 0.2
_PROBES_BEFORE_S = 1.0  # for connections to be made


class _Stuck(Exception):
    """A service does not start again after a fault: an outcome, and the end of its repeat."""


class Moved(SparecraftError):
    """Parts moved before any fault, so the repeat cannot be used."""


class Repeat:
    """One repeat of one part of a row.

    `windows`, `closing` and `lanes` (with their purpose) have the measurements so far. `cold`,
    before and after the repeat: services were started anew, and nothing was rehearsed since.
    closes: True if the base is measured again at the end."""

    def __init__(
        self,
        testbed: Testbed,
        section: LimplockSection,
        block: Block,
        row: Row,
        part: str,
        system: System,
        clients: Clients,
        watch: Whitebox,
        scenarios: Sequence[Scenario],
        *,
        cold: bool = False,
        closes: bool = False,
    ) -> None:
        self.windows: list[Window] = []
        self.closing: list[Window] = []
        self.lanes: list[tuple[str, Lane]] = []
        self._testbed = testbed
        self._section = section
        self._block = block
        self._row = row
        self._part = part
        self._system = system
        self._clients = clients
        self._watch = watch
        self._scenarios = scenarios
        self._closes = closes
        self._count = section.count_of(row)
        self._probes: list[Lane] = []
        self._reported: dict[int, int] = {}  # by lane: operations in InfluxDB
        self.cold = cold  # services were started anew, and nothing was rehearsed since

    def measure(self) -> None:
        """Measure the whole repeat. It ends after a base that was cut short, because no time could
        be compared with it, and after a fault from which a service does not start again. Raises
        Moved if parts moved during the base.
        """
        with ExitStack() as stack:
            self._begin_probes(stack)
            time.sleep(_PROBES_BEFORE_S)
            if self._section.trial_run:
                self._rehearse()
            base = self._run_base(stack)
            self.windows.append(base)
            self._report_probes()
            if base.moved:
                raise Moved(
                    f"{self._row.name} of {self._block.arm}, repeat {self._block.pair + 1}",
                    expected="the same parts before and after the run without a fault",
                    got="others: it is begun again",
                )
            if base.cut:
                self._testbed.narrator.detail(
                    f"{self._row.name}: the base was cut short after {base.took_s:.0f} s"
                )
                return
            for scenario in self._scenarios:
                self._warm()
                self._run_scenario(scenario, base)
                if self.windows[-1].stuck:
                    return
            if self._closes:
                self._warm()
                self.closing.append(replace(self._run_base(None), scenario=CLOSING))
                self._report_probes()

    def _warm(self) -> None:
        """Rehearse the operation on servers that were started anew."""
        if self.cold and self._section.trial_run:
            self._rehearse()

    def _begin_probes(self, stack: ExitStack) -> None:
        """Start the probes of every machine that serves them, because any may limp next."""
        gap_s, timeout_s = self._section.probe_gap_s, self._section.probe_timeout_s
        for operation in dict.fromkeys(probe.operation for probe in self._row.probes):
            for node in self._system.probed(self._row, operation):
                task = self._system.probe(self._row, operation, node)
                lane = self._clients.start(replace(task, gap_s=gap_s, timeout_s=timeout_s))
                self._stop_at_exit(stack, PROBE, lane)
                self._probes.append(lane)

    def _stop_at_exit(self, stack: ExitStack, purpose: str, lane: Lane) -> None:
        self.lanes.append((purpose, lane))
        stack.callback(self._clients.stop, lane)

    # windows

    def _rehearse(self) -> None:
        """Run the operation and discard the result: restarted servers compile their code."""
        self._system.reset(self._row, self._count, self._clients)
        node = self._await_roles().entry
        lane = self._system.opened(self._clients, self._row, node, self._count)
        self._clients.go(lane)
        lane.wait(self._section.base_max_s)
        self._clients.stop(lane)
        self.cold = False

    def _run_base(self, stack: ExitStack | None) -> Window:
        """Run the operation without a fault.

        Parameters: stack, for the load beside the operation, which goes on from then on; None: the
        load is running already.
        """
        self._system.reset(self._row, self._count, self._clients)
        roles = self._await_roles()
        if self._row.beside is not None and stack is not None:
            task = self._system.operation(self._row, self._row.beside, 0, roles.entry)
            self._stop_at_exit(stack, BESIDE, self._clients.start(task))
        lane = self._open_lane(roles, self._count)
        start = time.monotonic()
        self._clients.go(lane)
        lane.wait(self._section.base_max_s)
        time.sleep(max(0.0, start + self._section.window_s_min - time.monotonic()))
        self._clients.stop(lane)
        base = self._make_window(BASE, roles, start, time.monotonic(), lane)
        base, self.cold = replace(base, cold=self.cold), False  # it is a rehearsal too
        return base

    def _run_scenario(self, scenario: Scenario, base: Window) -> None:
        row, section = self._row, self._section
        self._system.reset(row, self._count, self._clients)
        roles = self._await_roles()
        limit_s = section.limit_s(row, base.took_s)
        kind, parameters = scenario.fault(row.limpware)
        self._testbed.recorder.block = replace(self._block, repeat=self._testbed.tally.planned)
        lane = self._open_lane(roles, 0 if section.endure else self._count)
        deaths = Deaths(self._system.nodes, self._read_output, self._has_ended)
        with ExitStack() as fault:
            if scenario.start_s is not None:
                self._clients.go(lane)
                time.sleep(scenario.start_s)
            since = fault.enter_context(
                active_fault(self._testbed, Step(kind, roles.limping, parameters))
            )
            if scenario.start_s is None:
                self._clients.go(lane)
            if scenario.held_s is not None:
                time.sleep(max(0.0, since + scenario.held_s - time.monotonic()))
                fault.close()  # the fault is over, and the operation may go on
            if section.endure is not None:
                outlast(deaths, section.endure, since)
            else:
                lane.wait(lane.started + limit_s - time.monotonic())
            time.sleep(max(0.0, since + section.window_s_min - time.monotonic()))
            self._clients.stop(lane)
            window = self._make_window(scenario.name, roles, since, time.monotonic(), lane)
            died_s = {name: at - since for name, at in deaths.died_at.items()}
            window = replace(window, cold=self.cold, died_s=died_s)
        self._testbed.recorder.block = None
        try:
            window = replace(window, whole_after_s=self._recover(roles.limping))
        except _Stuck as error:
            self._testbed.narrator.detail(str(error))
            window = replace(window, stuck=True)
        self.windows.append(window)
        self._report_probes()
        self._narrate(scenario, base, window)

    def _open_lane(self, roles: NodeRoles, count: int) -> Lane:
        """Return the row's operation, connected before anything limps."""
        lane = self._system.opened(self._clients, self._row, roles.entry, count)
        self.lanes.append((ROW, lane))
        return lane

    def _make_window(
        self, scenario: str, roles: NodeRoles, start: float, end: float, lane: Lane
    ) -> Window:
        clock = self._testbed.clock
        done = self._done_at(lane)
        return Window(
            arm=self._block.arm,
            row=self._row.name,
            part=self._part,
            scenario=scenario,
            repeat=self._block.pair,
            limping=roles.limping,
            asked=roles.entry,
            labels=roles.labels,
            start_s=clock.since_s(start),
            end_s=clock.since_s(end),
            took_s=(end if done is None else done) - lane.started,
            cut=done is None,
            gone_s=self._ended_services(scenario, roles, start),
            moved=self._current_roles(roles) != roles,
            errors=sum(operation.outcome == "error" for operation in lane.did),
        )

    def _done_at(self, lane: Lane) -> float | None:
        """Return the time at which the row's count was done, even if the operation goes on; None if
        it was not done [monotonic s]."""
        if lane.task.count or not self._count:
            return lane.ended if lane.is_done else None
        ends = [operation.end for operation in lane.did if operation.outcome == "ok"]
        return ends[self._count - 1] if len(ends) >= self._count else None

    def _current_roles(self, roles: NodeRoles) -> NodeRoles:
        """Return the roles now; roles unlike any others if no machine has the part."""
        try:
            return assign_roles(self._row, self._part, self._system)
        except NotStable:
            return replace(roles, limping="")

    def _ended_services(self, scenario: str, roles: NodeRoles, start: float) -> Mapping[str, float]:
        """Return the time until each service ended, by machine [s]; 0 for a scenario's crash."""
        gone_s = {roles.limping: 0.0} if scenario == CRASH else {}
        for name in self._system.nodes:
            last = self._watch.last_answer(name)
            if name not in gone_s and last is not None and self._has_ended(name):
                gone_s[name] = max(0.0, last - start)
        return gone_s

    def _has_ended(self, machine: str) -> bool:
        """Return True if its agent reports that its program has ended; False without an answer."""
        try:
            return str(self._testbed.fleet.agents[machine].health()["service"]) == "crashed"
        except AgentError:
            return False

    def _read_output(self, machine: str) -> str:
        """Return a machine's last output; empty unless the operation goes on until a death."""
        if self._section.endure is None:
            return ""
        return self._testbed.fleet.platform.machine_logs(machine, LINES)

    # between windows

    def _await_roles(self) -> NodeRoles:
        """Return the roles now. Raises MeasurementFailed if the part is missing for too long."""
        look = partial(assign_roles, self._row, self._part, self._system)
        return await_whole(self._testbed, look, self._section.recover_max_s)

    def _recover(self, limped: str) -> float | None:
        """Wait until the system is whole and every probe is answered; return the time [s]. If that
        takes too long, or parts that the fault moved cannot be brought back, start the system anew,
        with the machine that limped, and return None. Raises ClientEnded, which a restart of
        services cannot mend."""
        begun = time.monotonic()
        limit_s = self._section.recover_max_s
        try:
            until_settled(partial(self._system.parts, self._row), limit_s)
            self._mend()
            self._await_probes(begun, limit_s)
        except NotStable as error:
            self._testbed.narrator.detail(f"started anew: {error.got}")
            self._start_anew(limped)
            return None
        return time.monotonic() - begun

    def _mend(self) -> None:
        """Bring back what the fault moved. Raises NotStable if that fails, ClientEnded."""
        try:
            self._system.mend(self._clients)
        except ClientEnded:
            raise
        except MeasurementFailed as error:
            raise NotStable(error.place, expected=error.expected, got=error.got) from error

    def _await_probes(self, since: float, limit_s: float) -> None:
        while True:
            late = [lane for lane in self._probes if not _has_answered_since(lane, since)]
            if not late:
                return
            for lane in late:
                self._clients.check(lane)
            if time.monotonic() - since > limit_s:
                names = ", ".join(f"{lane.task.operation} at {lane.task.node}" for lane in late)
                raise NotStable("probes", expected="answers", got=f"none to {names}")
            time.sleep(_POLL_S)

    def _start_anew(self, limped: str) -> None:
        testbed, limit_s = self._testbed, self._section.recover_max_s
        agents = {name: testbed.fleet.agents[name] for name in (limped, *self._system.nodes)}
        for agent in agents.values():
            agent.restart_service()
        begun = time.monotonic()
        try:
            await_ready(testbed.fleet, testbed.design.roles, agents)
        except EnvironmentMissing as error:
            # A member that lags by more than its heap holds runs out of memory when it catches up.
            raise _Stuck(f"{error.place}: its service did not start again") from error
        await_whole(testbed, partial(self._system.parts, self._row), limit_s)
        self._system.mend(self._clients)
        await_whole(testbed, partial(self._await_probes, begun, limit_s), limit_s)
        self.cold = True

    def _report_probes(self) -> None:
        """Send the probes since the last call to InfluxDB."""
        for lane in self._probes:
            tags = {"machine": lane.task.node, "operation": lane.task.operation}
            new = lane.did[self._reported.get(lane.number, 0) :]
            for probe in new:
                values = {"latency_ms": 1000.0 * (probe.end - probe.start)}
                probe_tags = {**tags, "outcome": probe.outcome}
                self._testbed.recorder.sample(probe.end, "probe", probe_tags, values)
            self._reported[lane.number] = self._reported.get(lane.number, 0) + len(new)

    def _narrate(self, scenario: Scenario, base: Window, window: Window) -> None:
        least = "at least " if window.cut else ""
        self._testbed.narrator.detail(
            f"{self._row.name}, {label(scenario.name)} on {window.labels[window.limping]}: "
            f"{base.took_s:.1f} s, then {least}{window.took_s:.1f} s"
        )


def until_settled(look: Callable[[], Answer], limit_s: float) -> Answer:
    """Return the result of `look`, which is called again while it raises NotStable. Raises
    NotStable after `limit_s`.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return look()
        except NotStable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def await_whole(testbed: Testbed, look: Callable[[], Answer], limit_s: float) -> Answer:
    """As `until_settled`, if the run cannot go on otherwise. Raises MeasurementFailed with the
    machines' last output."""
    try:
        return until_settled(look, limit_s)
    except NotStable as error:
        platform, tiers = testbed.fleet.platform, set(testbed.design.fleet.tiers)
        names = [machine.name for machine in serving(testbed.fleet.inventory, tiers)]
        printed = {name: platform.machine_logs(name) for name in names}
        output = "; ".join(f"{name} printed: {text}" for name, text in printed.items())
        raise MeasurementFailed(
            error.place,
            expected=f"{error.expected}, within {limit_s:g} s",
            got=f"{error.got}; {output}",
            hint="`sparecraft up` the design, and look into it.",
        ) from error


def _has_answered_since(lane: Lane, since: float) -> bool:
    last = lane.did[-1] if lane.did else None
    return last is not None and last.outcome == "ok" and last.start >= since
