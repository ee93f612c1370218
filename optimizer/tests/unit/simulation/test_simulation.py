"""The simulator's command, its law, and what a run tells it."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from core.errors import EnvironmentMissing, InputError
from optimizer.fit import fit, read_results
from optimizer.simulation import fidelity, program, reports, simulate
from optimizer.simulation.arm import Arm
from optimizer.simulation.law import SPEED_LEAST, Law, call_s, fitted
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
    found = invoke("simulate", "--input", str(file), "--json")
    assert found.exit_code == 0
    latency = json.loads(found.stdout)["reports"][0]["latency"]
    assert latency["mean_s"] == pytest.approx(2.0, abs=3 * latency["mean_half_width_s"])
    table = invoke("simulate", "--input", str(file))
    assert "queue" in table.stdout
    assert "events in" in table.stdout
    overloaded = QUEUE | {"arrivals": {"kind": "poisson", "rate_per_s": 2.0}, "in_flight_max": 500}
    file.write_text(json.dumps(overloaded))
    found = invoke("simulate", "--input", str(file))
    assert found.exit_code == 1
    assert "unstable" in found.stdout


def test_the_example_can_be_simulated() -> None:
    text = invoke("simulate", "--example").stdout
    scenarios = json.loads(text)["scenarios"]
    found = reports([scenario | {"requests": 200} for scenario in scenarios])
    assert [report["stopped"] for report in found] == ["done", "done"]


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
    refused = invoke("simulate", *words)
    assert isinstance(refused.exception, InputError)
    assert refused.exception.place == option


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
    """A call for one server, and the one that it got."""
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
    found = invoke("simulate", "--replay", str(file))
    assert found.exit_code == 0, found.output
    assert "3 of 3 decisions are the same" in found.stdout
    file.write_text(trace(second=0))
    found = invoke("simulate", "--replay", str(file), "--json")
    body = json.loads(found.stdout)
    assert (found.exit_code, body["compared"], body["equal"], body["ended"]) == (1, 3, 2, "exit")
    assert body["first_difference"]["line"] == 3
    assert json.loads(body["first_difference"]["recorded"]) == acquire(2000, 1, 0)
    found = invoke("simulate", "--replay", str(file))
    assert found.exit_code == 1
    assert f"{file}:3: " in found.stdout
    for text, message in [
        (trace()[:-5], r"web.trace:5: expected a whole line \(got the beginning of one"),
        (trace(version=3), r"web.trace:1: version: expected 4 \(got 3"),
    ]:
        file.write_text(text)
        refused = invoke("simulate", "--replay", str(file))
        assert isinstance(refused.exception, InputError)
        assert re.search(message, str(refused.exception)), refused.exception
    missing = invoke("simulate", "--replay", str(tmp_path / "none"))
    assert "expected a trace" in str(missing.exception)


def test_a_run_is_fitted_and_another_arm_predicted_with_how_far_off_it_is(run_dir: Path) -> None:
    """The synthetic run's latencies are drawn, not queued: only the fitted arm can be met."""
    arms = json.loads((run_dir / "manifest.json").read_text())["spec"]["arms"]
    first, second = list(arms)[:2]
    words = ["simulate", "--from", str(run_dir), "--arm", first, "--predict", second]
    found = invoke(*words, "--json")
    assert found.exit_code == 0, found.output
    [body] = json.loads(found.stdout)
    real, ours = body["fitted"]["p50"]
    assert ours == pytest.approx(real, rel=0.15)
    for name, (real, ours) in body["predicted"].items():
        assert body["off"][name] == pytest.approx(ours / real - 1)
    assert first == "baseline"  # which is fitted if no arm is named
    table = invoke("simulate", "--from", str(run_dir), "--predict", second)
    assert f"{first} (fitted)" in table.stdout
    refused = invoke(*words[:-1], "nobody")
    assert isinstance(refused.exception, InputError)
    assert "expected one of" in str(refused.exception)


def test_machines_of_one_host_share_its_cores_with_what_else_ran_there(
    run_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_dir, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    block = {"arm": "baseline", "busy_share": 0.2, "stolen_share": 0.05, "others_share": 0.1}
    other = {**block, "arm": "replicated", "busy_share": 0.9}
    found = {}
    for cores in (64, 4):
        manifest["host"] = {"cores": cores, "blocks": [block, other]}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        words = ["simulate", "--from", str(folder), "--arm", "baseline", "--predict", "replicated"]
        [found[cores]] = json.loads(invoke(*words, "--json").stdout)
    # Of a quarter of the cores, what the tiers' servers used themselves was not others'.
    asked = pl.read_parquet(folder / "requests.parquet").filter(pl.col("arm") == "baseline")
    hosts = pl.read_parquet(folder / "hosts.parquet").filter(pl.col("tier").is_in(["web", "db"]))
    blocks = [
        hosts.filter(pl.col("time_s").is_between(one["intended_s"].min(), one["done_s"].max()))
        for one in asked.partition_by("repeat")
    ]
    used = pl.concat(blocks).group_by("machine").agg(pl.col("cpu_cores").mean())["cpu_cores"].sum()
    assert found[64]["host_cores"] == 64
    assert found[64]["busy_cores"] == pytest.approx(16 - used)
    # Two copies of each page want more of the few cores than one.
    assert found[4]["predicted"]["p50"][1] > 1.1 * found[64]["predicted"]["p50"][1]


CPU = ("web", "interference.cpu")


def _law(told: float) -> Law:
    return Law(0.04, 0.3, 0.04, {CPU: told}, None, {}, {})


def test_the_run_tells_the_work_and_not_its_calibration(run_dir: Path) -> None:
    service = fit(read_results(run_dir))
    web_s, db_s = (tier.processing_s.value or math.nan for tier in service.tiers)
    told = {
        tier.spec.name: {"cpu_s_per_copy": 0.5 * seconds}
        for tier, seconds in zip(service.tiers, (web_s, db_s), strict=True)
    }
    calibrated = replace(service, calibration={"tiers": told})
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
    told = replace(service, arms=tuple(arms), calibration={"tiers": idle})
    assert call_s(told, 1) == pytest.approx(0.75 * (db.processing_s.value or math.nan))
    much = replace(told, calibration={"tiers": {"db": {"idle_cores": 1e3}}})
    assert 0.0 < call_s(much, 1) < (db.processing_s.value or math.nan)


@pytest.mark.parametrize("share", [0.01, 4.0])
def test_what_a_page_takes_beyond_its_cpu_time_needs_no_core(run_dir: Path, share: float) -> None:
    """Of a page of a tenth of a second with a millisecond of CPU time most is spent elsewhere."""
    results = read_results(run_dir)
    service = fit(results)
    front = service.tiers[0]
    cpu_s = share * (front.processing_s.value or math.nan)
    cheap = replace(front, processing_s=replace(front.processing_s, value=cpu_s))
    arms = [Arm(results, replace(service, tiers=(cheap, *service.tiers[1:])), "baseline")]
    law = fitted(arms)
    assert law.work_s <= cpu_s * (1 + 1e-9)
    assert law.work_s == pytest.approx(cpu_s) or law.delay_s["web"] == 0.0
    assert (law.delay_s["web"] > 0.0) == (share < 0.1)


def test_fits_that_agree_scatter_by_the_floor() -> None:
    laws = [_law(0.04) for _ in range(3)]
    spreads = fidelity._spreads(laws[0], laws)
    assert spreads["speed web, interference.cpu"] == fidelity._SPREAD_OTHERS
    drawn = [fidelity._drawn(laws[0], spreads, np.random.default_rng(n)) for n in range(200)]
    scatter = np.std([math.log(one.speed(*CPU)) for one in drawn])
    assert scatter == pytest.approx(fidelity._SPREAD_OTHERS, rel=0.2)
    assert all(SPEED_LEAST <= one.speed(*CPU) <= 1.0 for one in drawn)


def test_a_kind_that_only_one_fit_knows_is_drawn_too() -> None:
    law = _law(0.1)
    spreads = fidelity._spreads(replace(law, slowed={}), [])
    assert fidelity._drawn(law, spreads, np.random.default_rng(1)).speed(*CPU) != pytest.approx(0.1)


def test_arms_of_another_policy_than_the_plans_are_predicted_and_do_not_count(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = read_results(run_dir)
    service = fit(results)
    arms = [Arm(results, service, name) for name in results.arms]
    monkeypatch.setattr(fidelity, "fitted", lambda _: _law(0.1))
    monkeypatch.setattr(fidelity, "_DRAWS", 3)

    def counted(policy: str) -> list[str]:
        found = fidelity.crossed(arms, [600.0], policy).arms
        assert {arm: len(held) for arm, held in found.items()} == {"baseline": 4, "replicated": 4}
        return [arm for arm, held in found.items() if any(one.counts for one in held)]

    assert counted("tad") == ["replicated"]
    assert counted("round-robin") == ["baseline"]
    assert counted("c3") == ["baseline", "replicated"]  # else nothing would be held against it
