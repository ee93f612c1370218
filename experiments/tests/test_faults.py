"""The fault controller: everything that goes in comes out, in order, whatever fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from experiments.errors import EnvironmentMissing
from experiments.stage.faults import FaultController, FaultEvent, Injection, Step, Tally


class Machine:
    """An agent in memory: keeps what it was told, refuses the kinds in `refuses`."""

    def __init__(self, name: str, journal: list[str], refuses: tuple[str, ...] = ()) -> None:
        self.name = name
        self.journal = journal
        self.refuses = refuses
        self.active: set[str] = set()
        self.renewals = 0

    def inject(self, kind: str, parameters: Mapping[str, Any], lease_s: float) -> str:
        assert 0 < lease_s <= 600
        if kind in self.refuses:
            raise EnvironmentMissing(self.name, expected="success", came="501", do="Nothing.")
        fault = f"{kind}@{self.name}"
        assert fault not in self.active, "injected twice"
        self.active.add(fault)
        self.journal.append(f"inject {fault} {dict(parameters)}")
        return fault

    def renew(self, fault: str, lease_s: float) -> None:
        assert fault in self.active, "renewed what is not there"
        assert lease_s > 0
        self.renewals += 1

    def revert(self, fault: str) -> dict[str, Any]:
        self.active.discard(fault)
        self.journal.append(f"revert {fault}")
        return {"revert_reason": "requested"}


class Power:
    """The platform's hand on its machines, in memory."""

    def __init__(self, journal: list[str], through_agent: Mapping[str, str]) -> None:
        self.journal = journal
        self.through_agent = through_agent

    def inject(self, kind: str, machine: str) -> None:
        self.journal.append(f"inject {kind}@{machine} {{}}")

    def revert(self, kind: str, machine: str) -> None:
        self.journal.append(f"revert {kind}@{machine}")


def _run(
    injections: list[Injection],
    *,
    end_s: float,
    refuses: tuple[str, ...] = (),
    stop_after_s: float | None = None,
    through_agent: Mapping[str, str] | None = None,
) -> tuple[list[str], list[FaultEvent], Tally, dict[str, Machine]]:
    journal: list[str] = []
    events: list[FaultEvent] = []
    machines = {name: Machine(name, journal, refuses) for name in ("a", "b")}
    tally = Tally()
    stop = threading.Event()
    if stop_after_s is not None:
        threading.Timer(stop_after_s, stop.set).start()
    controller = FaultController(
        machines, Power(journal, through_agent or {}), events.append, tally
    )
    controller.run(injections, time.monotonic(), end_s, stop)
    return journal, events, tally, machines


def _one(kind: str, at_s: float, duration_s: float | None, machine: str = "a") -> Injection:
    return Injection(at_s, duration_s, "fault", (Step(kind, machine),))


def test_a_fault_goes_in_and_comes_out_within_the_block() -> None:
    journal, events, tally, _ = _run([_one("cpu.limp", 0.0, 0.1)], end_s=0.4)
    assert journal == ["inject cpu.limp@a {}", "revert cpu.limp@a"]
    assert [event.action for event in events] == ["inject", "revert"]
    assert (tally.planned, tally.injected, tally.reverted) == (1, 1, 1)


def test_a_sticky_fault_ends_with_the_block() -> None:
    _, events, tally, machines = _run([_one("process.hang", 0.0, None)], end_s=0.3)
    assert tally.reverted == 1
    assert not machines["a"].active
    assert events[-1].action == "revert"


def test_a_stop_in_the_middle_reverts_what_is_active_and_starts_nothing_more() -> None:
    later = _one("net.loss", 30.0, 10.0)
    journal, _, tally, machines = _run(
        [_one("net.limp", 0.0, 50.0), later], end_s=60.0, stop_after_s=0.3
    )
    assert journal == ["inject net.limp@a {}", "revert net.limp@a"]
    assert (tally.injected, tally.reverted) == (1, 1)
    assert not machines["a"].active


def test_steps_are_reverted_in_reverse_order() -> None:
    server = Step("interference.iperf_server", "b", {"port": 5201})
    client = Step("interference.iperf", "a", {"port": 5201})
    journal, _, _, _ = _run([Injection(0.0, 0.1, "interference", (server, client))], end_s=0.3)
    assert [line.split(" {")[0] for line in journal] == [
        "inject interference.iperf_server@b",
        "inject interference.iperf@a",
        "revert interference.iperf@a",
        "revert interference.iperf_server@b",
    ]


def test_a_refused_second_step_undoes_the_first_and_is_an_error() -> None:
    server = Step("interference.iperf_server", "b")
    client = Step("interference.iperf", "a")
    _, events, tally, machines = _run(
        [Injection(0.0, 0.1, "interference", (server, client))],
        end_s=0.3,
        refuses=("interference.iperf",),
    )
    assert (tally.planned, tally.injected, len(tally.errors)) == (1, 0, 1)
    assert "interference.iperf on a" in tally.errors[0]
    assert not machines["b"].active
    assert [event.action for event in events] == ["error", "revert"]


def test_machine_faults_go_through_the_platform() -> None:
    journal, _, tally, machines = _run([_one("machine.freeze", 0.0, 0.1)], end_s=0.3)
    assert journal == ["inject machine.freeze@a {}", "revert machine.freeze@a"]
    assert machines["a"].renewals == 0
    assert tally.reverted == 1


def test_a_machine_fault_that_the_platform_cannot_inject_goes_through_the_agent() -> None:
    frozen = _one("machine.freeze", 0.0, None)
    journal, events, tally, machines = _run(
        [frozen], end_s=0.3, through_agent={"machine.freeze": "process.hang"}
    )
    assert journal == ["inject process.hang@a {}", "revert process.hang@a"]
    assert machines["a"].renewals >= 1, "held by a lease, as any fault of an agent"
    assert [event.kind for event in events] == ["machine.freeze", "machine.freeze"]
    assert events[0].text == "approximated by process.hang"
    assert tally.reverted == 1


def test_leases_are_renewed_while_a_fault_is_active() -> None:
    _, _, _, machines = _run(
        [_one("cpu.limp", 0.0, None), _one("cpu.limp", 4.2, 0.2, machine="b")], end_s=4.6
    )
    assert machines["a"].renewals >= 1


def test_what_lies_beyond_the_end_is_not_planned() -> None:
    journal, _, tally, _ = _run([_one("cpu.limp", 5.0, 1.0)], end_s=0.2)
    assert journal == []
    assert tally.planned == 0
