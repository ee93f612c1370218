"""Faults one by one: phases and failures of a run whose truth is known; a tier that is filled."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from core.errors import MeasurementFailed
from core.runfiles.result import Result
from experiments import kinds
from experiments.commands.check import check_design
from experiments.design import Design, designs_available, load_design
from experiments.design.design import DESIGNS
from experiments.design.schedule import Block
from experiments.design.workloads import population_of
from experiments.kinds.performability import PerformabilityKind, fill, measure
from experiments.kinds.performability.analysis import _check_limits, not_as_warm
from experiments.kinds.performability.compared import difference
from experiments.kinds.performability.fill import Filler, ask, paths_of, shares_of
from experiments.kinds.performability.measure import fault_blocks
from experiments.kinds.performability.section import PerformabilitySection, fault_name
from experiments.kinds.performability.tables import fills_table
from experiments.load.plan import plan_block
from experiments.nightly.history import Start, missed
from experiments.nightly.rows import NightRun, lines_of
from experiments.nightly.tables import answer
from experiments.tests.performability_fixture import (
    LOST_EVERY,
    NOTICED_S,
    QUICK_MS,
    SLOW_AFTER_S,
    SLOW_MS,
    TIME_OUT_MS,
    under,
    write_run,
)
from experiments.tests.report_fixture import T0
from experiments.tests.spec_fixture import refused
from optimizer.tests.answers import Answer, answering

LOST_SHARE = 1.0 / LOST_EVERY
CRASH = "process.crash on store-2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def result(folder: Path) -> Result:
    return write_run(folder)


def test_each_fault_is_alone_in_a_block_and_both_arms_meet_the_same_arrivals() -> None:
    experiment = load_design("redis-faults").experiment
    blocks = fault_blocks(experiment)
    assert len(blocks) == 2 * 3 * len(experiment.faults)
    assert [block.repeat for block, _ in blocks] == list(range(len(blocks)))
    for block, fault in blocks:
        assert fault == block.repeat % len(experiment.faults)
    seeds = {(block.arm, block.pair): block.seed for block, _ in blocks}
    pairs = {pair for _, pair in seeds}
    assert all(seeds["baseline", pair] == seeds["replicated", pair] for pair in pairs)
    assert len(set(seeds.values())) == len(pairs)


def test_a_failure_lasts_as_long_as_users_feel_it_and_not_as_long_as_the_fault(
    result: Result,
) -> None:
    baseline, replicated = (under(result, CRASH, arm) for arm in ("baseline", "replicated"))
    assert replicated["fault_s"]["median"] == baseline["fault_s"]["median"] == 10.0
    assert replicated["failure_s"]["median"] == pytest.approx(NOTICED_S, abs=1.0)
    assert baseline["failure_s"]["median"] == pytest.approx(10.0 + SLOW_AFTER_S, abs=1.0)
    assert (replicated["detected"], replicated["detected_s"]["median"]) == (
        3,
        pytest.approx(3.0, abs=0.5),
    )
    assert (baseline["recovered"], baseline["repeats"]) == (3, 3)


def test_a_fault_that_no_arbiter_notices_has_no_degraded_phase(result: Result) -> None:
    limp = under(result, "net.limp (factor 100) on store-2", "replicated")
    assert (limp["detected"], limp["detected_s"]) == (0, None)
    assert list(limp["phases"]) == ["before", "fault", "after"]


def test_what_users_get_is_told_phase_by_phase(result: Result) -> None:
    phases = under(result, CRASH, "baseline")["phases"]
    assert list(phases) == ["before", "fault", "degraded", "recovery", "after"]
    assert phases["fault"]["goodput"] == pytest.approx(1.0 - LOST_SHARE, abs=0.12)
    assert phases["degraded"]["mean_ms"] == pytest.approx(SLOW_MS, rel=0.05)
    assert phases["degraded"]["punctuality"] == pytest.approx(QUICK_MS / SLOW_MS, rel=0.05)
    assert phases["before"]["demerits_per_request"] < 0.01
    timed_out = phases["fault"]["outcomes"]["time_out"]
    waited_s = (phases["fault"]["mean_ms"] - result["performability"]["ideal"]["latency_ms"]) / 1e3
    demerits = phases["fault"]["demerits"]
    assert demerits == pytest.approx(8.0 * timed_out + waited_s * phases["fault"]["requests"])


def test_the_better_arm_is_told_by_pairs_with_an_interval(result: Result) -> None:
    [crash] = [fault for fault in result["performability"]["faults"] if fault["name"] == CRASH]
    interval = crash["comparison"]["replicated"]["waited_s"]
    assert interval["pairs"] == 3
    assert interval["low"] <= interval["mean"] <= interval["high"]
    # baseline's answers are slow from NOTICED_S to SLOW_AFTER_S after the fault, 20 a second
    slow_s = (10.0 - NOTICED_S + SLOW_AFTER_S) * 20.0 * (SLOW_MS - QUICK_MS) / 1e3
    costs = [under(result, CRASH, arm)["cost"] for arm in ("baseline", "replicated")]
    lost_medians = [cost["lost"]["median"] for cost in costs]
    assert costs[0]["waited_s"]["median"] - costs[1]["waited_s"]["median"] == pytest.approx(
        slow_s + 2.0 * (lost_medians[0] - lost_medians[1]), abs=3.0
    )
    assert difference([1.0, 2.0]) == {"mean": 1.5, "low": None, "high": None, "pairs": 2}
    assert difference([2.0, 2.0, 2.0]) == {"mean": 2.0, "low": 2.0, "high": 2.0, "pairs": 3}


def test_the_year_is_what_the_rates_make_of_the_phases(result: Result) -> None:
    year = result["performability"]["year"]
    replicated = year["arms"]["replicated"]
    # crash, hang and link: NOTICED_S at a quarter lost, on 4 machines
    faults_per_year = 4 * (6.0 + 6.0 + 2.0)
    lost_share = faults_per_year * NOTICED_S * LOST_SHARE / (365 * 86400)
    lost_share += 4 * 1.0 * 3600.0 * LOST_SHARE / (365 * 86400)  # the limping card, never noticed
    assert replicated["lost"] == pytest.approx(lost_share, rel=0.25)
    assert replicated["goodput"] == pytest.approx(1.0 - replicated["lost"])
    assert next(iter(replicated["lost_by_fault"])).startswith("net.limp")
    assert replicated["lost_range"][0] <= replicated["lost"] <= replicated["lost_range"][1]
    assert year["arms"]["baseline"]["demerits_added"] > replicated["demerits_added"]
    wait_s = TIME_OUT_MS / 1e3 - QUICK_MS / 1e3
    assert replicated["demerits_added"] == pytest.approx(lost_share * (8.0 + wait_s), rel=0.3)


def test_the_years_slo_is_judged_by_the_last_arm(result: Result) -> None:
    slo = result["slo"]
    assert slo["asked"] == {"lost_share": 0.00001, "demerits_per_request": 0.001}
    assert slo["arm"] == "replicated"
    assert slo["met"] is slo["arms"]["replicated"]["met"]
    year = result["performability"]["year"]["arms"]["replicated"]
    assert slo["met"] == (year["lost"] <= 0.00001 and year["demerits_added"] <= 0.001)


def test_the_page_has_every_fault_and_figure(folder: Path, result: Result) -> None:
    page = (folder / "report.html").read_text()
    for fault in result["performability"]["faults"]:
        assert f"{fault['name']}: phase by phase" in page
    assert 'id="fills"' in page
    assert page.count("<figure") == 7 + len(result["performability"]["faults"])
    # The lower panel of each arm says its times: hidden labels there left the pages without any.
    panels = sum(len(fault["arms"]) for fault in result["performability"]["faults"])
    assert page.count("time since the fault, s") >= panels
    assert "NaN" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_a_block_that_begins_before_the_last_fault_has_passed_voids_the_run(
    folder: Path, result: Result, tmp_path: Path
) -> None:
    assert result["valid"]
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    table = pl.read_parquet(run / "requests.parquet")
    slowed = pl.when(pl.col("repeat") == 1).then(pl.col("latency_ms") * 3.0).otherwise("latency_ms")
    table.with_columns(slowed.alias("latency_ms")).write_parquet(run / "requests.parquet")
    findings = PerformabilityKind().analyse(run)
    [reason] = findings.verdicts["measurement"]["reasons"]
    assert reason.startswith("block 2, baseline: before its fault 61 ms")


@pytest.mark.parametrize(
    ("block", "second", "measured"),
    [
        (0, 1.0, []),  # while it warms up
        (0, 15.0, ["baseline"]),  # in its first fault
        (4, 15.0, ["baseline", "replicated"]),  # in the other arm's first
    ],
)
def test_a_run_that_was_cut_short_has_a_result_a_page_and_a_summary(
    folder: Path, result: Result, tmp_path: Path, block: int, second: float, measured: list[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    starts = [event["time_s"] for event in map(json.loads, lines) if event["what"] == "arm"]
    cut_s = sorted(starts)[2 * block] + second  # each block has two
    table = pl.read_parquet(run / "requests.parquet").filter(pl.col("intended_s") < cut_s)
    table.write_parquet(run / "requests.parquet")
    kept_lines = [line for line in lines if json.loads(line)["time_s"] < cut_s]
    (run / "events.jsonl").write_text("".join(kept_lines))
    kind = PerformabilityKind()
    cut_result = kind.conclude(run)
    page = kind.write_page(run)
    screen = io.StringIO()
    kind.print_result(cut_result, Console(file=screen), page)
    assert screen.getvalue().splitlines()[-1] == f"Report: {page}"
    assert list(cut_result["performability"]["faults"][0]["arms"]) == measured
    assert (cut_result["valid"], cut_result["slo"]["met"], cut_result["slo"]["arm"]) == (
        False,
        None,
        "replicated",
    )
    assert list(cut_result["slo"]["arms"]) == measured[:-1]  # the last has not met every fault
    assert result["slo"]["met"] is not None


def test_a_night_keeps_a_line_of_it(folder: Path, result: Result, tmp_path: Path) -> None:
    run = tmp_path / "redis-faults" / "20261124T000000Z"
    shutil.copytree(folder, run)
    start = Start(night=1, number=1, at=T0, entry="faults", design="redis-faults", digest="d",
                  seed=1, experiment="redis-faults")  # fmt: skip
    (line,) = lines_of(NightRun(start, 0, 20.0), run, tmp_path, T0)
    assert (line.kind, line.valid) == ("performability", True)
    assert line.found == result["found"]
    assert (line.arm, line.judged) == (None, None)
    assert line.slo_met is result["slo"]["met"] is False
    assert answer(line) == "SLO missed"
    assert missed([line]) == ["faults"]


OPERATIONS = 'operations = [{ name = "a", path = "/" }]'
STORE = '[performability.fill]\ntier = "store"\nrequests = 10\nheader = "x"\n\n[performability]'
AGAIN = 'for_s = 10.0, repeat = { distribution = "fixed", gap_s = 1, times_max = 2 }'


@pytest.mark.parametrize(
    ("name", "old", "new", "key"),
    [
        ("redis-faults", "at_s = 10.0", "at_s = 3.0", "faults.0"),
        ("redis-faults", "measure = 34", "measure = 24", "faults.0"),
        ("redis-faults", '{ machine = "store-2" }', '{ tier = "store", count = 2 }',
         "faults.0.select"),
        ("redis-faults", "for_s = 10.0", AGAIN, "faults.0.repeat"),
        ("redis-faults", '"process.hang"', '"process.crash"', "faults"),
        ("redis-faults", '"net.limp" = {', '"cpu.limp" = {', "performability.rates"),
        ("redis-faults", "lost_share = 0.00001", "lost_share = 2", "performability.slo.lost_share"),
        ("redis-faults", "per_year = 1.0", "per_year = 0", "rates.net.limp.per_year"),
        ("redis-faults", "[performability]", STORE, "fill"),
        # No time after its operator.
        ("press-faults", "wait_s = 5.0", "wait_s = 6.0", "faults.0"),
        ("press-faults", "wait_s = 5.0", "wait_s = 1.0", "performability.operator.wait_s"),
        ("press-faults", 'perf = "Perf-PRESS"', 'perf = "VIA-PRESS"', "performability.versions"),
        ("press-faults", "{ perf =", "{ other =", "performability.versions"),
        # A fill or a setting that cannot be.
        ("press-hang", 'tier = "web"\nrequests', 'tier = "nobody"\nrequests', "fill"),
        ("press-hang", "FAIL_AFTER_MS = 3000", "FAIL_AFTER_MS = 900", "FAIL_AFTER_MS"),
        ("press-hang", "FAIL_AFTER_MS = 3000", "WINDOW = 0", "WINDOW"),
        ("press-hang", "FAIL_AFTER_MS = 3000", "QUEUE = 0", "QUEUE"),
        ("press-hang", 'user = "page-reader"', OPERATIONS, "performability.fill"),
    ],
)  # fmt: skip
def test_a_design_that_cannot_be_is_refused_with_its_key(
    tmp_path: Path, name: str, old: str, new: str, key: str
) -> None:
    assert key in refused(tmp_path, name, old, new).place


def test_a_switch_is_one_fault_of_all_machines(tmp_path: Path) -> None:
    design = tmp_path / "redis-faults"
    shutil.copytree(DESIGNS / "redis-faults", design)
    toml = design / "experiment.toml"
    kind, selection = 'kind = "net.link_down", select = ', '{ machine = "store-2" }'
    assert kind + selection in toml.read_text()
    toml.write_text(toml.read_text().replace(kind + selection, kind + "{ all = true }"))
    switched = load_design(design)
    check_design(switched)
    names = [fault_name(fault.model_dump()) for fault in switched.experiment.faults]
    assert names[2] == "net.link_down on all machines"


BLOCK = Block(repeat=3, pair=1, arm="ha", seed=7)
HEADER = "x-press-source"


def _page(request: BaseHTTPRequestHandler, _: bytes) -> Answer:
    is_page = request.path == "/memory" or request.path.endswith(".html")
    source = "local" if request.path == "/memory" else "disk"
    return 200 if is_page else 404, {HEADER: source}, b""


@pytest.fixture
def url() -> Iterator[str]:
    with answering(_page) as address:
        yield address


@pytest.fixture(scope="module")
def design() -> Design:
    return load_design("press-hang")


def test_each_reply_is_told_in_its_place_and_what_failed_too(url: str) -> None:
    paths = ["/memory", "/1.html", "/nowhere"] * 20
    assert ask([url], paths, HEADER) == ["local", "disk", None] * 20
    assert shares_of(["local", "disk", None, "disk"]) == {"disk": 2 / 3, "local": 1 / 3}


def test_who_does_not_answer_fails_its_requests_alone(url: str) -> None:
    sources = ask([url, "http://127.0.0.1:1/"], ["/memory"] * 4, HEADER)
    assert sources == ["local", None, "local", None]


def test_a_fill_asks_what_the_block_is_likely_to_ask_and_not_the_blocks_own_choices(
    design: Design,
) -> None:
    workload = design.workloads["page-reader"]
    plan = plan_block({"web": ["http://127.0.0.1:1/"]}, design.experiment, BLOCK, workload)
    own_paths = [plan.operations[place].request for place in plan.operation_of]
    population = population_of(workload)
    first_paths = paths_of(design.experiment, population, BLOCK, 4000)
    more_paths = paths_of(design.experiment, population, BLOCK, 5000)
    assert len(first_paths) == 4000
    assert more_paths[:4000] == first_paths
    assert first_paths != own_paths[:4000]
    [(commonest, _)] = Counter(own_paths).most_common(1)
    assert first_paths.count(commonest) > 10  # of 18,000 pages
    paths_of_pair = paths_of(design.experiment, population, replace(BLOCK, arm="perf"), 4000)
    assert paths_of_pair == first_paths  # arms of a pair are filled alike


def _filler(
    design: Design, url: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Filler, list[str], list[Any]]:
    actions: list[str] = []
    writers: list[Any] = []
    monkeypatch.setattr(fill, "configure", lambda _, arm, __: actions.append(f"configure {arm}"))
    monkeypatch.setattr(
        fill, "restart_tier", lambda *arguments: actions.append(f"restart {arguments[2]}")
    )
    monkeypatch.setattr(fill, "entries_for", lambda *_: {"web": (url,)})
    testbed: Any = SimpleNamespace(
        design=design, fleet=SimpleNamespace(inventory=None), keep=writers.append
    )
    section = kinds.section_of(kinds.kind_of(design), design)
    assert section.fill is not None
    return Filler(testbed, section.fill.model_copy(update={"requests": 200})), actions, writers


def test_a_tier_is_started_anew_with_the_arms_settings_before_it_is_filled(
    design: Design, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    filler, actions, [write] = _filler(design, url, monkeypatch)
    assert write(tmp_path) is None
    filler.fill(BLOCK)
    assert actions == ["configure ha", "restart web"]
    [fill_line] = write(tmp_path)["fills"]
    assert (fill_line["repeat"], fill_line["arm"], fill_line["requests"], fill_line["failed"]) == (
        3,
        "ha",
        200,
        0,
    )
    assert fill_line["sources"] == {"disk": 1.0}


def test_a_tier_that_does_not_answer_is_not_measured(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler, _, _ = _filler(design, "http://127.0.0.1:1/", monkeypatch)
    with pytest.raises(MeasurementFailed):
        filler.fill(BLOCK)


def test_every_block_is_filled_before_it_is_loaded(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions: list[tuple[str, int]] = []

    class _Runner:
        def settle(self, _: Any) -> None:
            """Nothing."""

        def run(self, block: Block, *_: Any) -> None:
            actions.append(("run", block.repeat))

    class _Filled:
        def __init__(self, *_: Any) -> None:
            """Nothing."""

        def fill(self, block: Block) -> None:
            actions.append(("fill", block.repeat))

    monkeypatch.setattr(measure, "blocks_on", lambda _: _Runner())
    monkeypatch.setattr(measure, "Filler", _Filled)
    monkeypatch.setattr("time.sleep", lambda _: None)
    narrator = SimpleNamespace(step=nullcontext, detail=lambda _: None)
    section = kinds.section_of(kinds.kind_of(design), design)
    measure.measure(SimpleNamespace(design=design, narrator=narrator), section)  # type: ignore[arg-type]
    assert actions == [(action, index) for index in range(9) for action in ("fill", "run")]


def _fills(disk: list[float]) -> list[dict[str, Any]]:
    return [
        {"repeat": index, "arm": "ab"[index % 2], "requests": 1000, "failed": 0, "took_s": 1.0,
         "sources": {"disk": share, "local": 1.0 - share}}
        for index, share in enumerate(disk)
    ]  # fmt: skip


def test_a_block_that_begins_otherwise_warm_is_a_reason_against_the_run() -> None:
    assert not_as_warm(_fills([0.14, 0.15, 0.14, 0.16])) == []
    reasons = not_as_warm(_fills([0.14, 0.15, 0.14, 0.31]))
    assert [reason.split(",")[0] for reason in reasons] == ["block 4", "block 4"]  # disk, local
    assert not_as_warm([]) == []


def test_the_table_has_the_least_and_most_of_each_source_by_arm() -> None:
    table = fills_table(_fills([0.14, 0.15, 0.16, 0.17]))
    assert table is not None
    assert table.head[3:] == ("from disk", "from local")
    assert [row[3].text for row in table.rows] == ["14.0 to 16.0 %", "15.0 to 17.0 %"]
    assert fills_table([]) is None


def test_the_hang_is_met_by_a_patience_longer_and_one_shorter(design: Design) -> None:
    (hang,) = design.experiment.faults
    assert hang.for_s is not None
    patience_ms: dict[str, Any] = {
        arm: design.experiment.arms[arm].of("web").role["FAIL_AFTER_MS"]
        for arm in ("patient", "ha")
    }
    assert patience_ms["ha"] < 1e3 * hang.for_s < patience_ms["patient"]


@pytest.mark.parametrize("name", [name for name in designs_available() if "press" in name])
def test_every_design_of_press_fills_its_memories(name: str) -> None:
    design = load_design(name)
    section = kinds.section_of(kinds.kind_of(design), design)
    assert isinstance(section, PerformabilitySection)
    assert section.fill is not None


def test_a_range_of_equal_ends_is_one_value_and_no_number_is_written_as_a_power() -> None:
    fills = [{"arm": "a", "requests": 1000, "sources": {"disk": share}} for share in (0.1, 0.1)]
    table = fills_table(fills)
    assert table is not None
    assert table.rows[0][3].text == "10.0 %"
    slo: Any = _check_limits({"lost_share": 1e-05}, {"lost": 1.15e-04, "demerits_added": 0.0})
    assert slo["met"] is False
    assert "at most 0.00001" in slo["reasons"][0]
