"""The simulator's command, its law, and what a run tells it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from core.errors import EnvironmentMissing, InputError
from core.runfiles.requests import WARM_UP, measured
from core.statistics.percentiles import counted
from optimizer.fit import fit, read_results
from optimizer.fit.service import TierFit
from optimizer.fit.spec import TierSettings
from optimizer.simulation import fidelity, program, reports, simulate
from optimizer.simulation.arm import Arm, tier_scenario, visits
from optimizer.simulation.law import (
    SPEED_LEAST,
    Law,
    call_s,
    counted_s,
    fit_law,
    fitted_tier,
    lower_decile_distance,
    pages_s,
)
from optimizer.tests.command_line import invoke

QUEUE = {
    "seed": 1,
    "arrivals": {"kind": "poisson", "rate_per_s": 0.5},
    "requests": 50_000,
    "tiers": [{"name": "queue", "servers": 1, "work": {"kind": "exponential", "mean_s": 1.0}}],
}


def test_the_command_simulates_a_file_and_says_what_is_unstable(tmp_path: Path) -> None:
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(QUEUE))
    result = invoke("simulate", "--input", str(file), "--json")
    assert result.exit_code == 0
    latency = json.loads(result.stdout)["reports"][0]["latency"]
    assert latency["mean_s"] == pytest.approx(2.0, abs=3 * latency["mean_half_width_s"])
    table = invoke("simulate", "--input", str(file))
    assert "queue" in table.stdout
    assert "events in" in table.stdout
    overloaded = QUEUE | {"arrivals": {"kind": "poisson", "rate_per_s": 2.0}, "in_flight_max": 500}
    file.write_text(json.dumps(overloaded))
    result = invoke("simulate", "--input", str(file))
    assert result.exit_code == 1
    assert "unstable" in result.stdout


def test_the_example_can_be_simulated() -> None:
    text = invoke("simulate", "--example").stdout
    scenarios = json.loads(text)["scenarios"]
    outcomes = reports([scenario | {"requests": 200} for scenario in scenarios])
    assert [report["stopped"] for report in outcomes] == ["done", "done"]


def test_a_refusal_names_the_place_and_a_missing_program_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = QUEUE | {"tiers": [QUEUE["tiers"][0] | {"servers": 0}]}  # type: ignore[index]
    with pytest.raises(
        InputError, match=r"^scenario: tiers\[0\].servers: expected 1 to 1000000 \(got 0"
    ):
        simulate(json.dumps(wrong))
    with pytest.raises(InputError, match="JSON"):
        simulate("no JSON")
    monkeypatch.setattr(program, "PROGRAM", tmp_path / "none")
    with pytest.raises(EnvironmentMissing, match="make setup"):
        simulate(json.dumps(QUEUE))


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ((), "--input"),
        (("--input", "s.json", "--example"), "--input"),
        (("--input", "s.json", "--from", "run"), "--input"),
        (("--replay", "web.trace", "--from", "run"), "--from"),
        (("--input", "s.json", "--arm", "baseline"), "--arm"),
        (("--example", "--predict", "replicated"), "--predict"),
        (("--replay", "web.trace", "--threads", "2"), "--threads"),
        (("--from", "run", "--threads", "2"), "--threads"),
    ],
)
def test_options_that_would_change_nothing_are_refused(words: tuple[str, ...], option: str) -> None:
    result = invoke("simulate", *words)
    assert isinstance(result.exception, InputError)
    assert result.exception.place == option


SETTINGS = {
    "policy": "round-robin",
    "servers": 2,
    "tokens_per_server": 1,
    "observation_age_us_max": 10_000_000,
    "waiting_max": 10,
    "hedge_percentile": 0.95,
    "held_for_sessions": False,
    "seed": 7,
    "guardrails": {"extra_load_max": None, "extra_load_window_us": 1_000_000, "ejection": None},
}


def acquire(now_us: int, request: int, server: int) -> dict[str, object]:
    """Return a trace line: a call for one server, and the server that it got."""
    step = {"request": request, "r": 1, "probes": True, "exclude": [], "avoid": []}
    answer = {"acquired": {"granted": 1, "waiting": 0, "hedge": None}}
    grants = [[request, server]]
    step = {"acquire": step}
    return {"call": {"now_us": now_us, "step": step, "answer": answer, "grants": grants}}


def trace(second: int = 1, version: int = 4) -> str:
    release = {"now_us": 3000, "step": {"release": {"server": 0}}, "answer": "nothing"}
    lines = [
        {"begin": {"version": version, "settings": SETTINGS}},
        acquire(1000, 0, 0),
        acquire(2000, 1, second),
        {"call": release | {"grants": []}},
        {"end": {"reason": "exit", "calls": 3}},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_trace_is_replayed_and_a_decision_that_differs_is_named(tmp_path: Path) -> None:
    file = tmp_path / "web.trace"
    file.write_text(trace())
    result = invoke("simulate", "--replay", str(file))
    assert result.exit_code == 0, result.output
    assert "3 of 3 decisions are the same" in result.stdout
    file.write_text(trace(second=0))
    result = invoke("simulate", "--replay", str(file), "--json")
    body = json.loads(result.stdout)
    assert (result.exit_code, body["compared"], body["equal"], body["ended"]) == (1, 3, 2, "exit")
    assert body["first_difference"]["line"] == 3
    assert json.loads(body["first_difference"]["recorded"]) == acquire(2000, 1, 0)
    result = invoke("simulate", "--replay", str(file))
    assert result.exit_code == 1
    assert f"{file}:3: " in result.stdout
    for text, message in [
        (trace()[:-5], r"web.trace:5: expected a whole line \(got the beginning of one"),
        (trace(version=3), r"web.trace:1: version: expected 4 \(got 3"),
    ]:
        file.write_text(text)
        refusal = invoke("simulate", "--replay", str(file))
        assert isinstance(refusal.exception, InputError)
        assert re.search(message, str(refusal.exception)), refusal.exception
    missing = invoke("simulate", "--replay", str(tmp_path / "none"))
    assert "expected a trace" in str(missing.exception)


def test_a_run_is_fitted_and_another_arm_predicted_with_how_far_off_it_is(run_dir: Path) -> None:
    """The synthetic run's latencies are drawn, not queued: only the fitted arm can be met."""
    arms = json.loads((run_dir / "manifest.json").read_text())["spec"]["arms"]
    first, second = list(arms)[:2]
    words = ["simulate", "--from", str(run_dir), "--arm", first, "--predict", second]
    result = invoke(*words, "--json")
    assert result.exit_code == 0, result.output
    [body] = json.loads(result.stdout)
    real, ours = body["fitted"]["p50"]
    assert ours == pytest.approx(real, rel=0.15)
    for name, (real, ours) in body["predicted"].items():
        assert body["off"][name] == pytest.approx(ours / real - 1)
    assert first == "baseline"  # which is fitted if no arm is named
    table = invoke("simulate", "--from", str(run_dir), "--predict", second)
    assert f"{first} (fitted)" in table.stdout
    refusal = invoke(*words[:-1], "nobody")
    assert isinstance(refusal.exception, InputError)
    assert "expected one of" in str(refusal.exception)


def test_machines_of_one_host_share_its_cores_with_what_else_ran_there(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    block = {"arm": "baseline", "busy_share": 0.2, "stolen_share": 0.05, "others_share": 0.1}
    second_block = {**block, "arm": "replicated", "busy_share": 0.9}
    by_cores = {}
    for cores in (64, 4):
        manifest["host"] = {"cores": cores, "blocks": [block, second_block]}
        (run / "manifest.json").write_text(json.dumps(manifest))
        words = ["simulate", "--from", str(run), "--arm", "baseline", "--predict", "replicated"]
        [by_cores[cores]] = json.loads(invoke(*words, "--json").stdout)
    # Of a quarter of the cores, what the tiers' servers used themselves was not others'.
    requests = pl.read_parquet(run / "requests.parquet").filter(pl.col("arm") == "baseline")
    hosts = pl.read_parquet(run / "hosts.parquet").filter(pl.col("tier").is_in(["web", "db"]))
    blocks = [
        hosts.filter(
            pl.col("time_s").is_between(repeat["intended_s"].min(), repeat["done_s"].max())
        )
        for repeat in requests.partition_by("repeat")
    ]
    used_cores = (
        pl.concat(blocks).group_by("machine").agg(pl.col("cpu_cores").mean())["cpu_cores"].sum()
    )
    assert by_cores[64]["host_cores"] == 64
    assert by_cores[64]["busy_cores"] == pytest.approx(16 - used_cores)
    # Two copies of each page want more of the few cores than one.
    assert by_cores[4]["predicted"]["p50"][1] > 1.1 * by_cores[64]["predicted"]["p50"][1]


CPU = ("web", "interference.cpu")


def _law(speed: float) -> Law:
    return Law(0.04, 0.3, 0.04, {CPU: speed}, None, {}, {})


def test_the_run_tells_the_work_and_not_its_calibration(run_dir: Path) -> None:
    service = fit(read_results(run_dir))
    web_s, db_s = (tier.processing_s.value or math.nan for tier in service.tiers)
    calibration = {
        tier.spec.name: {"cpu_s_per_copy": 0.5 * seconds}
        for tier, seconds in zip(service.tiers, (web_s, db_s), strict=True)
    }
    calibrated = replace(service, calibration={"tiers": calibration})
    assert [call_s(calibrated, index) for index in (0, 1)] == pytest.approx([web_s, db_s])


def test_a_page_takes_more_cpu_time_under_a_lower_cap_and_no_less_under_a_higher_one() -> None:
    page = Law(0.02, 0.3, 0.03, {}, None, {}, {}, cap_power=0.5)
    query = replace(page, work_s=0.001, whole_s=0.001)
    assert page.more_work(0.35, 0.25) == pytest.approx(math.sqrt(1.4))
    assert (
        page.more_work(0.35, 0.35) == page.more_work(0.35, 4.0) == page.more_work(2.0, 1.5) == 1.0
    )
    assert query.more_work(0.35, 0.25) == 1.0  # less than a period's CPU time


def test_what_idle_machines_use_is_no_work_of_a_query(run_dir: Path) -> None:
    service = fit(read_results(run_dir))
    arms = [
        replace(arm, requests=100, replicas=(r, 1))
        for arm, r in zip(service.arms, (1, 3), strict=True)
    ]
    db = service.tiers[1]
    per_s = 2.0 * (service.pages_per_s.value or math.nan) * (db.requests_per_copy.value or math.nan)
    idle = {"db": {"idle_cores": 0.25 * (db.processing_s.value or math.nan) * per_s}}
    calibrated = replace(service, arms=tuple(arms), calibration={"tiers": idle})
    assert call_s(calibrated, 1) == pytest.approx(0.75 * (db.processing_s.value or math.nan))
    much = replace(calibrated, calibration={"tiers": {"db": {"idle_cores": 1e3}}})
    assert 0.0 < call_s(much, 1) < (db.processing_s.value or math.nan)


@pytest.mark.parametrize("share", [0.01, 4.0])
def test_what_a_page_takes_beyond_its_cpu_time_needs_no_core(run_dir: Path, share: float) -> None:
    """Of a page of a tenth of a second with a millisecond of CPU time most is spent elsewhere."""
    results = read_results(run_dir)
    service = fit(results)
    cheap = [_with_cpu_s(t, share * (t.processing_s.value or math.nan)) for t in service.tiers]
    cpu_s = cheap[0].processing_s.value or math.nan
    law = fit_law([Arm(results, replace(service, tiers=tuple(cheap)), "baseline")])
    assert law.work_s <= cpu_s * (1 + 1e-9)
    assert law.work_s == pytest.approx(cpu_s) or law.delay_s["web"] == 0.0
    assert (law.delay_s["web"] > 0.0) == (share < 0.1)


def test_work_is_fitted_at_the_tier_that_varies_latencies_the_most(run_dir: Path) -> None:
    """A proxy of half a millisecond before a service of 3 ms: p50 was simulated three times as long
    as measured, since work was fitted at the proxy (`nginx-python`, 30 November 2026)."""
    results = read_results(run_dir)
    run = fit(results)
    assert [fitted_tier(run), run.tiers[1].requests_per_copy.value] == [0, pytest.approx(16, 0.1)]
    front, back = run.tiers
    one_call = replace(back, requests_per_copy=replace(back.requests_per_copy, value=1.0))
    proxied = replace(run, tiers=(_with_cpu_s(front, 0.0005), _with_cpu_s(one_call, 0.06)))
    assert fitted_tier(proxied) == 1
    arm = Arm(results, proxied, "baseline")
    truth = Law(0.05, 0.6, 0.06, {}, None, {"web": 0.002, "db": 0.0}, {})
    arm.measured_s = arm.simulated_s(reports([arm.scenario(truth, 9)])[0])
    arm.good = np.full(len(arm.measured_s), fill_value=True)
    [calm] = reports([arm.scenario(truth, 8)])
    arm.__dict__["calm_own_s"] = arm.simulated_own_s(calm)
    arm.__dict__["slowed"] = {}
    law = fit_law([arm])
    simulated_s = pages_s(arm, [reports([arm.scenario(law, seed)])[0] for seed in range(4)])
    assert np.median(simulated_s) == pytest.approx(arm.median_s, rel=0.1)
    assert lower_decile_distance(simulated_s) == pytest.approx(arm.lower_s, rel=0.2)
    assert law.work_s == pytest.approx(0.05, rel=0.15)
    assert law.delay_s["web"] == pytest.approx(0.002, abs=0.001)


def _with_cpu_s(tier: TierFit, cpu_s: float) -> TierFit:
    return replace(tier, processing_s=replace(tier.processing_s, value=cpu_s))


def test_fits_that_agree_scatter_by_the_floor() -> None:
    laws = [_law(0.04) for _ in range(3)]
    spreads = fidelity._spreads(laws[0], laws)
    assert spreads["speed web, interference.cpu"] == fidelity._SPREAD_OTHERS
    drawn_laws = [
        fidelity._draw_law(laws[0], spreads, np.random.default_rng(n)) for n in range(200)
    ]
    scatter = np.std([math.log(law.speed(*CPU)) for law in drawn_laws])
    assert scatter == pytest.approx(fidelity._SPREAD_OTHERS, rel=0.2)
    assert all(SPEED_LEAST <= law.speed(*CPU) <= 1.0 for law in drawn_laws)


def test_a_slower_host_has_more_cpu_time_and_the_same_waits_beside_neighbours(
    run_dir: Path,
) -> None:
    service, law = fit(read_results(run_dir)), replace(_law(0.04), delay_s={"web": 0.0, "db": 0.0})
    hosts = (law, replace(law, slower=2.0))
    usual, slower = (visits(service, 0, host, 4, 2.0).effects(CPU[1], 0.04) for host in hosts)
    assert usual == slower
    work_s = [
        tier_scenario(service, 0, host, TierSettings("tad", 1, 1), 2, 2.0)["work"]["mean_s"]
        for host in hosts
    ]
    assert work_s[1] == pytest.approx(2.0 * float(work_s[0]))


def test_a_delay_near_zero_varies_by_seconds_and_not_by_a_factor() -> None:
    """`nginx-python`, 1 December 2026: delays of 0.08 and 0.5 ms made a median of 1.6 ms predicted
    to a factor of 12."""
    laws = [replace(_law(0.04), delay_s={"web": delay_s}) for delay_s in (0.0002, 0.0001, 0.0005)]
    spreads = fidelity._spreads(laws[0], laws[1:])
    assert spreads["delay web"] == pytest.approx(math.sqrt(3 / 2) * 0.0004 / math.sqrt(2))
    drawn_s = [
        fidelity._draw_law(laws[0], spreads, np.random.default_rng(n)).delay_s["web"]
        for n in range(200)
    ]
    assert 0.0 == min(drawn_s) < max(drawn_s) < 0.0002 + 3.0 * spreads["delay web"] + 1e-9


def test_fits_that_contradict_each_other_draw_laws_that_can_be_simulated(run_dir: Path) -> None:
    """Arms of ten seconds had spreads of 0.05 and 0.8: drawn laws had an infinite variance."""
    results = read_results(run_dir)
    arm = Arm(results, fit(results), "baseline")
    law = fit_law([arm])
    laws = [
        replace(law, work_s=work_s, spread=spread, delay_s={"web": delay_s, "db": delay_s})
        for work_s, spread, delay_s in ((1e-4, 0.05, 1e-9), (10.0, 0.8, 5.0), (1e-4, 0.05, 1e-9))
    ]
    spreads = fidelity._spreads(laws[1], laws)
    drawn_laws = [
        fidelity._draw_law(laws[1], spreads, np.random.default_rng(seed)) for seed in range(100)
    ]
    for figure in ("work_s", "spread", "delay web"):
        extreme_law = max(drawn_laws, key=lambda law: law.figures[figure])
        pages_s = counted_s(reports([arm.scenario(extreme_law, 1)])[0], arm.time_out_s)
        assert np.all((pages_s >= 0.0) & (pages_s <= arm.time_out_s))


def test_an_arm_is_held_against_the_requests_that_its_report_counts(run_dir: Path) -> None:
    """Each block has a warm-up; those of later blocks were taken for measured requests."""
    results = read_results(run_dir)
    arm = Arm(results, fit(results), "baseline")
    counted_rows = measured(results.requests.filter(pl.col("arm") == "baseline")).sort("intended_s")
    warm_ups = results.requests.filter(pl.col("arm") == "baseline", pl.col("phase") == WARM_UP)
    assert warm_ups["repeat"].n_unique() > 1
    latencies = counted_rows.select(counted(1000.0 * arm.time_out_s)).to_series()
    assert arm.measured_s.tolist() == pytest.approx((latencies / 1000.0).to_list())
    report = reports([arm.scenario(fit_law([arm]), 1)])[0]
    assert len(arm.simulated_s(report)) == counted_rows.height < len(report["each_s"])


def test_a_kind_that_only_one_fit_knows_is_drawn_too() -> None:
    law = _law(0.1)
    spreads = fidelity._spreads(replace(law, slowed={}), [])
    drawn_law = fidelity._draw_law(law, spreads, np.random.default_rng(1))
    assert drawn_law.speed(*CPU) != pytest.approx(0.1)


@pytest.mark.parametrize(("measured_ms", "inside"), [(25.33, True), (26.7, True), (24.1, False)])
def test_a_latency_near_its_prediction_is_not_missed_however_little_runs_vary(
    measured_ms: float, inside: bool
) -> None:
    """`memcached-noisy`, 30 November 2026: 25.33 ms measured, 25.43 to 25.56 predicted."""
    runs = [np.full(500, (25.49 + 0.02 * n) / 1e3) for n in (-1, 0, 1)]
    check = fidelity._check_percentile(50.0, np.full(500, measured_ms / 1e3), runs, runs, 5)
    assert check.counts
    assert check.inside == inside


def test_arms_of_another_policy_than_the_plans_are_predicted_and_do_not_count(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = read_results(run_dir)
    service = fit(results)
    arms = [Arm(results, service, name) for name in results.arms]
    monkeypatch.setattr(fidelity, "fit_law", lambda _: _law(0.1))
    monkeypatch.setattr(fidelity, "_DRAWS", 3)

    def counted(policy: str) -> list[str]:
        by_arm = fidelity.cross_validate(arms, [600.0], policy).arms
        assert {arm: len(checks) for arm, checks in by_arm.items()} == {
            "baseline": 4,
            "replicated": 4,
        }
        return [arm for arm, checks in by_arm.items() if any(check.counts for check in checks)]

    assert counted("tad") == ["replicated"]
    assert counted("round-robin") == ["baseline"]
    assert counted("c3") == ["baseline", "replicated"]  # else nothing would be held against it
