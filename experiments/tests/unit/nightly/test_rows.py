"""A run's folder becomes lines of the history; the bench page says what was held against what."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from core.runfiles.result import read_result
from experiments.nightly.bench import bench_tables
from experiments.nightly.history import Run, Start
from experiments.nightly.rows import NightRun, front_of, lines_of
from experiments.paths import ROOT
from experiments.tests.nightly_fixture import T0, template_run

START = Start(night=3, number=2, at=T0, entry="wiki", design="mediawiki-noisy", digest="d1",
              note="set before", experiment="mediawiki-noisy", seed=9)  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    template_run(folder / "mediawiki-noisy" / "20261120T093000Z")
    return folder


@pytest.fixture
def run(results: Path) -> Path:
    return results / "mediawiki-noisy" / "20261120T093000Z"


@pytest.fixture
def lines(results: Path, run: Path) -> list[Run]:
    return lines_of(NightRun(START, 0, 7.5), run, results, T0)


def test_there_is_a_line_for_each_arm_with_the_run_s_own_figures(
    lines: list[Run], run: Path
) -> None:
    result = read_result(run)
    body = result["compare"]
    assert [line.arm for line in lines] == ["baseline", "replicated"]
    for line in lines:
        figures = body["arms"][line.arm]
        assert (line.entry, line.night, line.number, line.seed) == ("wiki", 3, 2, 9)
        assert line.folder == "mediawiki-noisy/20261120T093000Z"
        assert line.valid is result["valid"]
        assert line.p95 is not None
        assert line.p95.ms == figures["p95_ms"]
        assert line.p95.samples == figures["samples"]
        assert line.slo_met is result["slo"]["arms"][line.arm]["met"]
        assert line.requests == figures["requests"]
        assert line.commit == "3f2a91c"
        assert line.core_speed == 18.5
        assert line.plan["prices_as_of"] == "2026-05-04"
        assert line.plan["p95_ms"] == 231.0
        assert line.slo_set == "after"
        usd_per_month = line.cost["usd_per_month"]
        assert usd_per_month is not None
        assert 10 < usd_per_month < 20  # six slices of owned servers
        assert line.faults["injected"] == line.faults["reverted"] > 0


def test_gain_budget_and_cost_are_those_of_the_run(lines: list[Run], run: Path) -> None:
    body = read_result(run)["compare"]
    assert lines[0].gains == {}
    assert set(lines[1].gains) == set(body["improvement"])
    for name, gain in lines[1].gains.items():
        assert gain.log == pytest.approx(math.log(body["improvement"][name]["factor"]))
        assert gain.low == pytest.approx(math.log(body["improvement"][name]["ci_low"]))
    arm = body["arms"]["baseline"]
    assert (lines[0].burn["p95_ms"] > 1.0) is (arm["p95_ms"] > 500.0)
    assert lines[0].burn["max_error_share"] == pytest.approx(arm["error_share"] / 0.05)
    for line in lines:
        for percentile in (line.p50, line.p95, line.p99):
            assert percentile is not None
            assert (percentile.low_ms or 0.0) < percentile.ms < (percentile.high_ms or 0.0)
        per_month, per_million = line.cost["usd_per_month"], line.cost["usd_per_million_good"]
        assert per_month is not None
        good_per_month = body["arms"][line.arm]["goodput_per_s"] * 730 * 3600
        assert per_million == pytest.approx(1e6 * per_month / good_per_month)


def test_a_run_whose_tables_are_gone_keeps_its_figures(
    run: Path, tmp_path: Path, lines: list[Run]
) -> None:
    folder = tmp_path / "mediawiki-noisy" / "old"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("*.parquet"))
    old = lines_of(NightRun(START, 0, 7.5), folder, tmp_path, T0)[1]
    assert old.p95 is not None
    assert lines[1].p95 is not None
    assert (old.p95.ms, old.p95.low_ms) == (lines[1].p95.ms, None)
    assert old.gains == lines[1].gains


def _lines(run: Path, folder: Path, **changes: object) -> list[Run]:
    """The lines of a copy of the run with changes of its result."""
    shutil.copytree(run, folder)
    body = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**body, **changes}))
    return lines_of(NightRun(START, 0, 7.5), folder, folder.parents[1], T0)


def test_nodt_and_utilisation_of_a_capacity_run_are_kept(run: Path, tmp_path: Path) -> None:
    wiki = {"nodt_per_s": {"value": 41.0, "low": 40.0, "high": 42.0}, "utilisation": 0.93}
    none = {"nodt_per_s": None, "utilisation": None}
    body = {"workloads": {"wiki": wiki, "search": none}}
    (line,) = _lines(run, tmp_path / "cache" / "one", kind="capacity", capacity=body, slo=None)
    assert line.levels == {"nodt_per_s/wiki": 41.0, "utilisation/wiki": 0.93}


def test_the_utilisation_that_a_planned_run_measured_is_kept_by_tier(
    run: Path, tmp_path: Path
) -> None:
    body = json.loads((run / "result.json").read_text())["compare"]
    tiers = {"web": {"measured": 0.41}, "db": {"measured": None}}
    changed = {**body, "arms": {}, "predicted": {"utilisation": tiers}}
    (line,) = _lines(run, tmp_path / "wiki" / "planned", compare=changed)
    assert line.levels == {"utilisation/web": 0.41}


@pytest.mark.parametrize(
    "changes",
    [{"kind": "capacity", "capacity": {}}, {"compare": {"arms": {"baseline": 7}}},
     {"compare": []}, {"cost": None}, {"verdicts": []}],
)  # fmt: skip
def test_a_result_of_another_shape_is_a_line_that_is_not_valid(
    run: Path, tmp_path: Path, changes: dict[str, object]
) -> None:
    (line,) = _lines(run, tmp_path / "wiki" / "one", **changes)
    assert not line.valid
    assert line.reasons


def test_a_kind_without_arms_has_one_line_and_who_stopped_a_run_is_kept(
    run: Path, tmp_path: Path
) -> None:
    dice = {"kind": "dice", "dice": {"sixes": 3}, "slo": None, "found": "3 sixes"}
    (line,) = _lines(run, tmp_path / "cache" / "one", **dice)
    assert (line.kind, line.arm, line.valid) == ("dice", None, read_result(run)["valid"])
    assert (line.found, line.stopped) == ("3 sixes", "")
    stop = {"by": "guard", "reason": "p99 900 ms"}
    lines = _lines(run, tmp_path / "wiki" / "one", stopped=stop)
    assert {line.stopped for line in lines} == {"guard"}


@pytest.mark.parametrize("torn", [None, "{"])
def test_a_run_without_a_result_is_a_line_that_is_not_valid(
    tmp_path: Path, torn: str | None
) -> None:
    folder = tmp_path / "wiki" / "one"
    folder.mkdir(parents=True)
    if torn:
        (folder / "result.json").write_text(torn)
    (line,) = lines_of(NightRun(START, 1, 2.0), folder, tmp_path, T0)
    assert not line.valid
    assert line.reasons
    assert (line.exit_code, line.minutes, line.arm) == (1, 2.0, None)


def test_what_the_night_saw_makes_a_run_not_valid(run: Path, results: Path) -> None:
    lines = lines_of(NightRun(START, 130, 2.0, "it was ended"), run, results, T0)
    assert not any(line.valid for line in lines)
    assert lines[0].reasons[0] == "it was ended"


def _front(limit: str, *points: tuple[float, float]) -> dict[str, object]:
    points_json = [{"usd_per_month": usd, "predicted": {"p95_ms": ms}} for usd, ms in points]
    return {"limit": limit, "points": points_json}


def test_a_front_is_of_fleets_that_no_cheaper_one_beats_in_p95(tmp_path: Path) -> None:
    fronts = [
        _front("availability", (1.0, 1.0)),
        _front("p99_ms", (80.0, 300.0), (50.0, 400.0), (90.0, 310.0), (120.0, 100.0)),
    ]
    (tmp_path / "plan.json").write_text(json.dumps({"pareto": fronts}))
    points_of_front = [(point["usd_per_month"], point["p95_ms"]) for point in front_of(tmp_path)]
    assert points_of_front == [(50.0, 400.0), (80.0, 300.0), (120.0, 100.0)]


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"pareto": [{"limit": "p95_ms"}]}'])
def test_a_front_that_is_not_there_is_empty(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "plan.json").write_text(text)
    assert front_of(tmp_path) == []


RUNS = ROOT / "bench" / "runs"


def test_every_ratio_of_every_bench_file_stands_there_in_words(tmp_path: Path) -> None:
    for file in RUNS.glob("*.json"):
        folder = tmp_path / file.stem
        folder.mkdir()
        shutil.copy(file, folder)
        tables = bench_tables(folder)
        assert tables
        cell_texts = [cell.text for table in tables for row in table.rows for cell in row]
        assert not [text for text in cell_texts if "_" in text or "ratio" in text], file.name
        assert not [table.identity for table in tables if " " not in table.caption]


def test_what_nobody_wrote_words_for_is_not_lost_and_torn_files_are(tmp_path: Path) -> None:
    assert bench_tables(tmp_path) == []
    (tmp_path / "20260101T000000Z.json").write_text('{"http": {"1"')
    (tmp_path / "notes.json").write_text("{}")
    body = {"smtp": {"8": {"ratio_new": 2.0}}, "http": {"1": {"ratio": 1.5}}}
    (tmp_path / "20260102T030405Z.json").write_text(json.dumps(body))
    http, smtp = bench_tables(tmp_path)
    assert (smtp.identity, smtp.caption) == ("bench-smtp", "smtp")
    assert http.head[1:] == ("2026-01-02 03:04",)
    assert [cell.text for cell in smtp.rows[0]] == ["8, new", "2.00 ×"]
