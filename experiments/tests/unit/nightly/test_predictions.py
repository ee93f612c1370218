"""Predictions: kept in the history with what was measured, and shown on a page of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from experiments.design.prediction import PLANNED_FOLDER
from experiments.nightly.folders import newest_runs, prune
from experiments.nightly.history import History, PredictedValue, Prediction, Writer, broken
from experiments.nightly.predictions_page import by_figure, headline, list_table, predictions_values
from experiments.nightly.site import build_site
from experiments.nightly.suite import Suite, load_suite
from experiments.tests.nightly_fixture import T0, made_up_run, suite_file, write_nights
from experiments.tests.nights import Nights
from experiments.tests.planned_fixture import planned_run

FOLDER = f"mediawiki-noisy/{PLANNED_FOLDER}/one"


def figure(
    measured: float, predicted: float = 100.0, *, covered: bool | None = None
) -> PredictedValue:
    low, high = (None, None) if covered is None else (predicted / 2, predicted * 1.5)
    return PredictedValue(predicted=predicted, low=low, high=high, measured=measured,
                  measured_low=measured * 0.9, measured_high=measured * 1.2,
                  covered=covered)  # fmt: skip


def prediction(night: int = 1, **changes: Any) -> Prediction:
    values: dict[str, Any] = {
        "night": night, "at": T0, "number": 1, "entry": "mediawiki-noisy", "run": "one",
        "folder": FOLDER, "valid": True, "promise": "kept", "services": ("mediawiki", "mariadb"),
        "policy": "tad", "utilisation": 0.5, "usd_before": 12.0, "usd_after": 9.0,
        "figures": {"p95_ms": figure(120.0, covered=True), "cpu/web": figure(0.5, 0.4)},
    }  # fmt: skip
    return Prediction(**{**values, **changes})


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a planned fleet."""
    return planned_run(measure_s=20.0).write(tmp_path_factory.mktemp("planned") / "run")


def closing(nights: Nights, planned: Path, **acts: list[str]) -> Any:
    """A night with a design that closes the loop."""
    (nights.folder / "planned").symlink_to(planned)
    suite = nights.suite("mediawiki-noisy: close = true", "memcached-noisy")
    return suite, nights.night(suite, acts)


def test_a_night_keeps_the_prediction_of_a_closed_loop_apart(nights: Nights, planned: Path) -> None:
    suite, outcome = closing(nights, planned)
    closes_by_design = {Path(words[1]).name: "--close" in words for words in nights.calls("run")}
    assert closes_by_design == {"mediawiki-noisy": True, "memcached-noisy": False}
    history = nights.history()
    result = json.loads((planned / "result.json").read_text())
    [line] = history.predictions
    assert (line.entry, line.night, line.number) == ("mediawiki-noisy", 1, 1)
    assert (suite.results / line.folder / "predicted.json").is_file()
    assert line.promise == result["promise"]["verdict"]
    assert line.source_run == result["promise"]["source_run"]
    assert line.services == ("mediawiki", "mariadb")
    assert line.policy == "tad"
    latency = result["compare"]["predicted"]["latency"]["p95_ms"]
    assert line.figures["p95_ms"].measured == latency["measured"]
    assert line.figures["p95_ms"].predicted == latency["predicted"]
    assert {"cpu/web", "cpu/db"} < set(line.figures)
    assert {run.arm for run in history.runs} == {"baseline", "replicated"}
    assert all(PLANNED_FOLDER not in str(run.folder) for run in history.runs)
    assert outcome.broken == tuple(["mediawiki-noisy"] if line.promise == "broken" else [])


@pytest.mark.parametrize(("valid", "code"), [(True, 1), (False, 4)])
def test_a_promise_broken_in_a_valid_run_has_an_exit_code(
    nights: Nights, planned: Path, tmp_path: Path, valid: bool, code: int
) -> None:
    changed = Path(shutil.copytree(planned, tmp_path / "changed"))
    result = json.loads((planned / "result.json").read_text())
    result["promise"]["verdict"], result["valid"] = "broken", valid
    (changed / "result.json").write_text(json.dumps(result))
    _, outcome = closing(nights, changed)
    assert outcome.exit_code == code
    assert broken(nights.history(), 1) == (["mediawiki-noisy"] if valid else [])


def test_a_planned_run_that_left_no_result_is_no_prediction(nights: Nights, tmp_path: Path) -> None:
    cut_short = tmp_path / "cut short"
    cut_short.mkdir()
    (cut_short / "manifest.json").write_text("{}")
    _, outcome = closing(nights, cut_short)
    assert nights.history().predictions == ()
    assert set(outcome.incomplete) == {"mediawiki-noisy"}
    assert outcome.exit_code == 4
    assert {run.entry for run in nights.history().runs} == {"mediawiki-noisy", "memcached-noisy"}


def test_a_design_of_a_kind_that_plans_nothing_cannot_close(nights: Nights) -> None:
    with pytest.raises(InputError) as caught:
        nights.suite("press-load: close = true")
    assert "close" in str(caught.value)


def test_runs_of_planned_fleets_are_told_from_the_design_s_own() -> None:
    own_runs = [Path("wiki/20261101T010000Z"), Path("wiki/20261102T010000Z")]
    planned_runs = [Path("wiki/planned/20261101T011000Z")]
    assert newest_runs([*own_runs, *planned_runs]) == (own_runs[-1], planned_runs[0])
    assert newest_runs(own_runs) == (own_runs[-1], None)
    assert newest_runs([]) == (None, None)


def test_requests_of_planned_runs_are_pruned_too(nights: Nights) -> None:
    suite = nights.suite("mediawiki-noisy", keep_parquet_nights=1)
    table = suite.results / FOLDER / "requests.parquet"
    table.parent.mkdir(parents=True)
    table.touch()
    (suite.folder / "logs").mkdir(parents=True)
    write_nights(suite.folder, [made_up_run(1), made_up_run(2)], ["mediawiki-noisy"])
    Writer(suite.folder).append(prediction(1))
    prune(suite, nights.history())
    assert not table.exists()


def cells(table: Any) -> dict[str, list[str]]:
    assert {len(row) for row in table.rows} == {len(table.head)}
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_coverage_and_error_are_of_the_figures_that_have_them() -> None:
    predictions = [
        prediction(1, figures={"p95_ms": figure(120.0, covered=True), "cpu/web": figure(0.5, 0.4)}),
        prediction(2, figures={"p95_ms": figure(300.0, covered=False), "cpu/db": figure(0.2, 0.4)}),
        prediction(3, figures={"p95_ms": figure(90.0)}),
    ]
    table = by_figure(predictions)
    assert table is not None
    assert cells(table) == {
        "p95": ["3", "1 of 2", "20 %", "+200 %"],
        "CPU of a tier": ["2", "–", "38 %", "-50 %"],
    }


def test_a_run_that_is_not_valid_is_listed_and_counts_for_nothing() -> None:
    predictions = (prediction(1), prediction(2, valid=False, promise="undecided"))
    history = History(predictions=predictions)
    values: Any = predictions_values(history, frozenset())
    assert cells(values["tables"][0])["p95"][0] == "1"
    assert [row[0].text for row in values["list"].rows] == ["2", "1"]
    assert list_table(()) is None
    assert headline(()) != headline(predictions)


def test_the_page_draws_each_prediction_beside_the_measured_and_links_its_report(
    tmp_path: Path,
) -> None:
    suite = load(tmp_path)
    report = suite.results / FOLDER / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text("<h1>the planned fleet</h1>")
    write_nights(suite.folder, [made_up_run(1), made_up_run(2)], ["mediawiki-noisy"])
    Writer(suite.folder).append(prediction(1), prediction(2, valid=False))
    page = build_site(suite).parent / "predictions.html"
    html = page.read_text()
    figure = html.split('id="p95-predictions"', 1)[1].split("</figure>", 1)[0]
    drawing = figure.split('<div class="drawing">', 1)[1].split("<template>", 1)[0]
    assert drawing.count("<path") >= 4  # two predictions, each beside what was measured
    assert 'id="p95-error"' in html
    assert f'href="runs/{FOLDER}/report.html"' in html
    assert (page.parent / "runs" / FOLDER / "report.html").is_file()
    history = json.loads((page.parent / "history.json").read_text())
    assert len(history["predictions"]) == 2


def load(folder: Path) -> Suite:
    return load_suite(suite_file(folder, "mediawiki-noisy"))
