"""A run that ends once it has decided: which blocks count, what is kept and what is shown."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from core.errors import InputError
from experiments import kinds
from experiments.console import Narrator
from experiments.design import load_design
from experiments.design.experiment import Order
from experiments.design.schedule import Block
from experiments.kinds.compare import measure as measuring
from experiments.kinds.compare.decided import decided_values, end_words
from experiments.kinds.compare.looks import Looks
from experiments.record.recorder import Clock
from experiments.testbed.host import HostBlock
from experiments.tests.frames import requests
from experiments.tests.report_fixture import fake_run

ABBA = {"order": "ABBA", "seed": 1}
SPEC = {"design": {"decide": "p95"}, "interference": {"mean_run_s": 5.0}, "slo": None,
        "arms": {"baseline": {}, "replicated": {}}}  # fmt: skip


def order(**keys: Any) -> Order:
    return Order.model_validate({**ABBA, "repeats": 4, "decide": "p95", **keys})


def records(block: Block, factor: float) -> pl.DataFrame:
    """A block's requests; the second arm is `factor` times as fast, and pairs differ a little."""
    rng = np.random.default_rng(block.pair)
    speed = 1.0 if block.arm == "baseline" else factor
    latency_ms = 100.0 * np.exp(rng.normal(0.0, 0.3, 100)) / speed
    rows = ({"arm": block.arm, "repeat": block.repeat, "pair": block.pair, "index": index,
             "intended_s": 50.0 * block.repeat + index / 5.0, "latency_ms": float(latency)}
            for index, latency in enumerate(latency_ms))  # fmt: skip
    return requests(rows)


@dataclass
class Runner:
    """Runs no block: makes up its records."""

    factor: float
    spoils: set[int] = field(default_factory=set)
    ran: list[Block] = field(default_factory=list)
    handles: list[Any] = field(default_factory=list)
    host: list[HostBlock] = field(default_factory=list)

    def settle(self, _: Narrator) -> None:
        pass

    def run(self, block: Block, *_: Any) -> None:
        stolen = 0.5 if len(self.ran) in self.spoils else 0.0
        self.host.append(HostBlock(block.repeat, block.arm, 0.5, stolen, 20.0, 60))
        frame = records(block, 100.0 if stolen else self.factor)
        self.handles.append(type("Handle", (), {"records": staticmethod(lambda: frame)}))
        self.ran.append(block)

    def set_aside(self, *_: Any) -> None:
        self.handles.pop()


@dataclass
class Stage:
    """The parts of a testbed that a measurement needs."""

    design: Any
    quiet_wait_s: float = 0.0
    narrator: Narrator = field(default_factory=lambda: Narrator(Console(file=io.StringIO())))
    marks: list[str] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    folder: Path = Path()
    clock: Clock = field(default_factory=lambda: Clock(0.0, None))  # type: ignore[arg-type]

    @property
    def recorder(self) -> Any:
        return self

    def look(self, at_s: float, title: str, text: str) -> None:
        del at_s, text
        self.marks.append(title)

    def keep(self, write: Any) -> None:
        self.kept.append(write)


def run(
    monkeypatch: pytest.MonkeyPatch, runner: Runner, quiet_wait_s: float = 0.0, **keys: Any
) -> tuple[dict[str, Any] | None, Stage]:
    """The manifest of a run of mediawiki-noisy's two arms with this `[design]`."""
    design = load_design("mediawiki-noisy")
    arms = dict(list(design.experiment.arms.items())[:2])
    renamed_arms = dict(zip(("baseline", "replicated"), arms.values(), strict=True))
    experiment = design.experiment.model_copy(
        update={
            "arms": renamed_arms,
            "load": design.experiment.load.at(4.0),
            "slo": design.experiment.slo.model_copy(update={"preregistered": False}),
            "design": Order.model_validate({**ABBA, "repeats": 4, **keys}),
        }
    )
    testbed = Stage(replace(design, experiment=experiment, prediction=None), quiet_wait_s)
    monkeypatch.setattr(measuring, "blocks_on", lambda _: runner)
    measuring.measure(testbed)  # type: ignore[arg-type]
    manifests = [write(Path()) for write in testbed.kept]
    return (manifests[0]["decided"] if manifests else None), testbed


def test_blocks_go_on_until_the_figure_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(3.0)
    decided, testbed = run(monkeypatch, runner, decide="p95")
    assert decided is not None
    assert len(runner.ran) == 8, "two repeats of ABBA"
    assert testbed.marks == ["look 1 of 3"]
    assert (decided["ended_by"], decided["decided_by"], decided["missing"]) == (
        "figure",
        "figure",
        [],
    )
    [look] = decided["looks"]
    assert (look["repeats"], look["blocks"]) == (2, 8)
    assert 0.0 < look["level"] < look["slo_level"] < 0.1
    assert look["comparisons"]["replicated"]["decided"] == "faster"


def test_without_decide_all_repeats_are_measured_and_nothing_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = Runner(3.0)
    decided, testbed = run(monkeypatch, runner)
    assert (decided, testbed.marks, len(runner.ran)) == (None, [], 16)


def test_blocks_that_were_set_aside_do_not_count_for_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet_runner, spoilt_runner = Runner(3.0), Runner(3.0, spoils={1, 3})
    quiet_decided, _ = run(monkeypatch, quiet_runner, 1.0, decide="p95")
    spoilt_decided, _ = run(monkeypatch, spoilt_runner, 1.0, decide="p95")
    assert quiet_decided is not None
    assert spoilt_decided is not None
    assert len(spoilt_runner.ran) == len(quiet_runner.ran) + 2
    assert spoilt_decided["looks"][0]["blocks"] == quiet_decided["looks"][0]["blocks"] == 8
    assert spoilt_decided["looks"][0]["comparisons"] == quiet_decided["looks"][0]["comparisons"]


@pytest.mark.parametrize(
    ("budget_s", "repeats", "spent_s", "due", "over"),
    [(None, 1, 999.0, False, ""), (None, 2, 999.0, True, ""), (None, 3, 999.0, True, ""),
     (None, 4, 1.0, True, "repeats"), (400.0, 1, 150.0, False, ""),
     (400.0, 1, 250.0, True, "budget"), (400.0, 3, 250.0, True, ""),
     (400.0, 3, 330.0, True, "budget")],
)  # fmt: skip
def test_a_look_is_due_when_planned_and_where_another_repeat_would_not_fit(
    budget_s: float | None, repeats: int, spent_s: float, due: bool, over: str
) -> None:
    looks = Looks(order(**({"budget_s": budget_s} if budget_s else {})), since=10.0)
    assert looks.due(repeats, 10.0 + spent_s) is due
    assert looks.end_reason == over


def test_an_end_by_time_spends_the_error_that_is_left_and_says_what_is_missing() -> None:
    looks = Looks(order(budget_s=100.0), since=0.0)
    blocks = [
        Block(index, index // 2, ("baseline", "replicated")[index % 2], 1) for index in range(8)
    ]
    frame = pl.concat([
        records(block, 1.0 + 2.0 * (block.pair % 2)) for block in blocks
    ])  # fmt: skip
    assert looks.due(2, 90.0)
    looks.add(2, frame, {"seed": 1, "spec": SPEC}, 90.0)
    decided: Any = looks.to_json()
    assert (decided["ended_by"], decided["decided_by"]) == ("budget", None)
    assert decided["missing"] == ["replicated"]
    assert decided["looks"][0]["level"] == pytest.approx(0.05)
    assert "replicated" in end_words(decided)


def test_the_page_has_a_row_for_each_look() -> None:
    comparison = {"factor": 2.0, "ci_low": 0.9, "ci_high": 4.4, "decided": "undecided"}
    faster = {**comparison, "ci_low": 1.2, "decided": "faster"}
    looks = [
        {"look": index + 1, "repeats": index + 2, "blocks": 8 + 4 * index, "at_s": 1.0,
         "level": 0.03, "slo_level": 0.06, "comparisons": {"b": figures},
         "slo": {"a": "missed", "b": "met"}, "decided_by": None}
        for index, figures in enumerate((comparison, faster))
    ]  # fmt: skip
    decided = {"figure": "p95", "planned": [2, 3, 4], "budget_s": None, "ended_by": "figure",
               "decided_by": "figure", "missing": [], "looks": looks}  # fmt: skip
    values: Any = decided_values({"decided": decided})
    assert values is not None
    assert len(values["table"].rows) == 2
    assert [row[3].mood for row in values["table"].rows] == ["unknown", "good"]
    assert decided_values({}) is None
    none_yet = decided_values({"decided": {**decided, "looks": [], "ended_by": ""}})
    assert none_yet is not None
    assert none_yet["table"] is None


def test_the_report_has_the_interval_of_the_last_look() -> None:
    fake = fake_run(measure_s=30.0)
    plain_summary = fake.summary()
    manifest = {**fake.manifest, "decided": {"looks": [{"level": 0.01, "slo_level": 0.02}]}}
    looked_summary = fake.summary(manifest=manifest)
    plain_p95, looked_p95 = (
        summary["improvement"]["p95"] for summary in (plain_summary, looked_summary)
    )
    assert looked_p95["factor"] == plain_p95["factor"]
    assert looked_p95["ci_low"] < plain_p95["ci_low"] < plain_p95["ci_high"] < looked_p95["ci_high"]
    shares = [
        summary["slo"]["arms"]["baseline"]["shares"]["p95_ms"]
        for summary in (plain_summary, looked_summary)
    ]
    assert shares[1]["low"] < shares[0]["low"]


@pytest.mark.parametrize(
    "keys",
    [{"decide": None, "looks": 2}, {"decide": None, "budget_s": 9.0}, {"min_repeats": 5},
     {"decide": "p90"}],
    ids=["looks alone", "budget alone", "more than repeats", "a figure that nobody compares"],
)  # fmt: skip
def test_a_design_that_cannot_decide_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"looks|budget_s|min_repeats|decide"):
        order(**keys)


def test_a_kind_that_measures_all_repeats_refuses_decide() -> None:
    design = load_design("apache-capacity")
    order_section = design.experiment.design.model_copy(update={"decide": "p95"})
    deciding = replace(
        design, experiment=design.experiment.model_copy(update={"design": order_section})
    )
    with pytest.raises(InputError, match="decide"):
        kinds.section_of(kinds.kind_of(deciding), deciding)
