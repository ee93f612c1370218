"""The summary on a terminal."""

from __future__ import annotations

import copy
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from core.runfiles.result import read_result
from experiments import kinds
from experiments.design.prediction import Prediction
from experiments.kinds.compare.folder import RunFolder, read_folder
from experiments.kinds.compare.host import caps_words, load_words
from experiments.kinds.compare.page import write_page
from experiments.kinds.compare.summary import summary_lines
from experiments.kinds.compare.terminal import print_summary
from experiments.kinds.compare.verdict import verdict
from experiments.report.tables import Cell, Table, named
from experiments.report.terminal import print_table
from experiments.report.text import by_number
from experiments.tests.planned_fixture import planned_run
from experiments.tests.report_fixture import FakeRun, fake_run


@pytest.fixture(scope="module")
def run() -> FakeRun:
    return fake_run(seed=4, measure_s=30.0)


def printed(summary: Mapping[str, Any], report: Path | None, width: int = 100) -> str:
    screen = io.StringIO()
    plan, arms = summary.get("plan") or {}, list(summary.get("arms") or {})
    run = RunFolder(Path("/nowhere/run"), summary=dict(summary), plan=plan, arms=arms)
    print_summary(run, Console(file=screen, width=width), report)
    return screen.getvalue()


def test_it_ends_with_the_sentences_of_the_page_s_first_screen(
    run: FakeRun, tmp_path: Path
) -> None:
    folder = run.write(tmp_path / "run")
    page = write_page(folder)
    screen = io.StringIO()
    result = read_result(folder)
    kinds.find(result["kind"]).print_result(result, Console(file=screen, width=100), page)
    text = " ".join(screen.getvalue().split())
    run_folder = read_folder(folder)
    sentences = [verdict(run_folder), *summary_lines(run_folder)]
    assert len(sentences) == 4
    index = -1
    for sentence in sentences:
        assert html.escape(sentence, quote=False) in page.read_text().replace("&#39;", "'")
        assert text.index(sentence) > index
        index = text.index(sentence)


def test_it_shows_both_arms_and_ends_with_the_whole_path(run: FakeRun) -> None:
    tier = {"nodes": 3, "spares": 1, "instance_type": "t3.small", "replicas": 2}
    plan = {"feasible": True, "usd_per_month": 60.0, "tiers": {"web": tier}}
    path = Path("/somewhere/[red]/" + "long-" * 30 + "/report.html")
    text = printed(run.summary(plan=plan), path)
    assert text.endswith(f"Report: {path}\n")
    for word in ("baseline", "replicated", "95 % interval", "60.00 USD", "valid: yes",
                 "Planned: web: 3 + 1 spare x t3.small, r = 2."):  # fmt: skip
        assert word in text
    assert "?" in next(line for line in text.splitlines() if " p99 " in line), "it is doubtful"
    assert text.count("\n?: ") == 1, "and the mark is explained"
    joined = " ".join(text.split())
    assert "cores 60.0 % to 90.0 % busy" in joined
    assert "the slowest at 85.0 % of the fastest one's core speed" in joined
    assert printed({}, Path("r.html")).endswith("Report: r.html\n")


def test_of_three_arms_the_improvement_is_the_best_ones_and_says_so(run: FakeRun) -> None:
    summary = run.summary()
    replicated_gain, arms = summary["improvement"], summary["arms"]
    best_gain = {
        figure: {**entry, "factor": 9.0, "ci_low": 8.0, "ci_high": 10.0}
        for figure, entry in replicated_gain.items()
    }
    three_arms = {**summary, "arms": {**arms, "tad-3": arms["replicated"]},
                  "comparison": {"replicated": replicated_gain, "tad-3": best_gain},
                  "slo": None}  # fmt: skip
    text = printed(three_arms, None, width=160)
    assert "improvement, tad-3" in text
    assert "With tad-3, p95 is 9.00 × lower than with " in text
    assert "9.00 ×" in next(line for line in text.splitlines() if " p95 " in line)
    assert "improvement," not in printed(summary, None, width=160)


def test_a_run_of_a_plan_shows_predicted_beside_measured_and_no_improvement() -> None:
    run = planned_run(measure_s=20.0)
    predicted = Prediction.model_validate(run.prediction)
    summary = run.summary(hosts=run.hosts, prediction=predicted)
    text = printed(summary, None)
    for phrase in ("predicted", "231 ms", "CPU over caps, db", "the planned machines"):
        assert phrase in text
    joined = " ".join(text.split())
    assert "The planned fleet, at 70.00 USD a month" in joined
    assert "An availability over a year is not measured" in joined
    assert "improvement" not in text


def test_reasons_against_the_run_are_printed(run: FakeRun) -> None:
    summary = run.summary(events=[], manifest={**run.manifest, "fingerprint_clean": None})
    text = printed(summary, None)
    assert "valid: no" in text
    assert "fingerprints were not checked" in text


def drawn(*rows: Any, head: Sequence[str], width: int = 60, beside: bool = False) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=width)
    print_table(Table("wide", "Wide", tuple(head), rows), console, beside=beside)
    return screen.getvalue()


WIDE = [f"what is measured {k}" for k in range(6)]


def test_a_table_too_wide_even_on_its_side_keeps_what_its_lines_are_called() -> None:
    rows = [(named(f"row {number} " + "word " * 7), *[named("1 s")] * 6) for number in (1, 2)]
    text = drawn(*rows, head=["row", *WIDE])
    assert all(title in text for title in WIDE)
    assert all(len(line) <= 60 for line in text.splitlines())
    assert drawn(head=["row", *WIDE]) == "", "a table without rows is not printed"


def test_a_question_mark_is_explained_below_its_table() -> None:
    plain_cell, doubtful_cell = Cell("1 s"), Cell("1 s", doubtful=True)
    assert "\n?: " in drawn((named("row"), doubtful_cell), head=["row", "p99"])
    assert "?" not in drawn((named("row"), plain_cell), head=["row", "p99"])


def test_a_name_too_long_for_its_column_is_broken_and_not_cut() -> None:
    names = [f"cache-reader-of-many-words-{arm}" for arm in ("native", "ilr", "tx")]
    text = drawn(*((named(name), *[named("1 s")] * 6) for name in names), head=["workload", *WIDE])
    assert "…" not in text
    columns = zip(*(line.split("┃")[2:5] for line in text.splitlines() if line.startswith("┃")),
                  strict=True)  # fmt: skip
    assert ["".join(cell.strip() for cell in column) for column in columns] == names


def test_figures_of_a_table_too_wide_are_whole_and_empty_columns_left_out() -> None:
    row = (named("GET /flag/[code], of two"), named("replicated"), Cell("260,644"), Cell("117 ms"),
           Cell("4.84 ms", True), Cell("7.28 ms", True), named(""))  # fmt: skip
    head = ("operation", "arm", "bytes", "p50", "p95", "p99", "SLO")
    text = drawn(*[row] * 9, head=head)
    assert "SLO" not in text
    for word in ("operation", "replicated", "260,644", "117 ms", "4.84 ms ?", "7.28 ms ?"):
        assert word in text


def test_words_beside_figures_that_stay_whole_are_not_broken() -> None:
    p95 = (named("p95"), Cell("38.5 ms", about="25.8 to 65.0 ms"), Cell("not measured"),
           Cell("42.3 to 96.2 ms"), named("as expected"))  # fmt: skip
    year = (named("availability over a year"), *[Cell("99.9955 %")] * 3,
            named("within the interval"))  # fmt: skip
    head = ("", "predicted", "measured", "95 % interval", "verdict")
    text = drawn(*[p95] * 6, year, head=head, width=76, beside=True)
    for word in ("availability", "38.5 ms (25.8 to 65.0 ms)", "not measured", "42.3 to 96.2 ms"):
        assert word in text


def test_machines_are_sorted_by_their_numbers() -> None:
    names = ["cache-10", "cache-2", "arbiter-web", "cache-1", "2-a"]
    by_numbers = sorted(names, key=by_number)
    assert by_numbers == ["2-a", "arbiter-web", "cache-1", "cache-2", "cache-10"]


def test_on_a_host_smaller_than_the_caps_it_says_which_of_the_two_limited(run: FakeRun) -> None:
    def words(**host: Any) -> str:
        run_folder = RunFolder(
            Path("results"), manifest=copy.deepcopy(run.manifest), summary=run.summary()
        )
        run_folder.manifest["host"] |= host
        return caps_words(run_folder)

    text = words()  # 2.8 of 2 cores, one block of four above 90 %
    assert "2.8 of the host's 2 cores" in text
    assert "1 of 4 blocks" in text
    assert words(cores=4) == ""


def test_the_tasks_of_a_locust_file_are_summed_over_blocks() -> None:
    counts = {"users": 5, "not_started": 1, "no_request": 0, "raised": 2, "timed_out": 0}
    tasks = {**counts, "replaced": 0, "outside": 7, "errors": ["users.py:3: KeyError: 'id' (2x)"]}
    worker = {"planned": 100, "tasks": tasks}
    block = {"workers": [worker], "cpu_share": 0.1, "ok": True, "limits": []}
    text = load_words([block, block])
    assert all(
        phrase in text for phrase in ("198 tasks", "2 not started", "4 raised", "users.py:3", "14 ")
    )
    assert "timed out" not in text
    assert "task" not in load_words([{**block, "workers": [{"planned": 100, "tasks": None}]}])
