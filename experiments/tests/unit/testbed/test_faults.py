"""The fault controller: everything that goes in comes out, in order, whatever fails."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import DiskFull, EnvironmentMissing, MeasurementFailed
from experiments.design.injections import Injection, Step
from experiments.run import active_fault as holding
from experiments.testbed import faults
from experiments.testbed.blast_radius import BlastRadius
from experiments.testbed.faults import FaultController, Tally


class Machine:
    """An agent in memory: keeps what it was told, refuses the kinds in `refuses`."""

    def __init__(self, name: str, journal: list[str], refuses: tuple[str, ...] = ()) -> None:
        self.name = name
        self.journal = journal
        self.refuses = refuses
        self.active: set[str] = set()
        self.renewals = 0
        self.reason = "requested"
        self.before_inject: Callable[[], object] = lambda: None

    def inject(self, kind: str, parameters: Mapping[str, Any], lease_s: float) -> str:
        assert 0 < lease_s <= 600
        if kind in self.refuses:
            raise EnvironmentMissing(self.name, expected="success", got="501", hint="Nothing.")
        self.before_inject()
        fault = f"{kind}@{self.name}"
        assert fault not in self.active, "injected twice"
        self.active.add(fault)
        self.journal.append(f"inject {fault} {dict(parameters)}")
        return fault

    def renew(self, fault: str, lease_s: float) -> None:
        assert fault in self.active, "renewed what is not there"
        assert lease_s > 0
        self.renewals += 1
        self.journal.append(f"renew {fault}")

    def revert(self, fault: str) -> dict[str, Any]:
        self.active.discard(fault)
        self.journal.append(f"revert {fault}")
        dose = {"unit": "cores", "how": "so", "bit": True, "samples": 2, "seconds": 1.0}
        return {"revert_reason": self.reason, "dose": dose}

    def health(self, timeout_s: float) -> dict[str, Any]:
        assert timeout_s > 0
        raise EnvironmentMissing(self.name, expected="an answer", got="none", hint="Nothing.")


class Power:
    """The platform's hand on its machines, in memory."""

    def __init__(self, journal: list[str], through_agent: Mapping[str, str]) -> None:
        self.journal = journal
        self.through_agent = through_agent

    def inject(self, kind: str, machine: str) -> None:
        self.journal.append(f"inject {kind}@{machine} {{}}")

    def revert(self, kind: str, machine: str) -> None:
        self.journal.append(f"revert {kind}@{machine}")


class Journal(list[str]):
    """The events that were told; sets `stop` at the line `until`."""

    def __init__(self, until: str) -> None:
        self.until = until
        self.stop = threading.Event()

    def append(self, line: str) -> None:
        super().append(line)
        if line.split(" {")[0] == self.until:
            self.stop.set()


def _run(
    injections: list[Injection], *, until: str = "", end_s: float = math.inf,
    refuses: tuple[str, ...] = (), through_agent: Mapping[str, str] | None = None,
    now: Callable[[], float] = time.monotonic,
    prepare: Callable[[dict[str, Machine], Journal], None] = lambda *_: None,
) -> tuple[list[str], list[dict[str, Any]], Tally, dict[str, Machine]]:  # fmt: skip
    """Run a block that stops at a line of its journal, or lasts until `end_s`."""
    journal = Journal(until)
    events: list[dict[str, Any]] = []
    machines = {name: Machine(name, journal, refuses) for name in ("a", "b")}
    prepare(machines, journal)
    tally = Tally()
    agents: Any = machines
    power: Any = Power(journal, through_agent or {})
    free = BlastRadius({}, None)
    controller = FaultController(
        agents, power, lambda _, **event: events.append(event), tally, free
    )
    controller.run(injections, now(), end_s, journal.stop)
    assert not any(machine.active for machine in machines.values()), "reverted at the end"
    return [line for line in journal if "renew" not in line], events, tally, machines


def _one(kind: str, duration_s: float | None, at_s: float = 0.0) -> Injection:
    return Injection(at_s, duration_s, "fault", (Step(kind, "a"),))


def test_a_fault_goes_in_and_comes_out_within_the_block() -> None:
    journal, events, tally, _ = _run([_one("cpu.limp", 0.1)], until="revert cpu.limp@a")
    assert journal == ["inject cpu.limp@a {}", "revert cpu.limp@a"]
    assert [event["action"] for event in events] == ["inject", "revert"]
    assert [event["dose"] and event["dose"]["bit"] for event in events] == [None, True]
    assert (tally.planned, tally.injected, tally.reverted) == (1, 1, 1)


def test_machines_of_one_fault_are_told_one_moment_of_its_beginning() -> None:
    injections = [
        Injection(0.0, 0.2, "fault", (Step("net.flaky", name, {"outage_s": 1.0}),), fault=0)
        for name in ("a", "b")
    ]
    before_ms = time.time() * 1e3
    _, events, _, _ = _run(injections, until="revert net.flaky@b")
    epochs_ms = {event["parameters"]["epoch_ms"] for event in events if event["action"] == "inject"}
    assert len(epochs_ms) == 1
    assert abs(epochs_ms.pop() - before_ms) < 60_000


@pytest.mark.parametrize("duration_s", [50.0, None])
def test_a_stop_in_the_middle_reverts_what_is_active_and_starts_nothing_more(
    duration_s: float | None,
) -> None:
    later = _one("net.loss", 10.0, at_s=3600.0)
    journal, _, tally, _ = _run([_one("net.limp", duration_s), later], until="inject net.limp@a")
    assert journal == ["inject net.limp@a {}", "revert net.limp@a"]
    assert (tally.injected, tally.reverted) == (1, 1)


TICKS = [0.01 * tick for tick in range(200)]


def _clock(monkeypatch: pytest.MonkeyPatch, *times: float) -> Callable[[], float]:
    """Give the controller a clock that shows each of `times`, then the last one for ever."""
    times_left = list(times)
    clock = SimpleNamespace(
        monotonic=lambda: times_left.pop(0) if len(times_left) > 1 else times_left[0],
        time=time.time,
    )
    monkeypatch.setattr(faults, "time", clock)
    monkeypatch.setattr(faults, "_TICK_S", 0.0)
    return lambda: 0.0


def test_a_sticky_fault_ends_with_the_block_and_what_lies_beyond_is_not_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = _clock(monkeypatch, *TICKS)
    later = _one("cpu.limp", 1.0, at_s=5.0)
    journal, events, tally, _ = _run([_one("process.hang", None), later], end_s=0.3, now=now)
    assert journal == ["inject process.hang@a {}", "revert process.hang@a"]
    assert (tally.planned, tally.reverted) == (1, 1)
    assert events[-1]["action"] == "revert"


@pytest.mark.parametrize(
    ("looks_s", "at_s", "planned"), [((0.0, 19.96, 20.01), 19.98, 0), ((0.0, 20.01), 10.0, 1)]
)
def test_what_a_controller_slept_through_was_planned_unless_the_block_ended_with_it(
    monkeypatch: pytest.MonkeyPatch, looks_s: tuple[float, ...], at_s: float, planned: int
) -> None:
    now = _clock(monkeypatch, *looks_s)
    journal, _, tally, _ = _run([_one("cpu.limp", 5.0, at_s=at_s)], end_s=20.0, now=now)
    assert journal == []
    assert (tally.planned, tally.injected) == (planned, 0)


BOTH = Injection(
    0.0, 0.1, "interference",
    (Step("interference.iperf_server", "b", {"port": 5201}), Step("interference.iperf", "a")),
)  # fmt: skip


def test_steps_are_reverted_in_reverse_order() -> None:
    journal, _, _, _ = _run([BOTH], until="revert interference.iperf_server@b")
    assert [line.split(" {")[0] for line in journal] == [
        "inject interference.iperf_server@b", "inject interference.iperf@a",
        "revert interference.iperf@a", "revert interference.iperf_server@b",
    ]  # fmt: skip


def test_a_refused_second_step_undoes_the_first_and_is_an_error() -> None:
    _, events, tally, _ = _run(
        [BOTH], until="revert interference.iperf_server@b", refuses=("interference.iperf",)
    )
    assert (tally.planned, tally.injected, len(tally.errors)) == (1, 0, 1)
    assert "interference.iperf on a" in tally.errors[0]
    assert [event["action"] for event in events] == ["error", "revert"]


@pytest.mark.parametrize("action", ["inject", "revert"])
def test_whatever_an_action_raises_is_an_error_of_it_alone(action: str) -> None:
    def breaks(machines: dict[str, Machine], _: Journal) -> None:
        def broken(*_: object) -> None:
            machines["b"].active.clear()
            raise OSError("it broke")

        setattr(machines["b"], action, broken)

    injections = [Injection(0.0, 0.05, "fault", (Step("net.loss", "b"),)), _one("cpu.limp", 0.3)]
    journal, events, tally, _ = _run(injections, until="revert cpu.limp@a", prepare=breaks)
    assert "revert cpu.limp@a" in journal
    assert tally.errors == [f"net.loss on b: {action}: OSError: it broke"]
    assert tally.injected - tally.reverted == (action == "revert")
    assert [event["machine"] for event in events if event["action"] == "error"] == ["b"]


def test_whatever_a_renewal_raises_is_told_and_the_fault_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(faults, "_RENEW_EVERY_S", 0.01)

    def breaks(machines: dict[str, Machine], journal: Journal) -> None:
        def broken(*_: object) -> None:
            journal.stop.set()
            raise OSError("it broke")

        machines["a"].renew = broken  # type: ignore[method-assign, assignment]

    journal, events, tally, _ = _run([_one("cpu.limp", None)], prepare=breaks)
    assert journal[-1] == "revert cpu.limp@a"
    assert {event["action"] for event in events} == {"inject", "error", "revert"}
    assert tally.reverted == 1


def test_what_cannot_be_logged_is_undone_all_the_same_and_noted() -> None:
    def full(_: float, **event: Any) -> None:
        raise DiskFull("events.jsonl", expected="room", got=event["kind"], hint="Make room.")

    journal = Journal("inject cpu.limp@a")
    agents: Any = {"a": Machine("a", journal)}
    power: Any = Power(journal, {})
    tally = Tally()
    controller = FaultController(agents, power, full, tally, BlastRadius({}, None))
    controller.run([_one("cpu.limp", None)], time.monotonic(), math.inf, journal.stop)
    assert journal[-1] == "revert cpu.limp@a"
    assert (tally.injected, tally.reverted) == (1, 1)
    assert [text.split(": ")[1] for text in tally.errors] == ["inject", "revert"]


@pytest.mark.parametrize("reason", ["lease", "restart", "sigterm"])
def test_a_fault_that_the_agent_undid_by_itself_was_not_in_force_as_asked(reason: str) -> None:
    def undoes(machines: dict[str, Machine], _: Journal) -> None:
        machines["a"].reason = reason

    _, events, tally, _ = _run([_one("cpu.limp", 0.1)], until="revert cpu.limp@a", prepare=undoes)
    assert [event["action"] for event in events] == ["inject", "revert", "error"]
    assert (tally.injected, tally.reverted, len(tally.errors)) == (1, 1, 1)
    assert tally.errors[0].startswith("cpu.limp on a: inject: ")
    assert f"({reason})" in tally.errors[0]


def test_a_machine_that_was_crashed_on_purpose_forgets_its_other_faults() -> None:
    def undoes(machines: dict[str, Machine], _: Journal) -> None:
        machines["a"].reason = "restart"

    injections = [_one("machine.crash", None), _one("cpu.limp", None, at_s=0.05)]
    _, _, tally, _ = _run(injections, until="inject cpu.limp@a", prepare=undoes)
    assert (tally.reverted, tally.errors) == (2, [])


def test_a_stop_undoes_what_is_in_before_what_is_still_going_in() -> None:
    """Otherwise the slowest machine would hold up all others."""

    def slow(machines: dict[str, Machine], journal: Journal) -> None:
        undone = threading.Event()
        revert = machines["a"].revert

        def reverted(fault: str) -> dict[str, Any]:
            answer = revert(fault)
            undone.set()
            return answer

        def until_the_other_is_undone() -> None:
            journal.stop.set()
            assert undone.wait(60), "the undo waited for this injection"

        machines["a"].revert = reverted  # type: ignore[method-assign]
        machines["b"].before_inject = until_the_other_is_undone

    later = Injection(0.05, None, "fault", (Step("net.loss", "b"),))
    journal, events, tally, _ = _run([_one("cpu.limp", None), later], prepare=slow)
    assert [line.split(" {")[0] for line in journal] == [
        "inject cpu.limp@a", "revert cpu.limp@a", "inject net.loss@b", "revert net.loss@b",
    ]  # fmt: skip
    assert (tally.injected, tally.reverted) == (2, 2)
    ends_asked = {event["asked"] for event in events if event["action"] == "revert"}
    assert len(ends_asked) == 1, "both were to end when the block was stopped"


def test_a_revert_says_when_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = _clock(monkeypatch, *TICKS)
    until_end = Injection(0.0, None, "fault", (Step("net.loss", "b"),))
    _, events, _, _ = _run([_one("cpu.limp", 0.1), until_end], end_s=0.5, now=now)
    ends_asked = {event["kind"]: event["asked"] for event in events if event["action"] == "revert"}
    assert ends_asked == {"cpu.limp": pytest.approx(0.1), "net.loss": pytest.approx(0.5)}


def test_machine_faults_go_through_the_platform() -> None:
    journal, events, tally, machines = _run(
        [_one("machine.freeze", 0.1)], until="revert machine.freeze@a"
    )
    assert events[-1]["dose"]["unit"] == "s"
    assert journal == ["inject machine.freeze@a {}", "revert machine.freeze@a"]
    assert machines["a"].renewals == 0
    assert tally.reverted == 1


@pytest.mark.parametrize(
    ("kind", "by_agent", "said"),
    [
        ("machine.freeze", "process.hang", "approximated by process.hang"),
        ("cpu.limp", "cpu.limp", ""),
    ],
)
def test_what_goes_through_the_agent_is_held_by_a_lease_that_is_renewed(
    monkeypatch: pytest.MonkeyPatch, kind: str, by_agent: str, said: str
) -> None:
    monkeypatch.setattr(faults, "_RENEW_EVERY_S", 0.01)
    journal, events, tally, machines = _run(
        [_one(kind, None)],
        until=f"renew {by_agent}@a",
        through_agent={"machine.freeze": "process.hang"},
    )
    assert journal == [f"inject {by_agent}@a {{}}", f"revert {by_agent}@a"]
    assert machines["a"].renewals >= 1
    assert [event["kind"] for event in events] == [kind, kind]
    assert events[0]["text"] == said
    assert tally.reverted == 1


def test_a_fault_that_is_held_for_too_long_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "_LONGEST_S", 2.0)
    journal = Journal("revert cpu.limp@a")
    fleet = SimpleNamespace(agents={"a": Machine("a", journal)}, platform=Power(journal, {}))
    recorder = SimpleNamespace(event=lambda *_, **__: None)
    testbed: Any = SimpleNamespace(fleet=fleet, recorder=recorder, tally=Tally())
    with pytest.raises(MeasurementFailed), holding.active_fault(testbed, Step("cpu.limp", "a")):
        assert journal.stop.wait(60)
    assert journal[-1] == "revert cpu.limp@a"
