"""Runs that decide nothing: operations that cannot fill what a row locks up by, bases that drift;
severities come in an order of each repeat's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from experiments.design import load_design
from experiments.design.schedule import Block
from experiments.kinds.limplock.clients.process import Clients
from experiments.kinds.limplock.judge.dose import Dose, dose_of
from experiments.kinds.limplock.judge.probes import SCHEMA
from experiments.kinds.limplock.judge.rule import Limplock, Measured, Rule, judge
from experiments.kinds.limplock.judge.slowdown import Duration
from experiments.kinds.limplock.measure import repeat as module
from experiments.kinds.limplock.measure.blocks import Rows
from experiments.kinds.limplock.page.report import headline, scenario_table, summary_table
from experiments.kinds.limplock.row import rows
from experiments.kinds.limplock.scenarios import CLOSING, Scenario, scenarios_of, shuffle
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import WHITEBOX, Window, read_windows
from experiments.record.result import flat
from experiments.tests.limplock_fixture import SLOW_FOLLOWER, SLOW_LEADER, Made
from experiments.tests.limplock_small import A_LEADS, Faults, Three, repeat_of

NOTHING = pl.DataFrame(schema=WHITEBOX)
HEAP = pl.DataFrame([(5.0, "m", "heap_max_mb", 62.0)], WHITEBOX, orient="row")
FLEET = {"tiers": {"store": {"role": "hdfs", "memory_mb": 384}}}
EVERY = ("operation", "node", "cluster")


def window(length_s: float, label: str = "leader") -> Window:
    return Window("new", "Z5", "follower", "100", 0, "m", "m", {"m": label}, 0.0, length_s,
                  length_s, False, {}, False, 0)  # fmt: skip


def share(row: str, scale: float, nodes: int = 3, length_s: float = 6.0) -> tuple[float, float]:
    """The dose of a run of this scale as a share of the row's bound, and the least share needed."""
    known_row = rows()[row]
    assert known_row.mechanism is not None
    assert known_row.workload.count is not None
    dose = dose_of(known_row.mechanism, round(known_row.workload.count * scale),
                   known_row.workload.size_kb, [window(length_s)], nodes, FLEET, known_row.system,
                   HEAP)  # fmt: skip
    assert dose.share is not None
    return dose.share, dose.share_least


@pytest.mark.parametrize(
    ("row", "scale", "nodes", "enough"),
    [("Z5", 0.25, 2, False), ("H4", 0.012, 2, False), ("F2", 0.034, 3, False),
     ("F3", 0.034, 3, False), ("F8", 0.0222, 3, False), ("F11", 0.0222, 3, False),
     ("C1", 0.015, 2, False), ("Z5", 1.0, 2, True), ("H4", 1.0, 29, True), ("F2", 1.0, 3, True),
     ("F3", 1.0, 3, True), ("F8", 1.0, 28, True), ("F11", 1.0, 28, True)],
)  # fmt: skip
def test_what_was_published_is_less_than_a_rows_mechanism_holds_and_the_papers_size_is_not(
    row: str, scale: float, nodes: int, enough: bool
) -> None:
    reached, least = share(row, scale, nodes)
    assert (reached >= least) is enough


def test_a_window_longer_than_the_coordinators_patience_is_enough() -> None:
    assert share("C1", 0.015, length_s=12.0) == (1.2, 1.0)


def test_a_bound_that_no_machine_told_is_unknown() -> None:
    known_row = rows()["Z5"]
    assert known_row.mechanism is not None
    dose = dose_of(known_row.mechanism, 6000, 20.0, [window(60.0)], 2, FLEET, "zookeeper", NOTHING)
    assert (dose.bound, dose.share) == (None, None)


def judged(faulty: float, dose: Dose | None = None, closing: float | None = None) -> Limplock:
    base = [Duration(1.0), Duration(1.05), Duration(1.1)]
    return judge(
        Measured("n0", dict.fromkeys(range(3), 60.0), pl.DataFrame(schema=SCHEMA), base,
                 [Duration(faulty * duration.seconds) for duration in base],
                 closing=[(duration, Duration(closing * duration.seconds))
                          for duration in base if closing],
                 dose=dose),
        Rule(),
    )  # fmt: skip


def dose(amount: float, bound: float | None = 10.0, verdicts: Any = EVERY) -> Dose:
    return Dose("a queue", "MB", amount, bound, 1.0, verdicts)


@pytest.mark.parametrize(
    ("faulty", "one", "operation"),
    [(1.0, None, "no"), (1.0, dose(20.0), "no"), (1.0, dose(2.5), "under-dosed"),
     (1.0, dose(2.5, verdicts=("node",)), "no"), (1.0, dose(2.5, None), "insufficient"),
     (9.0, dose(2.5), "yes")],
)  # fmt: skip
def test_an_operation_that_ended_before_its_mechanism_could_act_decides_nothing(
    faulty: float, one: Dose | None, operation: str
) -> None:
    verdicts = judged(faulty, one)
    assert verdicts.operation.verdict == operation
    assert bool(verdicts.operation.reason) == (operation in ("under-dosed", "insufficient"))


def test_verdicts_of_nodes_and_cluster_are_under_dosed_by_themselves() -> None:
    verdicts = judged(1.0, dose(2.5, verdicts=("node", "cluster")))
    assert (verdicts.operation.verdict, verdicts.node, verdicts.cluster) == (
        "no", "under-dosed", "under-dosed",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("closing", "operation"),
    [(1.2, "yes"), (1.7, "insufficient"), (0.5, "insufficient"), (None, "yes")],
)
def test_a_base_that_drifted_to_its_repeat_s_end_leaves_the_row_undecided(
    closing: float | None, operation: str
) -> None:
    verdicts = judged(9.0, closing=closing)
    assert verdicts.operation.verdict == operation
    assert ("drifted" in verdicts.operation.reason) == (operation != "yes")
    if operation != "yes":
        assert (verdicts.node, verdicts.cluster) == ("insufficient", "insufficient")


# A run


Z5 = replace(SLOW_FOLLOWER, row="Z5")


def only(run: Made) -> dict[str, Any]:
    [row] = flat(run.result())["rows"]
    return dict(row)


def test_a_quarter_of_z5_is_under_dosed_in_result_page_and_letters_and_all_decides(
    tmp_path: Path,
) -> None:
    whole_row = only(Made(tmp_path, Z5, count=6000, heap_mb=62.0))
    assert [whole_row[name] for name in EVERY] == ["no"] * 3
    run = Made(tmp_path, Z5, count=1500, heap_mb=62.0)
    row = only(run)
    assert [row[name] for name in EVERY] == ["under-dosed"] * 3
    assert set(row["agrees"].values()) == {None}
    result = run.result()
    assert result["limplock"]["letters"] == {"Z5": "O< N< C<"}
    [scenario, *_] = flat(result)["scenarios"]
    assert scenario["dose"]["share"] == pytest.approx(30.0 / 62.0)
    assert "3 under-dosed" in headline(flat(result)).lower()
    assert "under-dosed" in [cell.text for cell in summary_table(flat(result)).rows[0]]
    assert "what fills the leader's heap" in scenario_table(flat(result)).rows[0][-1].text


def test_the_closing_base_is_in_the_files_and_a_drift_of_it_undoes_a_verdict(
    tmp_path: Path,
) -> None:
    run = Made(tmp_path / "steady", replace(SLOW_LEADER, closing=1.05))
    assert only(run)["operation"] == "yes"
    inputs, windows = read_windows(tmp_path / "steady")
    assert [closing_window.scenario for closing_window in inputs.closing] == [CLOSING] * 3
    assert CLOSING not in {row_window.scenario for row_window in windows}
    drifted_run = Made(tmp_path / "drifted", replace(SLOW_LEADER, closing=1.8))
    assert only(drifted_run)["operation"] == "insufficient"


def test_the_papers_slowdown_stands_below_ours(tmp_path: Path) -> None:
    result = flat(Made(tmp_path, SLOW_LEADER, Z5, heap_mb=62.0).result())
    table = summary_table(result)
    index = table.head.index("slowdown")
    notes = {row[0].text: row[index].about for row in table.rows}
    assert notes == {"Z3": "paper none named", "Z5": "paper 30.0 ×"}


# The order of severities


def test_each_repeat_has_an_order_of_its_own_that_the_seed_gives_again() -> None:
    scenarios = scenarios_of((10.0, 100.0, 1000.0), crash=True)
    orders = [shuffle(scenarios, 20261128, "Z5", "follower", "new", pair) for pair in range(12)]
    assert all(sorted(map(str, order)) == sorted(map(str, scenarios)) for order in orders)
    assert len(set(orders)) > 4
    assert orders[3] == shuffle(scenarios, 20261128, "Z5", "follower", "new", 3)
    assert orders != [shuffle(scenarios, 1, "Z5", "follower", "new", pair) for pair in range(12)]


def test_a_repeat_is_given_the_order_of_the_designs_seed() -> None:
    design = load_design("limplock-zookeeper")
    testbed = SimpleNamespace(design=design, keep=lambda _: None)
    section = LimplockSection(rows=("Z3",))
    order = Rows(cast(Any, testbed), section)._draw_scenarios(
        Block(0, 2, "new", 0), section.chosen_rows()[0], "x"
    )
    seed = design.experiment.design.seed
    assert order == shuffle(section.scenarios, seed, "Z3", "x", "new", 2)


@pytest.mark.parametrize("closes", [True, False])
def test_the_base_is_measured_again_when_all_scenarios_are_over(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, closes: bool
) -> None:
    monkeypatch.setattr(module, "active_fault", Faults().held)
    monkeypatch.setattr(module, "_PROBES_BEFORE_S", 0.1)
    repeat = repeat_of(
        Three([A_LEADS]), clients, scenarios=[Scenario(10.0)], window_s_min=0.1, closes=closes
    )
    repeat.measure()
    assert [row_window.scenario for row_window in repeat.windows] == ["base", "10"]
    assert [row_window.scenario for row_window in repeat.closing] == [CLOSING] * closes
    assert all(row_window.start_s > repeat.windows[-1].end_s for row_window in repeat.closing)
