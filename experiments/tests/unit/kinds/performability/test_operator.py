"""An operator restarts what does not recover; and the report's findings beside a run's."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import SparecraftError
from core.runfiles.result import Result
from experiments.design import Design, load_design
from experiments.design.contracts import LEASE_S_MAX
from experiments.design.schedule import Block
from experiments.kinds import kind_of, section_of
from experiments.kinds.performability.compared import pseudomedian
from experiments.kinds.performability.operator import Attendant
from experiments.kinds.performability.paper import fewer_demerits
from experiments.kinds.performability.section import tiers_of
from experiments.load.plan import LoadPlan, plan_block
from experiments.record.manifest import Verdicts
from experiments.record.records import RequestRecord
from experiments.tests.fake_fleet import fake_fleet, machine
from experiments.tests.performability_fixture import LOST_EVERY, RESET_S, under, write_run
from optimizer.reproduce.published import published

NAME = "press-faults"
CRASH, HANG = "process.crash on web-3", "process.hang on web-3"
BLOCK = Block(1, 1, "perf", 7)


@pytest.fixture(scope="module")
def design() -> Design:
    return load_design(NAME)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def result(folder: Path) -> Result:
    return write_run(folder, NAME)


@dataclass
class _Agent:
    """A service that recovers once it is started anew, which needs all others to be stopped."""

    refuses: bool = False
    stopped: threading.Event = field(default_factory=threading.Event)
    restarted: threading.Event = field(default_factory=threading.Event)
    others: list[_Agent] = field(default_factory=list)

    def stop_service(self, lease_s: float) -> None:
        assert 0.0 < lease_s < LEASE_S_MAX
        self.stopped.set()
        if self.refuses:
            raise SparecraftError("web-1", expected="an answer", got="none")

    def start_service(self) -> None:
        assert self.stopped.is_set()
        assert all(other_agent.stopped.is_set() for other_agent in self.others)
        self.restarted.set()

    def health(self) -> dict[str, Any]:
        return {"ready": self.restarted.is_set(), "service": "running"}


@dataclass
class _Scene:
    """A block of the design, its agents, and what was noted of the operator."""

    design: Design
    agents: dict[str, _Agent]
    notes: list[dict[str, Any]] = field(default_factory=list)
    verdicts: Verdicts = field(default_factory=Verdicts)

    def attendant(self) -> tuple[Attendant, LoadPlan]:
        machines = [machine(name, "web", "press") for name in self.agents]
        recorder = SimpleNamespace(event=lambda _, **line: self.notes.append(line))
        testbed: Any = SimpleNamespace(
            design=self.design, fleet=fake_fleet(self.agents, {}, machines), recorder=recorder,
            verdicts=self.verdicts,
        )  # fmt: skip
        section = section_of(kind_of(self.design), self.design)
        experiment = self.design.experiment
        one_fault = experiment.model_copy(update={"faults": experiment.faults[1:2]})
        workload = self.design.workloads[experiment.load.user]
        plan = plan_block({"web": ["http://127.0.0.1:1/"]}, one_fault, BLOCK, workload)
        return Attendant(testbed, section, one_fault.faults[0], BLOCK), plan


def _answers(plan: LoadPlan, lost_s: tuple[float, float]) -> tuple[RequestRecord, ...]:
    """Good answers of 20 ms, but every fourth one from `lost[0]` to `lost[1]` is late by 3 s."""
    return tuple(
        {"phase": "fault", "index": index, "name": "p", "intended_s": at_s, "sent_s": at_s,
         "done_s": at_s, "lag_ms": 0.1, "status": 200, "bytes": 1, "outcome": "ok",
         "latency_ms": 3000.0 if lost_s[0] <= at_s < lost_s[1] and index % 4 == 0 else 20.0}
        for index, at_s in enumerate(plan.offsets_s)
    )  # fmt: skip


def _watched(scene: _Scene, lost: tuple[float, float]) -> None:
    """Lets the attendant watch the whole block, a second at a time."""
    attendant, plan = scene.attendant()
    records = _answers(plan, lost)
    for now_s in range(int(plan.length_s)):
        new_records = [record for record in records if now_s - 1 <= record["intended_s"] < now_s]
        attendant(plan, float(now_s), new_records)
    attendant.close()


def test_all_are_restarted_where_users_are_still_failed(design: Design) -> None:
    scene = _Scene(design, {f"web-{number}": _Agent() for number in range(1, 5)})
    for agent in scene.agents.values():
        agent.others = list(scene.agents.values())
    _watched(scene, lost=(12.0, 33.0))
    assert all(agent.restarted.is_set() for agent in scene.agents.values())
    assert [(note["what"], note["action"]) for note in scene.notes] == [
        ("operator", "start"),
        ("operator", "end"),
    ]
    assert scene.notes[0]["id"] == scene.notes[1]["id"] != ""
    assert scene.verdicts.measurement.reasons == []


def test_of_a_switch_all_tiers_are_restarted_and_of_a_machine_its_own() -> None:
    selection = {"machine": None, "tier": None, "all": None}
    assert tiers_of({**selection, "all": True}, ["web", "db"]) == ["web", "db"]
    assert tiers_of({**selection, "machine": "web-3"}, ["web", "db"]) == ["web"]
    assert tiers_of({**selection, "tier": "db"}, ["web", "db"]) == ["db"]


@pytest.mark.parametrize("lost", [(12.0, 22.0), (0.0, 33.0)], ids=["recovered", "as before"])
def test_nobody_is_restarted_where_users_get_what_they_got_before(
    design: Design, lost: tuple[float, float]
) -> None:
    scene = _Scene(design, {"web-1": _Agent()})
    _watched(scene, lost)
    assert not scene.agents["web-1"].restarted.is_set()
    assert scene.notes == []


def test_a_restart_that_fails_spoils_the_measurement_and_ends_its_phase(design: Design) -> None:
    scene = _Scene(design, {"web-1": _Agent(refuses=True), "web-2": _Agent()})
    _watched(scene, lost=(12.0, 33.0))
    assert scene.agents["web-2"].restarted.is_set(), "what was stopped is started again"
    [reason] = scene.verdicts.measurement.reasons
    assert reason.startswith("block 2, operator: web-1")
    assert [note["action"] for note in scene.notes] == ["start", "end"]


def test_a_reset_is_a_phase_of_its_own_and_ends_the_failure(design: Design, result: Result) -> None:
    operator = section_of(kind_of(design), design).operator
    restarted, recovered = (under(result, CRASH, arm) for arm in ("perf", "ha"))
    assert (restarted["reset"], recovered["reset"], under(result, HANG, "perf")["reset"]) == (
        3,
        0,
        0,
    )
    assert restarted["reset_s"]["median"] == pytest.approx(8.0 + operator.wait_s)
    assert list(restarted["phases"]) == ["before", "fault", "recovery", "reset", "after"]
    assert restarted["phases"]["reset"]["goodput"] == 0.0
    assert restarted["phases"]["reset"]["duration_s"] == pytest.approx(3 * RESET_S, abs=0.1)
    assert restarted["phases"]["recovery"]["goodput"] == pytest.approx(1 - 1 / LOST_EVERY, abs=0.05)
    lasted_s = 8.0 + operator.wait_s + RESET_S
    assert restarted["failure_s"]["median"] == pytest.approx(lasted_s, abs=1.0)
    assert "reset" not in recovered["phases"]


def test_in_the_year_an_operator_comes_when_the_design_says(design: Design, result: Result) -> None:
    section = section_of(kind_of(design), design)
    year = result["performability"]["year"]["arms"]["perf"]
    rate = section.rates["process.crash"]
    seconds = (rate.repair_s + section.operator.year_wait_s) / LOST_EVERY + RESET_S
    lost_share = 4 * rate.per_year * seconds / (365 * 86400)
    assert year["lost_by_fault"][CRASH] == pytest.approx(lost_share, rel=0.1)


def test_the_reports_table_2_and_what_it_says_stand_beside_the_run(
    folder: Path, result: Result
) -> None:
    paper = result["performability"]["paper"]
    assert paper["table_2"][CRASH] == {"fault_s": 90, "failure_s": {"perf": 105, "ha": 90}}
    claims = {claim["subject"]: claim for claim in paper["claims"]}
    assert claims[f"{CRASH}: all are restarted to recover"]["matches"]
    assert not claims["net.link_down on web-3: all are restarted to recover"]["matches"]
    assert claims[f"{CRASH}, perf: requests answered well while it lasts"]["ours"].startswith("75")
    page = (folder / "report.html").read_text()
    assert "report 105 s" in page
    assert "report +15 s" in page


def test_over_all_faults_the_arms_are_compared_by_ranks(result: Result) -> None:
    comparisons = result["performability"]["over_all"]["ha"]
    assert {comparison["pairs"] for comparison in comparisons.values()} == {15}
    demerits = comparisons["demerits"]
    assert demerits["low"] <= demerits["median"] <= demerits["high"] < 0.0
    assert demerits["p"] < 0.05


def test_the_pseudomedian_has_the_interval_that_the_signed_rank_test_leaves() -> None:
    # all 64 signs are equally likely, and only one on each side is as far out
    interval = pseudomedian([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert interval == {"median": 3.5, "low": 1.0, "high": 6.0, "p": 2 / 64, "pairs": 6}
    assert pseudomedian([0.0] * 8)["p"] == 1.0
    assert pseudomedian([1.0] * 5)["low"] is None


@pytest.mark.parametrize(("demerits", "agrees"), [((5, 9), False), ((9, 5), True)])
def test_of_one_fault_the_better_version_must_be_better(
    demerits: tuple[int, int], agrees: bool
) -> None:
    paper = published("performability")
    versions = dict(zip(("perf", "ha"), paper["versions"], strict=True))
    arms = {
        arm: {"cost": {"demerits": {"median": count}}}
        for arm, count in zip(versions, demerits, strict=True)
    }
    (claim,) = fewer_demerits(paper, versions, [{"name": "process.hang", "arms": arms}])
    assert claim.matches is agrees
