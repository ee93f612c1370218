"""Settings that heal a row: gain and cost of an arm beside the release as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from core.runfiles.result import Result
from experiments.commands.check import check_design
from experiments.design import designs_available, load_design
from experiments.design.cases import read_experiment
from experiments.design.design import find_design
from experiments.kinds.limplock import KIND
from experiments.kinds.limplock.judge.remedies import Ratio, Remedy, ratio, remedies_of
from experiments.kinds.limplock.judge.result import analyse
from experiments.kinds.limplock.judge.rule import Rule
from experiments.kinds.limplock.judge.slowdown import Duration
from experiments.kinds.limplock.page.remedies import remedy_table
from experiments.kinds.limplock.scenarios import BASE
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import ASKED, ASKED_FILE, PROBE, Window, read_windows
from experiments.record.records import write_json, write_table
from experiments.record.result import flat
from experiments.tests.limplock_fixture import (
    MACHINES,
    PROBE_S,
    SLOW_LEADER,
    Made,
    manifest_of,
    written,
)
from experiments.tests.spec_fixture import refused


def has_reference(design: str) -> bool:
    """Tell if a design's arms are remedies: it names a reference, or has an arm `standard`."""
    values = read_experiment(*find_design(design)).values
    section = values.get("limplock")
    return section is not None and ("reference" in section or "standard" in values["arms"])


REMEDIES = list(filter(has_reference, designs_available()))
LABELS = dict(zip(MACHINES, ("leader", "follower-1", "follower-2"), strict=True))
LIMIT = 12.0
CALM = (1.0, 1.05, 0.98)
SLOW = {BASE: CALM, "100": (9.0, 9.4, 8.8)}
Took = Mapping[str, Sequence[float]]


def windows_of(**arms: Took) -> list[Window]:
    """Windows with these times, by arm, scenario and repeat; from `LIMIT` on they are cut short."""
    return [
        Window(arm, "Z3", "leader", scenario, repeat, MACHINES[0], MACHINES[1], LABELS,
               100.0 * repeat, 100.0 * repeat + 20.0, min(took_s, LIMIT), took_s >= LIMIT, {},
               False, 0, 1.0)
        for arm, times_s in arms.items()
        for scenario, times_of_repeats in times_s.items()
        for repeat, took_s in enumerate(times_of_repeats)
    ]  # fmt: skip


def told(standard: Took, remedy: Took) -> Remedy:
    [entry] = remedies_of(windows_of(standard=standard, remedy=remedy), "standard", Rule())
    return entry


def run_of(folder: Path, section: LimplockSection, **arms: Took) -> Result:
    return written(folder, section, windows_of(**arms), LIMIT)


SHORT = {BASE: CALM, "100": (99.0, 99.0, 99.0)}
NONE, FEW = "none shown", "insufficient"


@pytest.mark.parametrize(
    ("standard", "base", "faulty", "gain", "price", "verdict", "buys"),
    [
        (SLOW, CALM, (1.1, 1.2, 1.0), "heals", NONE, "no",
         Ratio(9.0 / 1.1, 9.0 / 1.1, 8.8 / 1.2, 9.4 / 1.0)),
        (SLOW, CALM, (6.0, 5.0, 5.5), "helps", NONE, "yes", None),
        (SLOW, (1.5, 1.6, 1.7), (11.0, 10.0, 10.5), "harms", "costs", "yes", None),
        # A base that is slower alone buys nothing, and one that is quicker saves.
        (SLOW, (3.1, 3.0, 3.2), (9.1, 8.9, 9.2), "nothing shown", "costs", None, None),
        (SLOW, (0.5, 0.6, 0.55), (9.1, 8.9, 9.2), "nothing shown", "saves", "yes", None),
        (SLOW, CALM, (9.1, 8.9, 9.3), "nothing shown", NONE, "yes", None),
        ({BASE: CALM, "100": CALM}, CALM, CALM, "nothing shown", NONE, "no", None),
        # Cut short without the remedy: no upper bound. With it: no lower one. In both: neither.
        (SHORT, CALM, (2.0, 3.0, 2.5), "helps", NONE, None,
         Ratio(LIMIT / 2.5, None, LIMIT / 3.0, None)),
        (SLOW, CALM, (2.0, 99.0, 2.5), FEW, NONE, None,
         Ratio(9.0 / 2.5, 9.0 / 2.5, 0.0, 9.4 / 2.0)),
        (SHORT, CALM, (99.0, 99.0, 99.0), "nothing shown", NONE, "yes",
         Ratio(0.0, None, 0.0, None)),
        # Neither shown nor excluded.
        (SLOW, CALM, (2.0, 10.0, 2.5), FEW, NONE, FEW, None),
    ],
)  # fmt: skip
def test_a_remedy_heals_helps_or_harms_and_costs_as_far_as_its_times_show(
    standard: Took, base: Sequence[float], faulty: Sequence[float], gain: str, price: str,
    verdict: str | None, buys: Ratio | None,
) -> None:  # fmt: skip
    entry = told(standard, {BASE: base, "100": faulty})
    assert (entry.gain, entry.price, entry.reason) == (gain, price, "")
    assert verdict is None or entry.remedy.operation == verdict
    assert buys is None or entry.buys == buys
    assert (entry.costs is not None and entry.costs.low > 1.0) == (price == "costs")


@pytest.mark.parametrize(
    ("remedy", "reason"),
    [
        ({BASE: CALM[:2], "100": (1.0, 1.1)}, "few"),
        ({BASE: (1.0, 3.0, 1.0), "100": (1.0, 1.0, 1.1)}, "differs"),
        ({BASE: (1.0, 99.0, 1.0), "100": (1.0, 1.0, 1.1)}, "base"),
        ({BASE: (1.0, 0.0, 1.0), "100": (1.0, 1.0, 1.1)}, "base"),
        ({BASE: CALM, "100": ()}, "base"),
    ],
)
def test_an_arm_that_cannot_be_judged_is_insufficient_and_says_why(
    remedy: Took, reason: str
) -> None:
    entry = told(SLOW, remedy)
    assert (entry.gain, entry.price) == ("insufficient", "insufficient")
    assert entry.reason.startswith("remedy: ")
    assert reason in entry.reason


def test_an_arm_without_the_reference_beside_it_is_insufficient() -> None:
    [entry] = remedies_of(windows_of(remedy=SLOW), "standard", Rule())
    assert (entry.gain, entry.buys, entry.costs) == ("insufficient", None, None)
    assert entry.reason.startswith("standard: ")


def test_a_base_that_was_begun_again_is_the_later_one() -> None:
    windows = windows_of(standard={BASE: (50.0,)}, remedy={})
    windows += windows_of(standard=SLOW, remedy=SLOW)
    [entry] = remedies_of(windows, "standard", Rule())
    assert [duration.seconds for duration in entry.without.base] == list(CALM)


def test_lines_are_by_remedy_then_by_severity() -> None:
    times_s = {BASE: CALM, "10": CALM, "100": CALM}
    entries = remedies_of(windows_of(standard=times_s, b=times_s, a=times_s), "standard", Rule())
    lines = [(entry.remedy.arm, entry.scenario) for entry in entries]
    assert lines == [("b", "10"), ("b", "100"), ("a", "10"), ("a", "100")]


def test_a_ratio_needs_as_many_values_as_its_confidence() -> None:
    durations = [Duration(seconds) for seconds in CALM]
    assert ratio(durations, durations, 0.95) is not None
    assert ratio(durations, durations[:2], 0.95) is None
    assert ratio(durations, [*durations[:2], Duration(0.0)], 0.95) is None


def test_the_result_the_page_and_the_terminal_have_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "limplock-zookeeper-remedies" / "20261124T000000Z"
    section = LimplockSection(rows=("Z3",), reference="standard")
    result = run_of(folder, section, standard=SLOW, quick={BASE: CALM, "100": (1.1, 1.2, 1.0)})
    [entry] = flat(result)["remedies"]
    assert (entry["gain"], entry["without"]["arm"], entry["remedy"]["arm"]) == (
        "heals", "standard", "quick",
    )  # fmt: skip
    agreements = {row["arm"]: row["agrees"]["operation"] for row in flat(result)["rows"]}
    assert agreements == {"standard": True, "quick": None}  # the paper had no such setting
    page = KIND.write_page(folder).read_text()
    for text in ('id="remedy-table"', 'href="#remedies"', "heals, 8.18 ×", "7.33 to 9.40",
                 "9.00, 9.40, 8.80 for 1.10, 1.20, 1.00 s"):  # fmt: skip
        assert text in page, text
    console = Console(width=160, record=True)
    KIND.print_result(result, console, folder / "report.html")
    assert "heals, 8.18 ×" in console.export_text()
    narrow_console = Console(width=80, record=True)
    KIND.print_result(result, narrow_console, folder / "report.html")
    screen = narrow_console.export_text()
    assert "\nZ3 (quick), 100 ×: 3 repeats" in screen
    row_table = screen.partition("row and scenario")[0]
    assert "operation" in row_table
    assert "workload" not in row_table, "a narrow table, whose words are whole"


def test_the_verdicts_of_node_and_cluster_stand_beside(tmp_path: Path) -> None:
    """An operation that is as slow in both arms, and nodes that answer in one of them."""
    Made(tmp_path, replace(SLOW_LEADER, operation={"100": 8.0}), arms=("standard", "quick"))
    windows = [window for window in read_windows(tmp_path)[1] if window.arm == "quick"]
    spans = [(window.start_s, window.end_s) for window in windows]
    operations = pl.read_parquet(tmp_path / ASKED_FILE)
    in_window = pl.any_horizontal([pl.col("start_s").is_between(*span) for span in spans])
    quick_operations = operations.with_columns(
        pl.when(in_window & (pl.col("purpose") == PROBE))
        .then(pl.col("start_s") + PROBE_S)
        .otherwise(pl.col("end_s"))
        .alias("end_s")
    )
    write_table(tmp_path / ASKED_FILE, quick_operations, ASKED)
    section = LimplockSection(rows=("Z3",), reference="standard")
    write_json(tmp_path / "manifest.json", manifest_of(section))
    [entry] = analyse(tmp_path).body["remedies"]
    assert (entry["without"]["operation"], entry["remedy"]["operation"]) == ("yes", "yes")
    assert (entry["without"]["cluster"], entry["remedy"]["cluster"]) == ("yes", "no")
    table = remedy_table([entry])
    assert table.head[-2:] == ("node", "cluster")
    assert (table.rows[0][-1].text, table.rows[0][-1].mood) == ("yes to no", "good")


def test_arms_that_are_generations_have_no_such_table(tmp_path: Path) -> None:
    result = run_of(tmp_path / "run", LimplockSection(rows=("Z3",)), old=SLOW, new=SLOW)
    assert flat(result)["remedies"] is None
    page = KIND.write_page(tmp_path / "run").read_text()
    assert "remedy-table" not in page
    assert 'href="#remedies"' not in page
    old_result = result | {
        "limplock": {
            name: value for name, value in result["limplock"].items() if name != "remedies"
        }
    }
    # The result of a run that was made before there was such a table.
    KIND.print_result(old_result, Console(quiet=True), tmp_path)


def line_of(buys: Mapping[str, Any]) -> str:
    [entry] = remedies_of(windows_of(standard=SLOW, remedy=SLOW), "standard", Rule())
    values = asdict(entry) | {"gain": "helps", "buys": buys}
    return remedy_table([values]).rows[0][4].text


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [(2.0, 2.0, "helps, 2.00 ×"), (2.0, 3.0, "helps, 2.00 to 3.00 ×"),
     (2.0, None, "helps, at least 2.00 ×"), (0.0, 3.0, "helps, at most 3.00 ×"),
     (0.0, None, "helps")],
)  # fmt: skip
def test_a_median_is_told_as_far_as_it_is_known(least: float, most: Any, text: str) -> None:
    assert line_of({"least": least, "most": most, "low": 0.0, "high": None}) == text


@pytest.mark.parametrize("name", REMEDIES)
def test_remedies_have_the_release_as_it_is_first(name: str) -> None:
    assert len(REMEDIES) > 3, "which are found by their text"
    design = load_design(name)
    section = check_design(design).section(LimplockSection, "limplock")
    assert section.reference == next(iter(design.experiment.arms)) == "standard"


@pytest.mark.parametrize(
    ("design", "was", "now", "got"),
    [
        ("limplock-zookeeper-remedies", 'reference = "standard"', 'reference = "standart"',
         "standart"),
        ("danger-zones-zookeeper", "[cases.limplock]",
         '[cases.limplock]\nreference = "new"', "a value"),
    ],
    ids=["no arm", "a search has none"],
)  # fmt: skip
def test_a_reference_that_cannot_be_is_refused_with_its_place(
    tmp_path: Path, design: str, was: str, now: str, got: str
) -> None:
    error = refused(tmp_path, design, was, now)
    assert error.place.startswith(f"{tmp_path}/limplock-zookeeper/experiment.toml:")
    assert error.place.endswith(": limplock.reference")
    assert got in str(error)
