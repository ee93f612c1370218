"""One repeat of a row: a run without a fault, one in each scenario, and one without a fault again,
with probes beside all."""

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

Found = TypeVar("Found")
_POLL_S = 0.2
_PROBES_BEFORE_S = 1.0  # connections are made


class _Stuck(Exception):
    """A service does not start again after a fault: an outcome, and the end of its repeat."""


class Moved(SparecraftError):
    """Parts were others before anything was done to them: the repeat says nothing."""


class Repeat:
    """Of one part; `windows`, `closing` and `lanes` (with their purpose) have what was measured
    until then; `cold`, whether it meets, and then leaves, services that were started anew; closes,
    whether the base is measured again at its end."""

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
        self._told: dict[int, int] = {}  # of each lane, how much of it InfluxDB has
        self.cold = cold  # services were started anew, and nothing was rehearsed since

    def measure(self) -> None:
        """The whole repeat; of one whose base was cut short nothing but that, for no time could be
        compared with it, and nothing after a fault from which a service does not start again.
        Raises Moved if its base says nothing of its parts.
        """
        with ExitStack() as stack:
            self._begin_probes(stack)
            time.sleep(_PROBES_BEFORE_S)
            if self._section.trial_run:
                self._rehearse()
            base = self._base(stack)
            self.windows.append(base)
            self._tell()
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
                self._scenario(scenario, base)
                if self.windows[-1].stuck:
                    return
            if self._closes:
                self._warm()
                self.closing.append(replace(self._base(None), scenario=CLOSING))
                self._tell()

    def _warm(self) -> None:
        """Rehearse the operation on servers that were started anew."""
        if self.cold and self._section.trial_run:
            self._rehearse()

    def _begin_probes(self, stack: ExitStack) -> None:
        """Of every machine that does it: which of them limps is found anew before each fault."""
        gap_s, timeout_s = self._section.probe_gap_s, self._section.probe_timeout_s
        for operation in dict.fromkeys(probe.operation for probe in self._row.probes):
            for node in self._system.probed(self._row, operation):
                task = self._system.probe(self._row, operation, node)
                lane = self._clients.start(replace(task, gap_s=gap_s, timeout_s=timeout_s))
                self._until_the_end(stack, PROBE, lane)
                self._probes.append(lane)

    def _until_the_end(self, stack: ExitStack, purpose: str, lane: Lane) -> None:
        self.lanes.append((purpose, lane))
        stack.callback(self._clients.stop, lane)

    # windows

    def _rehearse(self) -> None:
        """A run of which nothing is kept: a server that was started anew compiles what it runs."""
        self._system.reset(self._row, self._count, self._clients)
        node = self._cast().asked
        lane = self._system.opened(self._clients, self._row, node, self._count)
        self._clients.go(lane)
        lane.wait(self._section.base_max_s)
        self._clients.stop(lane)
        self.cold = False

    def _base(self, stack: ExitStack | None) -> Window:
        """Without a fault.

        Parameters: stack, of what goes on beside the operation from then on; None: it does so now.
        """
        self._system.reset(self._row, self._count, self._clients)
        cast = self._cast()
        if self._row.beside is not None and stack is not None:
            task = self._system.operation(self._row, self._row.beside, 0, cast.asked)
            self._until_the_end(stack, BESIDE, self._clients.start(task))
        lane = self._opened(cast, self._count)
        start = time.monotonic()
        self._clients.go(lane)
        lane.wait(self._section.base_max_s)
        time.sleep(max(0.0, start + self._section.window_s_min - time.monotonic()))
        self._clients.stop(lane)
        base = self._window(BASE, cast, start, time.monotonic(), lane)
        base, self.cold = replace(base, cold=self.cold), False  # it is a run too
        return base

    def _scenario(self, scenario: Scenario, base: Window) -> None:
        row, section = self._row, self._section
        self._system.reset(row, self._count, self._clients)
        cast = self._cast()
        limit_s = section.limit_s(row, base.took_s)
        kind, parameters = scenario.fault(row.limpware)
        self._testbed.recorder.block = replace(self._block, repeat=self._number())
        lane = self._opened(cast, 0 if section.endure else self._count)
        deaths = Deaths(self._system.nodes, self._printed, self._has_ended)
        with ExitStack() as fault:
            if scenario.start_s is not None:
                self._clients.go(lane)
                time.sleep(scenario.start_s)
            since = fault.enter_context(
                active_fault(self._testbed, Step(kind, cast.limping, parameters))
            )
            if scenario.start_s is None:
                self._clients.go(lane)
            if scenario.held_s is not None:
                time.sleep(max(0.0, since + scenario.held_s - time.monotonic()))
                fault.close()  # it is over, and the operation may go on
            if section.endure is not None:
                outlast(deaths, section.endure, since)
            else:
                lane.wait(lane.started + limit_s - time.monotonic())
            time.sleep(max(0.0, since + section.window_s_min - time.monotonic()))
            self._clients.stop(lane)
            window = self._window(scenario.name, cast, since, time.monotonic(), lane)
            died_s = {name: at - since for name, at in deaths.found.items()}
            window = replace(window, cold=self.cold, died_s=died_s)
        self._testbed.recorder.block = None
        try:
            window = replace(window, whole_after_s=self._recover(cast.limping))
        except _Stuck as error:
            self._testbed.narrator.detail(str(error))
            window = replace(window, stuck=True)
        self.windows.append(window)
        self._tell()
        self._say(scenario, base, window)

    def _number(self) -> int:
        """Of the fault in the run, for its events."""
        return self._testbed.tally.planned

    def _opened(self, cast: NodeRoles, count: int) -> Lane:
        """Return the row's operation, connected before anything limps."""
        lane = self._system.opened(self._clients, self._row, cast.asked, count)
        self.lanes.append((ROW, lane))
        return lane

    def _window(
        self, scenario: str, cast: NodeRoles, start: float, end: float, lane: Lane
    ) -> Window:
        clock = self._testbed.clock
        done = self._done(lane)
        return Window(
            arm=self._block.arm,
            row=self._row.name,
            part=self._part,
            scenario=scenario,
            repeat=self._block.pair,
            limping=cast.limping,
            asked=cast.asked,
            labels=cast.labels,
            start_s=clock.since_s(start),
            end_s=clock.since_s(end),
            took_s=(end if done is None else done) - lane.started,
            cut=done is None,
            gone_s=self._ended_services(scenario, cast, start),
            moved=self._now(cast) != cast,
            errors=sum(one.outcome == "error" for one in lane.did),
        )

    def _done(self, lane: Lane) -> float | None:
        """When the row's count was done, though it goes on; None if it was not [monotonic s]."""
        if lane.task.count or not self._count:
            return lane.ended if lane.is_done else None
        good = [one.end for one in lane.did if one.outcome == "ok"]
        return good[self._count - 1] if len(good) >= self._count else None

    def _now(self, cast: NodeRoles) -> NodeRoles:
        """Return the parts now; where nobody has them, others than before."""
        try:
            return assign_roles(self._row, self._part, self._system)
        except NotStable:
            return replace(cast, limping="")

    def _ended_services(self, scenario: str, cast: NodeRoles, start: float) -> Mapping[str, float]:
        """Machines whose service has ended, and since when: at once where it was made to."""
        found = {cast.limping: 0.0} if scenario == CRASH else {}
        for name in self._system.nodes:
            last = self._watch.answered(name)
            if name not in found and last is not None and self._has_ended(name):
                found[name] = max(0.0, last - start)
        return found

    def _has_ended(self, machine: str) -> bool:
        """True where its agent says that its program has ended; False without an answer."""
        try:
            return str(self._testbed.fleet.agents[machine].health()["service"]) == "crashed"
        except AgentError:
            return False

    def _printed(self, machine: str) -> str:
        """Nothing where nobody looks for it."""
        if self._section.endure is None:
            return ""
        return self._testbed.fleet.platform.machine_logs(machine, LINES)

    # between windows

    def _cast(self) -> NodeRoles:
        """Raises MeasurementFailed if nobody has the part for too long."""
        look = partial(assign_roles, self._row, self._part, self._system)
        return whole(self._testbed, look, self._section.recover_max_s)

    def _recover(self, limped: str) -> float | None:
        """Until the system is whole and every probe is answered; where that takes too long, or
        what the fault moved cannot be brought back, it is started anew, with the machine that
        limped, and None is returned. Raises ClientEnded, which no start of services mends."""
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
        """Raises NotStable where what the fault moved cannot be brought back, ClientEnded."""
        try:
            self._system.mend(self._clients)
        except ClientEnded:
            raise
        except MeasurementFailed as error:
            raise NotStable(error.place, expected=error.expected, got=error.got) from error

    def _await_probes(self, since: float, limit_s: float) -> None:
        while True:
            late = [lane for lane in self._probes if not _answered_since(lane, since)]
            if not late:
                return
            for lane in late:
                self._clients.check(lane)
            if time.monotonic() - since > limit_s:
                names = ", ".join(f"{one.task.operation} at {one.task.node}" for one in late)
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
            # A member that lags by more than its heap runs out of memory while it catches up.
            raise _Stuck(f"{error.place}: its service did not start again") from error
        whole(testbed, partial(self._system.parts, self._row), limit_s)
        self._system.mend(self._clients)
        whole(testbed, partial(self._await_probes, begun, limit_s), limit_s)
        self.cold = True

    def _tell(self) -> None:
        """The probes since it was last called, to InfluxDB."""
        for lane in self._probes:
            tags = {"machine": lane.task.node, "operation": lane.task.operation}
            new = lane.did[self._told.get(lane.number, 0) :]
            for one in new:
                took = {"latency_ms": 1000.0 * (one.end - one.start)}
                more = {**tags, "outcome": one.outcome}
                self._testbed.recorder.sample(one.end, "probe", more, took)
            self._told[lane.number] = self._told.get(lane.number, 0) + len(new)

    def _say(self, scenario: Scenario, base: Window, window: Window) -> None:
        least = "at least " if window.cut else ""
        self._testbed.narrator.detail(
            f"{self._row.name}, {label(scenario.name)} on {window.labels[window.limping]}: "
            f"{base.took_s:.1f} s, then {least}{window.took_s:.1f} s"
        )


def until_settled(look: Callable[[], Found], limit_s: float) -> Found:
    """Return the result of a question, asked again while it is unstable. Raises NotStable after
    `limit_s`.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return look()
        except NotStable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def whole(testbed: Testbed, look: Callable[[], Found], limit_s: float) -> Found:
    """As `until_settled`, for what a run cannot do without. Raises MeasurementFailed with what the
    machines printed last."""
    try:
        return until_settled(look, limit_s)
    except NotStable as error:
        platform, tiers = testbed.fleet.platform, set(testbed.design.fleet.tiers)
        names = [one.name for one in serving(testbed.fleet.inventory, tiers)]
        printed = {name: platform.machine_logs(name) for name in names}
        said = "; ".join(f"{name} printed: {text}" for name, text in printed.items())
        raise MeasurementFailed(
            error.place,
            expected=f"{error.expected}, within {limit_s:g} s",
            got=f"{error.got}; {said}",
            hint="`sparecraft up` the design, and look into it.",
        ) from error


def _answered_since(lane: Lane, since: float) -> bool:
    last = lane.did[-1] if lane.did else None
    return last is not None and last.outcome == "ok" and last.start >= since
