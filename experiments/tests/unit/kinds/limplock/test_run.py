"""A run of limplock's rows: verdicts from its files alone, and the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments import kinds
from experiments.kinds.limplock.judge.coverage import missing_measurements
from experiments.kinds.limplock.measure.node_roles import labels_of
from experiments.kinds.limplock.page.report import headline, scenario_table
from experiments.kinds.limplock.scenarios import BASE
from experiments.kinds.limplock.windows import Window
from experiments.record.result import flat
from experiments.tests.called import call
from experiments.tests.limplock_fixture import SLOW_FOLLOWER, SLOW_LEADER, Made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("run"), SLOW_LEADER, SLOW_FOLLOWER)


def scenario(result: dict[str, Any], row: str, name: str) -> dict[str, Any]:
    [entry] = [candidate for candidate in flat(result)["scenarios"]
               if (candidate["row"], candidate["scenario"]) == (row, name)]  # fmt: skip
    return dict(entry)


def row(result: dict[str, Any], name: str) -> dict[str, Any]:
    [entry] = [candidate for candidate in flat(result)["rows"] if candidate["row"] == name]
    return dict(entry)


def test_a_leader_that_limps_locks_up_all_updates_wherever_it_is_at_each_repeat(made: Made) -> None:
    entry = scenario(made.result(), "Z3", "100")
    assert (entry["operation"], entry["node"], entry["cluster"]) == ("yes", "no", "yes")
    assert entry["scope"] == ["set"]
    assert entry["limping"] == "leader"
    assert entry["slowdown"]["low"] > 7
    assert {stream["node"] for stream in entry["streams"]} == {"leader", "follower-1", "follower-2"}
    needs = {(stream["node"], stream["operation"]): stream["needs"] for stream in entry["streams"]}
    assert needs["follower-1", "set"] == "limpware"
    assert needs["follower-1", "get"] == "neither"


def test_a_row_is_what_its_worst_severity_is_and_a_crash_is_beside(made: Made) -> None:
    result = made.result()
    leader_row = row(result, "Z3")
    assert (leader_row["operation"], leader_row["cluster"]) == ("yes", "yes")
    assert leader_row["agrees"] == {"operation": True, "node": None, "cluster": True}
    assert scenario(result, "Z3", "crash")["operation"] == "no"
    assert scenario(result, "Z3", "10")["operation"] == "no"
    assert result["limplock"]["letters"] == {"Z3": "O C", "Z4": "-"}
    assert result["found"] == "Z3 O C, Z4 -"
    assert kinds.find("limplock").row(result) == {"Z3": "O C", "Z4": "-"}
    assert headline(flat(result)).startswith("Limplock in Z3.")


def test_an_operation_that_was_cut_short_took_at_least_so_long(tmp_path: Path) -> None:
    entry = scenario(
        Made(tmp_path, replace(SLOW_LEADER, timeout_factor=6.0)).result(), "Z3", "1000"
    )
    assert entry["cut"] == 3
    assert entry["slowdown"]["at_least"]
    assert entry["slowdown"]["high"] is None
    assert entry["operation"] == "yes"


def test_a_row_whose_base_differs_from_itself_is_not_judged(tmp_path: Path) -> None:
    noisy_truth = replace(SLOW_FOLLOWER, noise=1.2)
    entry = scenario(Made(tmp_path, noisy_truth).result(), "Z4", "10")
    assert entry["operation"] == "insufficient"
    assert "differs" in entry["reason"]


@pytest.mark.parametrize("short", [1, 3])
def test_a_base_that_was_cut_short_is_not_judged_and_the_page_says_so(
    tmp_path: Path, short: int
) -> None:
    folder = tmp_path / "limplock-zookeeper" / "20261124T000000Z"
    result = Made(folder, replace(SLOW_LEADER, bases_cut=short), SLOW_FOLLOWER).result()
    entries = [entry for entry in flat(result)["scenarios"] if entry["row"] == "Z3"]
    assert {entry["operation"] for entry in entries} == {"insufficient"}
    assert {entry["bases_cut"] for entry in entries} == {short}
    if short == 3:
        [base_entry] = entries
        assert (base_entry["scenario"], base_entry["reason"]) == ("base", "the base was cut short")
        assert (base_entry["node"], base_entry["cluster"]) == ("insufficient", "insufficient")
    assert result["limplock"]["letters"]["Z3"] == "O? N? C?"
    assert scenario(result, "Z4", "100")["operation"] == "no"
    assert result["valid"]
    process = call("report", str(folder))
    assert process.exit_code == 0, process.output
    assert f"{short} bases cut short" in (folder / "report.html").read_text()


def test_parts_that_moved_under_a_fault_and_services_that_were_cold_are_said(
    tmp_path: Path,
) -> None:
    truth = replace(SLOW_LEADER, moved=("100",), cold=("1000",))
    result = Made(tmp_path, truth).result()
    assert scenario(result, "Z3", "100")["operation"] == "yes"
    names = [entry["scenario"] for entry in flat(result)["scenarios"]]
    texts = [line[-1].text for line in scenario_table(flat(result)).rows]
    text_of = dict(zip(names, texts, strict=True))
    assert "parts moved in 3" in text_of["100"]
    assert "begun cold in 3" in text_of["1000"]
    assert not any("moved" in text_of[name] or "cold" in text_of[name] for name in ("10", "crash"))
    result = flat(Made(tmp_path / "base", replace(SLOW_LEADER, cold=("base",))).result())
    texts = [line[-1].text for line in scenario_table(result).rows]
    assert all("3 bases begun cold" in text for text in texts)
    assert not any("begun cold in" in text for text in texts)


def test_a_server_that_ran_out_of_memory_is_down_and_not_an_error(tmp_path: Path) -> None:
    truth = replace(SLOW_LEADER, gone={"leader": 5.0})
    result = Made(tmp_path, truth).result()
    down_nodes = {
        stream["node"] for stream in scenario(result, "Z3", "100")["streams"] if stream["down"]
    }
    assert down_nodes == {"leader"}
    assert result["valid"]


def test_a_row_that_was_never_measured_makes_the_run_not_valid(tmp_path: Path) -> None:
    run = Made(tmp_path, SLOW_LEADER)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"Z3"', '"Z3",\n   "Z5"', 1))
    result = run.result()
    assert not result["valid"]
    assert result["verdicts"]["measurement"]["reasons"] == ["Z5: nothing was measured"]


def test_each_part_of_a_row_has_letters_of_its_own(tmp_path: Path) -> None:
    follower = replace(SLOW_FOLLOWER, row="Z3")
    result = Made(tmp_path, SLOW_LEADER, follower).result()
    assert result["limplock"]["letters"] == {"Z3 leader": "O C", "Z3 follower": "-"}
    assert kinds.find("limplock").row(result) == {"Z3 leader": "O C", "Z3 follower": "-"}
    assert result["found"] == "Z3 leader O C, Z3 follower -"
    both_result = Made(tmp_path / "both", SLOW_LEADER, follower, arms=("new", "old")).result()
    assert list(both_result["limplock"]["letters"]) == [
        "Z3 new leader", "Z3 new follower", "Z3 old leader", "Z3 old follower",
    ]  # fmt: skip


def spec(rows: list[str], arms: str = "new", search: Any = None) -> dict[str, Any]:
    section = {"rows": rows, "severities": [10, 100], "crash": False, "search": search}
    order = "ABCD"[: len(arms.split())]
    design = {"order": order, "repeats": 3}
    return {"arms": {arm: {} for arm in arms.split()}, "design": design, "limplock": section}


def windows(*names: str, arm: str = "new", scenarios: tuple[str, ...] = ("10", "100"),
            repeats: range = range(3)) -> list[Window]:  # fmt: skip
    """Windows of these rows and parts (`F9 source`): a base and these scenarios in each repeat."""
    return [
        Window(arm, row, part, scenario, repeat, "m", "m", {"m": part}, 0.0, 1.0, 1.0, False, {},
               False, 0)
        for row, part in (name.split() for name in names)
        for repeat in repeats
        for scenario in (BASE, *scenarios)
    ]  # fmt: skip


def cut_base(repeat: int) -> list[Window]:
    [base] = windows("Z3 leader", scenarios=(), repeats=range(repeat, repeat + 1))
    return [replace(base, cut=True)]


SEARCH = {"axis": "slower", "low": 10.0, "high": 100.0}


@pytest.mark.parametrize(
    ("asked", "got", "said"),
    [
        (spec(["Z3"]), windows("Z3 leader"), []),
        (spec(["Z3", "Z4"]), windows("Z3 leader"), ["Z4: nothing was measured"]),
        (spec(["Z3"], "new old"), windows("Z3 leader"), ["old: nothing was measured"]),
        (spec(["F9"]), windows("F9 source"), ["F9 (destination): nothing was measured"]),
        (spec(["Z3", "Z4"], "new old"),
         windows("Z3 leader", "Z4 follower") + windows("Z3 leader", arm="old"),
         ["Z4 (old): nothing was measured"]),
        (spec(["Z3"]), windows("Z3 leader", repeats=range(2)),
         ["Z3: 2 of 3 repeats of 10 ×, 100 ×"]),
        (spec(["Z3"]),
         windows("Z3 leader", repeats=range(2)) + windows("Z3 leader", scenarios=("10",)),
         ["Z3: 2 of 3 repeats of 100 ×"]),
        (spec(["Z3"]), windows("Z3 leader", scenarios=()), ["Z3: nothing was measured"]),
        (spec(["Z3"], search=SEARCH), windows("Z3 leader", scenarios=("10", "20", "100")), []),
        (
            spec(["Z3"], search=SEARCH),
            windows("Z3 leader", scenarios=("10",))
            + windows("Z3 leader", scenarios=("20",), repeats=range(3, 5)),
            ["Z3: 0 of 3 repeats of 100 ×; 2 of 3 repeats of 20 ×"],
        ),
        (spec(["Z3"]), windows("Z3 leader", repeats=range(2)) + cut_base(2), []),
        (  # nothing says of which value: it is one of none
            spec(["Z3"], search=SEARCH),
            windows("Z3 leader", scenarios=("10", "100"))
            + windows("Z3 leader", scenarios=("20",), repeats=range(3, 5))
            + cut_base(5),
            ["Z3: 2 of 3 repeats of 20 ×"],
        ),
        (
            spec(["Z3"], search=SEARCH),
            windows("Z3 leader", scenarios=("10", "100"), repeats=range(2)) + cut_base(2),
            ["Z3: 2 of 3 repeats of 10 ×, 100 ×"],
        ),
    ],
)  # fmt: skip
def test_what_a_run_lacks_of_its_design_is_named(
    asked: dict[str, Any], got: list[Window], said: list[str]
) -> None:
    assert missing_measurements(asked, got) == said


def test_turns_of_an_arm_and_the_designs_repeats_are_its_repeats() -> None:
    run_spec = spec(["Z3"], "new old")
    run_spec["design"] = {"order": "ABBAAB", "repeats": 1}
    measured_windows = windows("Z3 leader") + windows("Z3 leader", arm="old", repeats=range(2))
    assert missing_measurements(run_spec, measured_windows) == [
        "Z3 (old): 2 of 3 repeats of 10 ×, 100 ×"
    ]


def test_the_page_is_made_anew_from_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "limplock-zookeeper" / "20261124T000000Z"
    Made(folder, SLOW_LEADER, SLOW_FOLLOWER).result()
    process = call("report", str(folder))
    assert process.exit_code == 0, process.output
    page = (folder / "report.html").read_text()
    for identity in ("limplock-table", "scenario-table", "stream-table", "slowdowns",
                     "course-new-z3-leader", "course-new-z4-follower"):  # fmt: skip
        assert f'id="{identity}"' in page
    assert "paper yes, as here" in page
    assert "://" not in page.replace("http://www.w3.org", "")
    assert "Z3" in process.output


@pytest.mark.parametrize(
    ("limping", "asked", "labels"),
    [
        ("b", "a", {"b": "leader", "a": "follower-1", "c": "follower-2"}),
        ("b", "c", {"b": "leader", "c": "follower-1", "a": "follower-2"}),
        ("c", "a", {"b": "leader", "c": "follower-1", "a": "follower-2"}),
    ],
)
def test_machines_are_called_by_their_parts_the_one_that_limps_first(
    limping: str, asked: str, labels: dict[str, str]
) -> None:
    assert labels_of({"leader": ("b",), "follower": ("a", "c")}, limping, asked) == labels
