"""A search for danger zones on a fleet: what a design may ask, and what its files and page say."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import polars as pl
import pytest

from core.errors import InputError
from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import FILE, Result
from experiments.commands.check import checked
from experiments.design import load_design
from experiments.design.design import DESIGNS
from experiments.kinds.limplock import KIND
from experiments.kinds.limplock.dry_run import disturbances
from experiments.kinds.limplock.judge.result import analyse
from experiments.kinds.limplock.judge.search import Search, searched
from experiments.kinds.limplock.page.report import headline
from experiments.kinds.limplock.page.zones import AXES
from experiments.kinds.limplock.scenarios import BASE, UNITS, Scenario, label
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import (
    ASKED,
    ASKED_FILE,
    WHITEBOX,
    WHITEBOX_FILE,
    RunInputs,
    Window,
    read_windows,
    write_windows,
)
from experiments.record.records import write_json, write_table
from experiments.record.result import flat, result_of
from experiments.tests.limplock_fixture import MACHINES, manifest_of

DESIGN = "danger-zones-zookeeper"
LABELS = dict(zip(MACHINES, ("leader", "follower-1", "follower-2"), strict=True))
LIMIT = 20.0
SLOWER = Search(axis="slower", low=2, high=1000, budget=14)
START = Search(axis="start", low=0.5, high=5, slower=200, held_s=2)


@pytest.fixture
def design(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DESIGNS / DESIGN, tmp_path / "mine"))


def run_of(folder: Path, search: Search, values: list[float], slower: Callable[[float], float],
           drift: float = 1.0) -> Result:  # fmt: skip
    """A run whose operation is `slower(value)` times slower; each repeat's host is `drift` times
    slower than the last one's."""
    windows, base_s = [], 1.0
    for number, value in enumerate(value for value in values for _ in range(3)):
        took = min(LIMIT, slower(value))
        for scenario, ratio in ((BASE, 1.0), (search.scenario(value).name, took)):
            windows.append(
                Window(
                    "new", "Z3", "leader", scenario, number, MACHINES[0], MACHINES[1], LABELS,
                    10.0 * number, 10.0 * number + 5.0, ratio * base_s, ratio >= LIMIT, {}, False,
                    0, 1.0,
                )
            )  # fmt: skip
        base_s *= drift
    folder.mkdir(exist_ok=True)
    write_windows(folder, RunInputs(0.05, {"Z3": 350}, {"Z3": LIMIT}, [], []), windows)
    write_table(folder / ASKED_FILE, pl.DataFrame(schema=ASKED), ASKED)
    write_table(folder / WHITEBOX_FILE, pl.DataFrame(schema=WHITEBOX), WHITEBOX)
    manifest = manifest_of(LimplockSection(rows=("Z3",), search=search))
    write_json(folder / "manifest.json", manifest)
    found = result_of("limplock", manifest, analyse(folder))
    write_json(folder / FILE, found)
    return found


VALUES = [2.0, 20.0, 30.0, 36.0, 40.0, 200.0, 1000.0]


def test_a_jump_is_a_zone_in_the_result_and_the_first_thing_on_the_page(tmp_path: Path) -> None:
    result = run_of(tmp_path / "run", SLOWER, VALUES, lambda value: 1.1 if value < 38 else 15.0)
    [found] = flat(result)["zones"]
    [zone] = found["zones"]
    assert (zone["low"], zone["high"], zone["worse"], zone["narrow"]) == (36.0, 40.0, True, True)
    assert [point["at"] for point in found["points"]] == VALUES
    assert {len(point["waits"]) for point in found["points"]} == {3}
    said = headline(flat(result))
    assert "36.0 and 40.0 ×" in said
    page = KIND.write_page(tmp_path / "run").read_text()
    assert said in page
    assert 'id="zones-new-z3-leader"' in page
    assert 'id="zone-table"' in page
    assert page.index('id="zones"') < page.index('id="rows"')
    assert 'id="slowdowns' not in page


def test_a_host_that_gets_slower_makes_no_zone(tmp_path: Path) -> None:
    result = run_of(tmp_path / "run", SLOWER, VALUES, lambda _: 1.2, drift=1.3)
    [found] = flat(result)["zones"]
    assert (found["zones"], found["open"]) == ([], [])
    assert headline(flat(result)).startswith("No danger zone is shown between 2.00 and 1,000 ×")


def test_a_headline_without_a_zone_says_what_the_budget_left_open(tmp_path: Path) -> None:
    result = run_of(tmp_path / "run", SLOWER, [2.0, 20.0, 100.0], lambda value: min(value, 15.0))
    [found] = flat(result)["zones"]
    assert (found["zones"], found["open"]) == ([], [[2.0, 20.0]])
    assert headline(flat(result)).endswith("3 values; not decided between 2.00 and 20.0 ×.")


def test_a_search_that_ended_after_its_first_base_has_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_of(folder, SLOWER, [2.0], lambda _: 1.0)
    left, windows = read_windows(folder)
    write_windows(folder, left, windows[:1])
    result = result_of("limplock", manifest_if_any(folder), analyse(folder))
    write_json(folder / FILE, result)
    assert not result["valid"]
    said = headline(flat(result))
    assert said == "Nothing was measured (Z3, new)."
    assert said in KIND.write_page(folder).read_text()


def test_a_repeat_whose_base_was_cut_short_is_no_value(tmp_path: Path) -> None:
    run_of(tmp_path / "run", SLOWER, VALUES, lambda value: 1.1 if value < 38 else 15.0)
    _, windows = read_windows(tmp_path / "run")
    cut = {0, 1, 2, 3}  # all repeats of the first value, and one of the second
    bases = [replace(one, cut=one.scenario == BASE and one.repeat in cut) for one in windows]
    [found] = searched(bases, SLOWER)
    assert [point["at"] for point in found["points"]] == VALUES[1:]
    assert [len(point["waits"]) for point in found["points"]] == [2, 3, 3, 3, 3, 3]


def test_an_operation_that_was_over_before_its_fault_is_no_value(tmp_path: Path) -> None:
    result = run_of(tmp_path / "run", START, [0.5, 1.0, 5.0], lambda _: 1.5)
    [found] = flat(result)["zones"]
    assert [point["at"] for point in found["points"]] == [0.5, 1.0]


DELAY = Search(axis="delay", low=0.5, high=50)
IO_LATENCY = Search(axis="io_latency", low=0.5, high=50)
HELD = Search(axis="held", low=0.5, high=50, slower=200)


@pytest.mark.parametrize("rule", [DELAY, IO_LATENCY, HELD, START])
def test_the_page_names_the_axis_with_its_unit(rule: Search, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = run_of(run, rule, [0.5, 0.575], lambda value: 15.0 if value > 0.5 else 1.5)
    [found] = flat(result)["zones"]
    [zone] = found["zones"]
    said = headline(flat(result))
    assert (zone["low"], zone["high"]) == (0.5, 0.575)
    assert f"0.500 and 0.575 {UNITS[rule.axis]} (" in said
    page = unescape(KIND.write_page(run).read_text())
    assert said in page
    assert AXES[rule.axis] in page


def test_what_was_cut_short_is_at_least_so_long(tmp_path: Path) -> None:
    result = run_of(tmp_path / "run", SLOWER, [36.0, 40.0], lambda v: 1.0 if v < 38 else 99.0)
    [found] = flat(result)["zones"]
    assert found["points"][1]["median"] == {"seconds": LIMIT, "at_least": True}
    [zone] = found["zones"]
    assert zone["ratio"]["at_least"]
    assert zone["ratio"]["high"] is None


@pytest.mark.parametrize(
    ("scenario", "name", "kind", "parameters", "held_s"),
    [
        (SLOWER.scenario(37.6), "37.6", "net.limp", {"factor": 37.6}, None),
        (Search(axis="loss", low=1, high=50).scenario(7.0711), "7.071 %", "net.loss",
         {"percent": 7.071}, None),
        (Search(axis="held", low=0.5, high=30, slower=100).scenario(2.5), "2.5 s", "net.limp",
         {"factor": 100.0}, 2.5),
        (Scenario(None), "crash", "process.crash", {}, None),
    ],
)  # fmt: skip
def test_a_value_of_an_axis_is_a_fault_of_an_agent(
    scenario: Scenario, name: str, kind: str, parameters: dict[str, float], held_s: float | None
) -> None:
    assert scenario.name == name
    assert scenario.fault("nic") == (kind, parameters)
    assert scenario.held_s == held_s
    assert label(name) == (name if name == "crash" or " " in name else f"{name} ×")


@pytest.mark.parametrize(
    ("was", "now", "key", "said"),
    [
        ('axis = "slower"', 'axis = "held"', "search.slower", "a factor"),
        ('axis = "slower"', 'axis = "slower"\nslower = 7', "search.slower", "nothing"),
        ('axis = "slower"', 'axis = "loss"', "search.high", "100"),
        (
            'axis = "slower"\nlow = 2\nhigh = 1000',
            'axis = "held"\nslower = 7\nlow = 2\nhigh = 3601',
            "search.high",
            "3600",
        ),
        ("low = 2", "low = 1", "search.low", "more than 1"),
        ("low = 2", "low = 2000", "search.high", "2000"),
        ('rows = ["Z3"]', 'rows = ["Z3", "Z4"]', "limplock.rows", "one"),
        ("scale =", "severities = [10]\nscale =", "limplock.severities", "nothing beside search"),
        ("repeats = 3", "repeats = 2", "limplock.search", "3"),
    ],
)
def test_a_search_that_cannot_be_is_refused_with_its_key(
    design: Path, was: str, now: str, key: str, said: str
) -> None:
    path = design / "experiment.toml"
    assert was in path.read_text()
    path.write_text(path.read_text().replace(was, now))
    with pytest.raises(InputError) as refused:
        checked(load_design(design))
    assert refused.value.place.endswith(key)
    assert said in str(refused.value)


def test_what_a_search_may_do_is_said_before() -> None:
    design = load_design(DESIGN)
    section = design.section(LimplockSection, "limplock")
    [said] = disturbances(design, section)
    assert "at most 42 times" in said["when"]
    assert "2 to 1000 ×" in said["when"]
    assert said["parameters"] == {"factor": 1000.0}
