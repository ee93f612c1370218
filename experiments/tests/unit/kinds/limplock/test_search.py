"""A search for danger zones: axes, what a design may ask, and what its files and page say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, get_args

import pytest

from core.runfiles.result import Result
from experiments.design import load_design
from experiments.kinds.limplock import KIND
from experiments.kinds.limplock.dry_run import disturbances
from experiments.kinds.limplock.judge.search import Search, summarise_search
from experiments.kinds.limplock.page.report import headline
from experiments.kinds.limplock.page.zones import AXES
from experiments.kinds.limplock.scenarios import BASE, UNITS, Axis, Scenario, label
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import Window, read_windows, write_windows
from experiments.record.result import flat
from experiments.tests.limplock_fixture import MACHINES, written

DESIGN = "danger-zones-zookeeper"
LABELS = dict(zip(MACHINES, ("leader", "follower-1", "follower-2"), strict=True))
LIMIT = 20.0
SLOWER = Search(axis="slower", low=2, high=1000, budget=14)
START = Search(axis="start", low=0.5, high=5, slower=200, held_s=2)


def run_of(folder: Path, search: Search, values: list[float], slower: Callable[[float], float],
           drift: float = 1.0) -> Result:  # fmt: skip
    """A run whose operation is `slower(value)` times slower; each repeat's host is `drift` times
    slower than the last one's."""
    windows, base_s = [], 1.0
    for number, value in enumerate(value for value in values for _ in range(3)):
        factor = min(LIMIT, slower(value))
        for scenario, ratio in ((BASE, 1.0), (search.scenario(value).name, factor)):
            windows.append(
                Window("new", "Z3", "leader", scenario, number, MACHINES[0], MACHINES[1], LABELS,
                       10.0 * number, 10.0 * number + 5.0, ratio * base_s, ratio >= LIMIT, {},
                       False, 0, 1.0)
            )  # fmt: skip
        base_s *= drift
    return written(folder, LimplockSection(rows=("Z3",), search=search), windows, LIMIT)


VALUES = [2.0, 20.0, 30.0, 36.0, 40.0, 200.0, 1000.0]


def test_a_jump_is_a_zone_in_the_result_and_the_first_thing_on_the_page(tmp_path: Path) -> None:
    result = run_of(tmp_path / "run", SLOWER, VALUES, lambda value: 1.1 if value < 38 else 15.0)
    [search] = flat(result)["zones"]
    [zone] = search["zones"]
    assert (zone["low"], zone["high"], zone["worse"], zone["narrow"]) == (36.0, 40.0, True, True)
    assert [point["at"] for point in search["points"]] == VALUES
    assert {len(point["waits"]) for point in search["points"]} == {3}
    sentence = headline(flat(result))
    assert "36.0 and 40.0 ×" in sentence
    page = KIND.write_page(tmp_path / "run").read_text()
    assert sentence in page
    assert 'id="zones-new-z3-leader"' in page
    assert 'id="zone-table"' in page
    assert page.index('id="zones"') < page.index('id="rows"')
    assert 'id="slowdowns' not in page


def test_a_host_that_gets_slower_makes_no_zone(tmp_path: Path) -> None:
    result = run_of(tmp_path / "run", SLOWER, VALUES, lambda _: 1.2, drift=1.3)
    [search] = flat(result)["zones"]
    assert (search["zones"], search["open"]) == ([], [])
    assert headline(flat(result)).startswith("No danger zone is shown between 2.00 and 1,000 ×")


def test_a_headline_without_a_zone_says_what_the_budget_left_open(tmp_path: Path) -> None:
    result = run_of(tmp_path / "run", SLOWER, [2.0, 20.0, 100.0], lambda value: min(value, 15.0))
    [search] = flat(result)["zones"]
    assert (search["zones"], search["open"]) == ([], [[2.0, 20.0]])
    assert headline(flat(result)).endswith("3 values; not decided between 2.00 and 20.0 ×.")


def test_a_search_that_ended_after_its_first_base_has_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_of(folder, SLOWER, [2.0], lambda _: 1.0)
    inputs, windows = read_windows(folder)
    write_windows(folder, inputs, windows[:1])
    result = KIND.conclude(folder)
    assert not result["valid"]
    sentence = headline(flat(result))
    assert sentence == "Nothing was measured (Z3, new)."
    assert sentence in KIND.write_page(folder).read_text()


def test_a_repeat_whose_base_was_cut_short_is_no_value(tmp_path: Path) -> None:
    run_of(tmp_path / "run", SLOWER, VALUES, lambda value: 1.1 if value < 38 else 15.0)
    _, windows = read_windows(tmp_path / "run")
    cut_repeats = {0, 1, 2, 3}  # all repeats of the first value, and one of the second
    bases = [
        replace(window, cut=window.scenario == BASE and window.repeat in cut_repeats)
        for window in windows
    ]
    zones: Any = summarise_search(bases, SLOWER)
    [search] = zones
    assert [point["at"] for point in search["points"]] == VALUES[1:]
    assert [len(point["waits"]) for point in search["points"]] == [2, 3, 3, 3, 3, 3]


def test_an_operation_that_was_over_before_its_fault_is_no_value(tmp_path: Path) -> None:
    result = run_of(tmp_path / "run", START, [0.5, 1.0, 5.0], lambda _: 1.5)
    [search] = flat(result)["zones"]
    assert [point["at"] for point in search["points"]] == [0.5, 1.0]


DELAY = Search(axis="delay", low=0.5, high=50)


@pytest.mark.parametrize("rule", [DELAY, START])
def test_the_page_names_the_axis_with_its_unit(rule: Search, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = run_of(run, rule, [0.5, 0.575], lambda value: 15.0 if value > 0.5 else 1.5)
    [search] = flat(result)["zones"]
    [zone] = search["zones"]
    sentence = headline(flat(result))
    assert (zone["low"], zone["high"]) == (0.5, 0.575)
    assert f"0.500 and 0.575 {UNITS[rule.axis]} (" in sentence
    page = unescape(KIND.write_page(run).read_text())
    assert sentence in page
    assert AXES[rule.axis] in page


def test_what_was_cut_short_is_at_least_so_long(tmp_path: Path) -> None:
    result = run_of(
        tmp_path / "run", SLOWER, [36.0, 40.0], lambda value: 1.0 if value < 38 else 99.0
    )
    [search] = flat(result)["zones"]
    assert search["points"][1]["median"] == {"seconds": LIMIT, "at_least": True}
    [zone] = search["zones"]
    assert zone["ratio"]["at_least"]
    assert zone["ratio"]["high"] is None


def test_what_a_search_may_do_is_said_before() -> None:
    design = load_design(DESIGN)
    section = design.section(LimplockSection, "limplock")
    [fault] = disturbances(design, section)
    assert "at most 42 times" in fault["when"]
    assert "2 to 1000 ×" in fault["when"]
    assert fault["parameters"] == {"factor": 1000.0}


LEAST: Mapping[Axis, float] = {
    "slower": 2.0, "loss": 2.0, "delay": 2.0, "io_latency": 2.0, "held": 2.0, "start": 0.5,
}  # fmt: skip
STATED: Mapping[Axis, Mapping[str, float]] = {
    "held": {"slower": 200.0}, "start": {"slower": 200.0, "held_s": 2.0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("axis", "value", "limpware", "name", "kind", "parameters", "start_s", "held_s"),
    [
        ("slower", 37.6, "nic", "37.6", "net.limp", {"factor": 37.6}, None, None),
        ("loss", 7.0711, "nic", "7.071 %", "net.loss", {"percent": 7.071}, None, None),
        ("delay", 63.25, "nic", "63.25 ms", "net.delay", {"delay_ms": 63.25}, None, None),
        ("io_latency", 14.42, "disk", "14.42 ms", "disk.slow", {"delay_ms": 14.42}, None, None),
        ("start", 2.5, "nic", "2.5 s", "net.limp", {"factor": 200.0}, 2.5, 2.0),
        ("start", 2.5, "disk", "2.5 s", "disk.limp", {"factor": 200.0}, 2.5, 2.0),
        ("held", 2.5, "nic", "2.5 s", "net.limp", {"factor": 200.0}, None, 2.5),
    ],
)
def test_a_value_of_an_axis_is_a_fault_of_an_agent(
    axis: Axis, value: float, limpware: str, name: str, kind: str,
    parameters: Mapping[str, float], start_s: float | None, held_s: float | None,
) -> None:  # fmt: skip
    scenario = searched_for(axis).scenario(value)
    assert scenario.name == name
    assert scenario.fault(limpware) == (kind, parameters)
    assert (scenario.start_s, scenario.held_s) == (start_s, held_s)
    assert label(name) == (name if " " in name else f"{name} ×")


def test_a_crash_is_a_fault_without_a_value() -> None:
    assert (Scenario(None).name, label("crash")) == ("crash", "crash")
    assert Scenario(None).fault("nic") == ("process.crash", {})


def searched_for(axis: Axis) -> Search:
    values: dict[str, Any] = {"axis": axis, "low": LEAST[axis], "high": 50.0}
    return Search.model_validate(values | dict(STATED.get(axis, {})))


def test_every_axis_has_a_unit_and_words() -> None:
    assert set(AXES) == set(UNITS) == set(get_args(Axis)) == set(LEAST)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (searched_for("delay"), "2 to 50 ms, at most"),
        (searched_for("held"), "200 × for 2 to 50 s, at most"),
        (START, "200 × for 2 s, begun 0.5 to 5 s after the operation, at most"),
    ],
)
def test_what_a_search_tries_is_said_with_its_unit(rule: Search, said: str) -> None:
    assert rule.range_words().startswith(said)
