"""Limplock's page: who is drawn, which resource ran out, nodes in limplock over time."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.kinds.limplock.clients.system import PageMetric
from experiments.kinds.limplock.judge.resources import Machine, resources
from experiments.kinds.limplock.page.cascade import cascade_figures, steps
from experiments.kinds.limplock.page.figures import course_figures
from experiments.kinds.limplock.page.report import resource_table, write_page
from experiments.kinds.limplock.windows import (
    ASKED,
    PROBE,
    ROW,
    WHITEBOX,
    WHITEBOX_FILE,
    RunInputs,
    Window,
    read_windows,
    write_windows,
)
from experiments.record.records import write_table
from experiments.record.result import flat
from experiments.report.figures import Figure
from experiments.tests.limplock_fixture import MACHINES, SLOW_FOLLOWER, SLOW_LEADER, Made

SIX = {f"node-{k}": part for k, part in enumerate(
    ("master", "secondary", "datanode-2", "datanode-3", "datanode-4", "datanode-1"), start=1)
}  # fmt: skip
BASE_S, FAULT_S = 10.0, 30.0
QUEUE = PageMetric("queue", "calls that wait")
HEAP = PageMetric("heap", "heap, MB", limit="heap_max")
Story = dict[str, tuple[float, float]]
"""Of a metric: what it is without the fault, and what it has come to at the fault's end."""


def windows(labels: dict[str, str] = SIX, repeats: int = 3, *scenarios: str) -> list[Window]:
    """The last machine limps, the first is asked; base and scenario follow each other."""
    found, at_s, machines = [], 0.0, [*labels]
    for repeat in range(repeats):
        for scenario in ("base", *(scenarios or ("100",))):
            length_s = BASE_S if scenario == "base" else FAULT_S
            found.append(
                Window("new", "F1", "datanode", scenario, repeat, machines[-1], machines[0],
                       labels, at_s, at_s + length_s, length_s, False, {}, False, 0)
            )  # fmt: skip
            at_s += length_s + 5.0
    return found


def whitebox(some: list[Window], told: dict[str, Story]) -> pl.DataFrame:
    """Each second of all windows; under the fault a metric goes straight to what it comes to."""
    rows = []
    for window in some:
        for second in range(int(window.length_s)):
            share = 0.0 if window.scenario == "base" else min(1.0, second / 15.0)
            for machine, story in told.items():
                for metric, (calm, end) in story.items():
                    value = calm + share * (end - calm)
                    rows.append((window.start_s + second, machine, metric, value))
    return pl.DataFrame(rows, WHITEBOX, orient="row")


def left(*shown: PageMetric) -> RunInputs:
    return RunInputs(0.1, {"F1": 10}, {"F1": 5.0}, [asdict(one) for one in shown], [])


def asked(some: list[Window], machines: list[str]) -> pl.DataFrame:
    rows = [(ROW, machines[0], "write", w.start_s + k, w.start_s + k + 0.5, "ok")
            for w in some for k in range(int(w.length_s) - 1)]  # fmt: skip
    rows += [(PROBE, machine, "read", w.start_s + k, w.start_s + k + 0.1, "ok")
             for w in some for machine in machines for k in range(int(w.length_s) - 1)]  # fmt: skip
    return pl.DataFrame(rows, ASKED, orient="row")


def course(told: dict[str, Story], *shown: PageMetric, probed: list[str] | None = None,
           labels: dict[str, str] = SIX) -> Figure:  # fmt: skip
    some = windows(labels)
    did = asked(some, probed if probed is not None else [*labels])
    [figure] = course_figures(left(*shown), some, did, whitebox(some, told))
    return figure


def looks(figure: Figure) -> dict[str, tuple[str, str]]:
    return {key.text.split()[0]: (key.colour, key.kind) for key in figure.legend}


# Over time


def test_each_of_six_machines_is_drawn_in_a_look_of_its_own_the_limping_one_first() -> None:
    figure = course({name: {"queue": (1.0, 9.0)} for name in SIX}, QUEUE)
    found = looks(figure)
    assert [*found][:2] == ["node-6", "node-1"]
    assert set(found) == set(SIX)
    assert len(set(found.values())) == len(SIX)
    assert "limps" in figure.legend[0].text
    for drawing in figure.drawings.values():
        assert "stroke-dasharray" in drawing


def test_more_machines_than_looks_are_named() -> None:
    many = {f"node-{k:02}": f"datanode-{k}" for k in range(1, 16)}
    figure = course({}, labels=many)
    assert len(figure.legend) == 12
    assert "Not drawn: node-" in figure.caption


def test_a_metric_that_came_to_its_limit_is_drawn_before_others_with_the_limit() -> None:
    metrics = [PageMetric(f"m{k}", f"metric {k}") for k in range(4)]
    story = {f"m{k}": (1.0, 2.0) for k in range(4)} | {
        "heap": (10.0, 64.0),
        "heap_max": (64.0,) * 2,
    }
    drawing = course({"node-6": story}, *metrics, HEAP).drawings["wide"]
    assert "heap, MB; dashed: its limit" in drawing
    assert "metric 2" not in drawing
    far = course({"node-6": {"heap": (1.0, 2.0), "heap_max": (64.0,) * 2}}, HEAP)
    assert "heap, MB; limit beyond: 64.0" in far.drawings["wide"]


# Which resource ran out


def came_to(*shown: PageMetric, **told: Story) -> list[Machine]:
    some = windows(SIX, 3, "100")
    named = {name.replace("_", "-"): story for name, story in told.items()}
    return resources(left(*shown), some, whitebox(some, named), 1 / 3)


def test_a_heap_that_is_full_is_told_with_when_and_where() -> None:
    full: Story = {"heap": (20.0, 64.0), "heap_max": (64.0, 64.0), "queue": (0.0, 900.0)}
    calm: Story = {"heap": (20.0, 22.0), "heap_max": (64.0, 64.0), "queue": (2.0, 50.0)}
    by_label = {one.label: one for one in came_to(QUEUE, HEAP, node_1=calm, node_6=full)}
    assert by_label["datanode-1"].names == ("node-6",)
    assert by_label["datanode-1"].ran_out
    [heap] = by_label["datanode-1"].full
    assert (heap.title, heap.scenario, heap.limit) == ("heap, MB", "100", 64.0)
    assert heap.reached_s == (14.0, 14.0, 14.0)  # 20 + 44 * 14 / 15 is above 60.8
    assert not by_label["master"].ran_out
    grown = by_label["master"].grown
    assert grown is not None
    assert (grown.title, grown.base, grown.level) == ("calls that wait", 2.0, 50.0)


def test_what_is_full_without_the_fault_too_has_not_run_out() -> None:
    [one] = came_to(HEAP, node_6={"heap": (63.0, 64.0), "heap_max": (64.0, 64.0)})
    assert one.full[0].reached_in_base
    assert not one.ran_out


def test_a_limit_may_be_a_number_and_a_jvm_without_one_says_less_than_nought() -> None:
    handlers = PageMetric("handlers", "handlers", limit=10.0)
    [one] = came_to(handlers, node_6={"handlers": (1.0, 10.0)})
    assert one.full[0].limit == 10.0
    [one] = came_to(HEAP, node_6={"heap": (1.0, 64.0), "heap_max": (-1.0, -1.0)})
    assert (one.full, one.knows_limits) == ((), False)
    assert one.grown is not None


def test_a_run_of_before_limits_were_stated_tells_what_grew() -> None:
    some = windows()
    told = whitebox(some, {"node-6": {"queue": (1.0, 9.0)}})
    older = replace(left(), shown=[{"metric": "queue", "title": "calls", "unit": 1.0}])
    [one] = resources(older, some, told, 1 / 3)
    assert one.grown is not None
    assert one.grown.level == 9.0


def test_what_stays_far_below_its_limit_is_not_what_grew_most() -> None:
    heap: Story = {"heap": (23.6, 34.3), "heap_max": (128.0, 128.0)}
    [one] = came_to(HEAP, node_6=heap)
    assert (one.full, one.grown, one.knows_limits) == ((), None, True)
    [one] = came_to(QUEUE, HEAP, node_6=heap | {"queue": (9.0, 10.5)})
    assert one.grown is not None
    assert one.grown.title == QUEUE.title
    [one] = came_to(HEAP, node_6={"heap": (23.6, 70.0), "heap_max": (128.0, 128.0)})
    assert one.grown is not None
    assert one.grown.level == 70.0


# Nodes in limplock over time


def since(seconds: float) -> dict[str, float]:
    return {"seconds": seconds, "low_s": seconds - 1, "high_s": seconds + 1, "confidence": 0.75}


def scenario(arm: str, name: str, *slow_after_s: float) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [
        {"node": f"node-{k}", "verdict": "yes", "down": False, "since": since(at)}
        for k, at in enumerate(slow_after_s)
    ]
    nodes.append({"node": "quick", "verdict": "no", "down": False, "since": None})
    return {"arm": arm, "row": "F1", "part": "datanode", "scenario": name, "nodes": nodes,
            "took_all_s": [60.0, 61.0]}  # fmt: skip


def test_nodes_are_counted_from_when_each_became_slow() -> None:
    assert steps([20.0, 5.0], 60.0) == [(0.0, 0), (5.0, 1), (20.0, 2), (60.0, 2)]


def test_rows_with_a_slow_node_have_a_figure_with_a_graph_for_each_scenario_that_has_one() -> None:
    some = [scenario("new", "10"), scenario("new", "100", 5.0, 20.0), scenario("old", "100", 3.0)]
    quiet = {**scenario("new", "100"), "row": "F2"}
    [figure] = cascade_figures({"arms": ["new", "old"], "scenarios": [*some, quiet]})
    assert figure.identity == "cascade-f1-datanode"
    assert [key.text for key in figure.legend] == ["new", "old"]
    assert len({key.colour for key in figure.legend}) == 2
    assert "100 ×" in figure.drawings["wide"]
    assert "10 ×" not in figure.drawings["wide"].replace("100 ×", "")


def test_a_node_that_is_slow_and_not_dated_is_no_step() -> None:
    one = scenario("new", "100", 5.0)
    one["nodes"].append({"node": "node-9", "verdict": "yes", "down": False, "since": None})
    [figure] = cascade_figures({"arms": ["new"], "scenarios": [one]})
    assert figure.drawings


# All of it


def everyone_limps(scenario: str, operation: str, limps: bool) -> float:
    del operation, limps
    return 40.0 if scenario in ("100", "1000") else 1.0


def test_the_page_shows_nodes_in_limplock_and_which_resource_ran_out(tmp_path: Path) -> None:
    made = Made(tmp_path, replace(SLOW_LEADER, probes=everyone_limps), SLOW_FOLLOWER)
    some = read_windows(tmp_path)[1]
    shown = [asdict(QUEUE), asdict(HEAP)]
    write_windows(tmp_path, replace(read_windows(tmp_path)[0], shown=shown), some)
    calm: Story = {"queue": (1.0, 2.0), "heap": (20.0, 30.0), "heap_max": (64.0, 64.0)}
    full = {**calm, "queue": (1.0, 400.0), "heap": (20.0, 64.0)}
    told = dict.fromkeys(MACHINES, calm) | {MACHINES[0]: full}
    write_table(tmp_path / WHITEBOX_FILE, whitebox(list(some), told), WHITEBOX)
    result = flat(made.result())
    page = write_page(tmp_path).read_text()
    assert 'id="doses"' not in page, "a section without anything in it"
    assert 'id="cascade-z3-leader"' in page
    assert 'id="cascade-z4-follower"' not in page
    assert 'id="resource-table"' in page
    table = resource_table(result, resources(read_windows(tmp_path)[0], some,
                                             whitebox(list(some), told), 1 / 3))  # fmt: skip
    assert table is not None
    assert {row[0].text for row in table.rows} == {"Z3", "Z4"}
    assert any(row[2].mood == "bad" for row in table.rows)


def test_a_run_without_white_box_metrics_has_no_table_of_resources(tmp_path: Path) -> None:
    made = Made(tmp_path, SLOW_FOLLOWER)
    assert resource_table(flat(made.result()), []) is None


@pytest.mark.parametrize("count", [1, 2])
def test_a_machine_that_told_nothing_under_the_fault_is_left_out(count: int) -> None:
    some = windows()
    told = whitebox(some, {name: {"queue": (1.0, 2.0)} for name in [*SIX][:count]})
    silent = told.filter((pl.col("machine") != "node-1") | (pl.col("time_s") < BASE_S))
    assert len(resources(left(QUEUE), some, silent, 1 / 3)) == count - 1
