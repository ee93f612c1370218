"""A run's folder becomes lines of the history."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from core.runfiles.result import read_result
from experiments.nightly.history import Run, Start
from experiments.nightly.rows import NightRun, front_of, lines_of
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
def lines(results: Path, run: Path, few_draws: None) -> list[Run]:
    del few_draws
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


def test_percentiles_lie_within_their_intervals(lines: list[Run]) -> None:
    for line in lines:
        for one in (line.p50, line.p95, line.p99):
            assert one is not None
            assert one.low_ms is not None
            assert one.high_ms is not None
            assert one.low_ms < one.ms < one.high_ms


def test_the_gain_is_the_logarithm_of_the_run_s_factor(lines: list[Run], run: Path) -> None:
    improvement = read_result(run)["compare"]["improvement"]
    assert lines[0].gains == {}
    assert set(lines[1].gains) == set(improvement)
    for name, gain in lines[1].gains.items():
        assert gain.log == pytest.approx(math.log(improvement[name]["factor"]))
        assert gain.low == pytest.approx(math.log(improvement[name]["ci_low"]))


def test_a_budget_burns_at_one_where_just_as_much_is_bad_as_may_be(
    lines: list[Run], run: Path
) -> None:
    arm = read_result(run)["compare"]["arms"]["baseline"]
    beyond = arm["p95_ms"] > 500.0
    assert (lines[0].burn["p95_ms"] > 1.0) is beyond
    assert lines[0].burn["max_error_share"] == pytest.approx(arm["error_share"] / 0.05)


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


def test_a_million_good_requests_cost_what_the_fleet_does_at_the_rate_measured(
    lines: list[Run], run: Path
) -> None:
    for line in lines:
        good_per_s = read_result(run)["compare"]["arms"][line.arm]["goodput_per_s"]
        per_month, per_million = (
            line.cost[key] for key in ("usd_per_month", "usd_per_million_good")
        )
        assert per_month is not None
        assert per_million == pytest.approx(1e6 / good_per_s * per_month / (730 * 3600))


def _changed(run: Path, folder: Path, **changes: object) -> Path:
    shutil.copytree(run, folder)
    body = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**body, **changes}))
    return folder


def test_nodt_and_utilisation_of_a_capacity_run_are_kept(run: Path, tmp_path: Path) -> None:
    wiki = {"nodt_per_s": {"value": 41.0, "low": 40.0, "high": 42.0}, "utilisation": 0.93}
    none = {"nodt_per_s": None, "utilisation": None}
    body = {"workloads": {"wiki": wiki, "search": none}}
    folder = _changed(run, tmp_path / "cache" / "one", kind="capacity", capacity=body, slo=None)
    (line,) = lines_of(NightRun(START, 0, 7.5), folder, tmp_path, T0)
    assert line.levels == {"nodt_per_s/wiki": 41.0, "utilisation/wiki": 0.93}


def test_the_utilisation_that_a_planned_run_measured_is_kept_by_tier(
    run: Path, tmp_path: Path
) -> None:
    body = json.loads((run / "result.json").read_text())["compare"]
    tiers = {"web": {"measured": 0.41}, "db": {"measured": None}}
    changed = {**body, "arms": {}, "predicted": {"utilisation": tiers}}
    folder = _changed(run, tmp_path / "wiki" / "planned", compare=changed)
    (line,) = lines_of(NightRun(START, 0, 7.5), folder, tmp_path, T0)
    assert line.levels == {"utilisation/web": 0.41}


@pytest.mark.parametrize(
    "changes",
    [{"kind": "capacity", "capacity": {}}, {"compare": {"arms": {"baseline": 7}}},
     {"compare": []}, {"cost": None}, {"verdicts": []}],
)  # fmt: skip
def test_a_result_of_another_shape_is_a_line_that_is_not_valid(
    run: Path, tmp_path: Path, changes: dict[str, object]
) -> None:
    folder = _changed(run, tmp_path / "wiki" / "one", **changes)
    (line,) = lines_of(NightRun(START, 0, 2.0), folder, tmp_path, T0)
    assert not line.valid
    assert line.reasons


def test_a_kind_without_arms_has_one_line(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "one"
    shutil.copytree(run, folder)
    body = json.loads((folder / "result.json").read_text())
    body = {**body, "kind": "dice", "dice": {"sixes": 3}, "slo": None, "found": "3 sixes"}
    (folder / "result.json").write_text(json.dumps(body))
    (line,) = lines_of(NightRun(START, 0, 7.5), folder, tmp_path, T0)
    assert (line.kind, line.arm, line.valid) == ("dice", None, body["valid"])
    assert (line.found, line.stopped) == ("3 sixes", "")


def test_who_stopped_a_run_is_kept(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mediawiki-noisy" / "one"
    shutil.copytree(run, folder)
    body = json.loads((folder / "result.json").read_text())
    body["stopped"] = {"by": "guard", "reason": "p99 900 ms"}
    (folder / "result.json").write_text(json.dumps(body))
    lines = lines_of(NightRun(START, 1, 7.5), folder, tmp_path, T0)
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
    made = [{"usd_per_month": usd, "predicted": {"p95_ms": ms}} for usd, ms in points]
    return {"limit": limit, "points": made}


def test_a_front_is_of_fleets_that_no_cheaper_one_beats_in_p95(tmp_path: Path) -> None:
    fronts = [
        _front("availability", (1.0, 1.0)),
        _front("p99_ms", (80.0, 300.0), (50.0, 400.0), (90.0, 310.0), (120.0, 100.0)),
    ]
    (tmp_path / "plan.json").write_text(json.dumps({"pareto": fronts}))
    found = [(point["usd_per_month"], point["p95_ms"]) for point in front_of(tmp_path)]
    assert found == [(50.0, 400.0), (80.0, 300.0), (120.0, 100.0)]


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"pareto": [{"limit": "p95_ms"}]}'])
def test_a_front_that_is_not_there_is_empty(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "plan.json").write_text(text)
    assert front_of(tmp_path) == []
