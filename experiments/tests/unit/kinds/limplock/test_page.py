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
    """Windows, base and scenarios in turn; the last machine limps, the first one is asked."""
    all_windows, at_s, machines = [], 0.0, [*labels]
    for repeat in range(repeats):
        for scenario in ("base", *(scenarios or ("100",))):
            length_s = BASE_S if scenario == "base" else FAULT_S
            all_windows.append(
                Window("new", "F1", "datanode", scenario, repeat, machines[-1], machines[0],
                       labels, at_s, at_s + length_s, length_s, False, {}, False, 0)
            )  # fmt: skip
            at_s += length_s + 5.0
    return all_windows


def whitebox(measured_windows: list[Window], stories: dict[str, Story]) -> pl.DataFrame:
    """Metrics of each second of the windows; under a fault they rise linearly to their ends."""
    rows = []
    for window in measured_windows:
        for second_s in range(int(window.length_s)):
            share = 0.0 if window.scenario == "base" else min(1.0, second_s / 15.0)
            for machine, story in stories.items():
                for metric, (base_value, end_value) in story.items():
                    value = base_value + share * (end_value - base_value)
                    rows.append((window.start_s + second_s, machine, metric, value))
    return pl.DataFrame(rows, WHITEBOX, orient="row")


def left(*metrics: PageMetric) -> RunInputs:
    return RunInputs(0.1, {"F1": 10}, {"F1": 5.0}, [asdict(metric) for metric in metrics], [])


def asked(measured_windows: list[Window], machines: list[str]) -> pl.DataFrame:
    rows = [(ROW, machines[0], "write", window.start_s + k, window.start_s + k + 0.5, "ok")
            for window in measured_windows for k in range(int(window.length_s) - 1)]  # fmt: skip
    rows += [(PROBE, machine, "read", window.start_s + k, window.start_s + k + 0.1, "ok")
             for window in measured_windows for machine in machines
             for k in range(int(window.length_s) - 1)]  # fmt: skip
    return pl.DataFrame(rows, ASKED, orient="row")


def course(stories: dict[str, Story], *metrics: PageMetric, probed: list[str] | None = None,
           labels: dict[str, str] = SIX) -> Figure:  # fmt: skip
    measured_windows = windows(labels)
    operations = asked(measured_windows, probed if probed is not None else [*labels])
    [figure] = course_figures(
        left(*metrics), measured_windows, operations, whitebox(measured_windows, stories)
    )
    return figure


def looks(figure: Figure) -> dict[str, tuple[str, str]]:
    return {key.text.split()[0]: (key.colour, key.kind) for key in figure.legend}


# Over time


def test_each_of_six_machines_is_drawn_in_a_look_of_its_own_the_limping_one_first() -> None:
    figure = course({name: {"queue": (1.0, 9.0)} for name in SIX}, QUEUE)
    looks_by_name = looks(figure)
    assert [*looks_by_name][:2] == ["node-6", "node-1"]
    assert set(looks_by_name) == set(SIX)
    assert len(set(looks_by_name.values())) == len(SIX)
    assert "limps" in figure.legend[0].text
    for drawing in figure.drawings.values():
        assert "stroke-dasharray" in drawing


def test_more_machines_than_looks_are_named() -> None:
    labels = {f"node-{k:02}": f"datanode-{k}" for k in range(1, 16)}
    figure = course({}, labels=labels)
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
    far_figure = course({"node-6": {"heap": (1.0, 2.0), "heap_max": (64.0,) * 2}}, HEAP)
    assert "heap, MB; limit beyond: 64.0" in far_figure.drawings["wide"]


# Which resource ran out


def came_to(*metrics: PageMetric, **stories: Story) -> list[Machine]:
    measured_windows = windows(SIX, 3, "100")
    stories_by_name = {name.replace("_", "-"): story for name, story in stories.items()}
    return resources(
        left(*metrics), measured_windows, whitebox(measured_windows, stories_by_name), 1 / 3
    )


def test_a_heap_that_is_full_is_told_with_when_and_where() -> None:
    full_story: Story = {"heap": (20.0, 64.0), "heap_max": (64.0, 64.0), "queue": (0.0, 900.0)}
    calm_story: Story = {"heap": (20.0, 22.0), "heap_max": (64.0, 64.0), "queue": (2.0, 50.0)}
    by_label = {
        entry.label: entry for entry in came_to(QUEUE, HEAP, node_1=calm_story, node_6=full_story)
    }
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
    [entry] = came_to(HEAP, node_6={"heap": (63.0, 64.0), "heap_max": (64.0, 64.0)})
    assert entry.full[0].reached_in_base
    assert not entry.ran_out


def test_a_limit_may_be_a_number_and_a_jvm_without_one_says_less_than_nought() -> None:
    handlers = PageMetric("handlers", "handlers", limit=10.0)
    [entry] = came_to(handlers, node_6={"handlers": (1.0, 10.0)})
    assert entry.full[0].limit == 10.0
    [entry] = came_to(HEAP, node_6={"heap": (1.0, 64.0), "heap_max": (-1.0, -1.0)})
    assert (entry.full, entry.knows_limits) == ((), False)
    assert entry.grown is not None


def test_a_run_of_before_limits_were_stated_tells_what_grew() -> None:
    measured_windows = windows()
    table = whitebox(measured_windows, {"node-6": {"queue": (1.0, 9.0)}})
    older_inputs = replace(left(), shown=[{"metric": "queue", "title": "calls", "unit": 1.0}])
    [entry] = resources(older_inputs, measured_windows, table, 1 / 3)
    assert entry.grown is not None
    assert entry.grown.level == 9.0


def test_what_stays_far_below_its_limit_is_not_what_grew_most() -> None:
    heap: Story = {"heap": (23.6, 34.3), "heap_max": (128.0, 128.0)}
    [entry] = came_to(HEAP, node_6=heap)
    assert (entry.full, entry.grown, entry.knows_limits) == ((), None, True)
    [entry] = came_to(QUEUE, HEAP, node_6=heap | {"queue": (9.0, 10.5)})
    assert entry.grown is not None
    assert entry.grown.title == QUEUE.title
    [entry] = came_to(HEAP, node_6={"heap": (23.6, 70.0), "heap_max": (128.0, 128.0)})
    assert entry.grown is not None
    assert entry.grown.level == 70.0


# Nodes in limplock over time


def since(seconds: float) -> dict[str, float]:
    return {"seconds": seconds, "low_s": seconds - 1, "high_s": seconds + 1, "confidence": 0.75}


def scenario(arm: str, name: str, *slow_after_s: float) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [
        {"node": f"node-{k}", "verdict": "yes", "down": False, "since": since(after_s)}
        for k, after_s in enumerate(slow_after_s)
    ]
    nodes.append({"node": "quick", "verdict": "no", "down": False, "since": None})
    return {"arm": arm, "row": "F1", "part": "datanode", "scenario": name, "nodes": nodes,
            "took_all_s": [60.0, 61.0]}  # fmt: skip


def test_nodes_are_counted_from_when_each_became_slow() -> None:
    assert steps([20.0, 5.0], 60.0) == [(0.0, 0), (5.0, 1), (20.0, 2), (60.0, 2)]


def test_rows_with_a_slow_node_have_a_figure_with_a_graph_for_each_scenario_that_has_one() -> None:
    scenarios = [
        scenario("new", "10"),
        scenario("new", "100", 5.0, 20.0),
        scenario("old", "100", 3.0),
    ]
    quiet_scenario = {**scenario("new", "100"), "row": "F2"}
    [figure] = cascade_figures({"arms": ["new", "old"], "scenarios": [*scenarios, quiet_scenario]})
    assert figure.identity == "cascade-f1-datanode"
    assert [key.text for key in figure.legend] == ["new", "old"]
    assert len({key.colour for key in figure.legend}) == 2
    assert "100 ×" in figure.drawings["wide"]
    assert "10 ×" not in figure.drawings["wide"].replace("100 ×", "")


def test_a_node_that_is_slow_and_not_dated_is_no_step() -> None:
    slow_scenario = scenario("new", "100", 5.0)
    slow_scenario["nodes"].append(
        {"node": "node-9", "verdict": "yes", "down": False, "since": None}
    )
    [figure] = cascade_figures({"arms": ["new"], "scenarios": [slow_scenario]})
    assert figure.drawings


# The whole page


def everyone_limps(scenario: str, operation: str, limps: bool) -> float:
    del operation, limps
    return 40.0 if scenario in ("100", "1000") else 1.0


def test_the_page_shows_nodes_in_limplock_and_which_resource_ran_out(tmp_path: Path) -> None:
    run = Made(tmp_path, replace(SLOW_LEADER, probes=everyone_limps), SLOW_FOLLOWER)
    measured_windows = read_windows(tmp_path)[1]
    metrics = [asdict(QUEUE), asdict(HEAP)]
    write_windows(tmp_path, replace(read_windows(tmp_path)[0], shown=metrics), measured_windows)
    calm_story: Story = {"queue": (1.0, 2.0), "heap": (20.0, 30.0), "heap_max": (64.0, 64.0)}
    full_story = {**calm_story, "queue": (1.0, 400.0), "heap": (20.0, 64.0)}
    stories = dict.fromkeys(MACHINES, calm_story) | {MACHINES[0]: full_story}
    write_table(tmp_path / WHITEBOX_FILE, whitebox(list(measured_windows), stories), WHITEBOX)
    result = flat(run.result())
    page = write_page(tmp_path).read_text()
    assert 'id="doses"' not in page, "a section without anything in it"
    assert 'id="cascade-z3-leader"' in page
    assert 'id="cascade-z4-follower"' not in page
    assert 'id="resource-table"' in page
    table = resource_table(
        result,
        resources(
            read_windows(tmp_path)[0],
            measured_windows,
            whitebox(list(measured_windows), stories),
            1 / 3,
        ),
    )
    assert table is not None
    assert {row[0].text for row in table.rows} == {"Z3", "Z4"}
    assert any(row[2].mood == "bad" for row in table.rows)


def test_a_run_without_white_box_metrics_has_no_table_of_resources(tmp_path: Path) -> None:
    run = Made(tmp_path, SLOW_FOLLOWER)
    assert resource_table(flat(run.result()), []) is None


@pytest.mark.parametrize("count", [1, 2])
def test_a_machine_that_told_nothing_under_the_fault_is_left_out(count: int) -> None:
    measured_windows = windows()
    table = whitebox(measured_windows, {name: {"queue": (1.0, 2.0)} for name in [*SIX][:count]})
    silent_table = table.filter((pl.col("machine") != "node-1") | (pl.col("time_s") < BASE_S))
    assert len(resources(left(QUEUE), measured_windows, silent_table, 1 / 3)) == count - 1
