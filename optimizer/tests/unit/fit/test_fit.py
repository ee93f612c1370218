"""Fits to a run: rates, times, tables, fail-overs."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.runfiles.events import read_events
from optimizer.fit import ServiceFit, fit, read_results
from optimizer.fit.failovers import Failovers, failovers
from optimizer.plan.planner import plan_from_results
from optimizer.tests.synthetic import Truth, write_run
from random_tests import examples


@pytest.fixture(scope="module")
def service(run_dir: Path) -> ServiceFit:
    return fit(read_results(run_dir))


def _value(estimate: object) -> float:
    value = getattr(estimate, "value")  # noqa: B009
    return float(value)


def test_rates_and_fan_out_are_found(service: ServiceFit, truth: Truth) -> None:
    web, db = service.tiers
    assert (web.spec.name, db.spec.name) == ("web", "db")
    assert _value(service.pages_per_s) == pytest.approx(truth.pages_per_s, rel=0.05)
    assert _value(web.requests_per_copy) == 1.0
    assert _value(db.requests_per_copy) == pytest.approx(truth.queries, rel=0.02)
    assert _value(db.connections_per_copy) == pytest.approx(1.0, rel=0.02)


def test_processing_times_leave_the_neighbours_cpu_out(service: ServiceFit, truth: Truth) -> None:
    """A hog fills the machine's cap for a third of the time; counted in, it would triple these."""
    web, db = service.tiers
    assert _value(web.processing_s) == pytest.approx(truth.web_s, rel=0.06)
    assert _value(db.processing_s) == pytest.approx(truth.db_s, rel=0.04)
    assert 0 < web.processing_s.spread < 0.1 * truth.web_s


def test_what_a_copy_takes_of_a_card_is_of_the_fuller_direction(run: Path) -> None:
    hosts = pl.read_parquet(run / "hosts.parquet")
    cores = pl.col("cpu_cores")
    hosts.with_columns(net_rx_mbps=0.1 * cores, net_tx_mbps=8.0 * cores).write_parquet(
        run / "hosts.parquet"
    )
    for tier in fit(read_results(run)).tiers:
        assert _value(tier.card_kbit) == pytest.approx(8e3 * _value(tier.processing_s))
        assert tier.card_kbit.spread == pytest.approx(8e3 * (tier.processing_s.spread or 0.0))


def test_a_run_that_saw_no_cards_says_nothing_of_them(service: ServiceFit) -> None:
    assert [tier.card_kbit.value for tier in service.tiers] == [None, None]


def test_interference_share_and_slowdown_are_found(service: ServiceFit, truth: Truth) -> None:
    for tier in service.tiers:
        assert _value(tier.interference_share) == pytest.approx(truth.share, abs=0.12)
        assert _value(tier.gamma) == pytest.approx(truth.gamma, rel=0.2)
        assert tier.gamma.samples >= 100


def test_variation_and_token_hold_are_found(service: ServiceFit, truth: Truth) -> None:
    web, db = service.tiers
    assert _value(db.service_cv2) == pytest.approx(1.0, abs=0.35)
    # the first of two exponential queries, slowed or not, times the queries of a page
    quick_s = truth.queries * truth.db_s / 2
    assert quick_s < _value(db.token_hold_s) < 2.5 * quick_s
    assert _value(web.token_hold_s) > _value(db.token_hold_s)


def test_measured_tables_hold_each_arm_with_its_samples(service: ServiceFit, run_dir: Path) -> None:
    requests = pl.read_parquet(run_dir / "requests.parquet")
    by_name = {arm.name: arm for arm in service.arms}
    assert by_name["replicated"].replicas == (2, 2)
    for name, arm in by_name.items():
        rows = requests.filter((pl.col("arm") == name) & (pl.col("phase") == "measure"))
        assert arm.requests == rows.height
        ordered = rows["latency_ms"].sort()
        assert _value(arm.p95_ms) == ordered[math.ceil(0.95 * len(ordered)) - 1]
        assert arm.p99_ms.sufficient == (rows.height >= 1000)


def test_a_run_without_neighbours_has_no_share_and_no_slowdown(tmp_path: Path) -> None:
    quiet = write_run(tmp_path / "quiet", Truth(run_s=0.0, block_s=30.0))
    for tier in fit(read_results(quiet)).tiers:
        assert tier.interference_share.value == 0.0
        assert not tier.gamma.sufficient


def test_a_tier_of_machines_that_the_specification_lacks_is_refused(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["spec"]["fleet"]["tiers"]["db"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError) as error:
        read_results(run)
    assert (error.value.place, error.value.got) == ("manifest.json: spec.fleet.tiers", "no db")


def test_counters_that_restart_are_joined(run_dir: Path, run: Path) -> None:
    path = run / "arbiters.parquet"
    counters = ["requests", "latency_us_sum", "latency_count", "received", "client_accepted"]
    table = pl.read_parquet(path).sort("tier", "server", "time_s")
    at = pl.col("time_s") >= 200.0
    first = pl.col("time_s") == 200.0
    # restart at zero: everything from second 200 on loses what was counted up to then
    table = table.with_columns(
        pl.when(at)
        .then(pl.col(c) - pl.col(c).filter(first).first().over("tier", "server"))
        .otherwise(pl.col(c))
        for c in counters
    )
    table.write_parquet(path)
    uninterrupted, restarted = fit(read_results(run_dir)), fit(read_results(run))
    for a, b in zip(uninterrupted.tiers, restarted.tiers, strict=True):
        assert _value(b.processing_s) == pytest.approx(_value(a.processing_s), rel=0.02)
        assert _value(b.requests_per_copy) == pytest.approx(_value(a.requests_per_copy), rel=0.02)


@pytest.mark.parametrize(
    "name",
    ["manifest.json", "requests.parquet", "arbiters.parquet", "hosts.parquet", "events.jsonl"],
)
def test_a_missing_file_is_named(run: Path, name: str) -> None:
    (run / name).unlink()
    with pytest.raises(InputError, match=name):
        read_results(run)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\n \n",
        b"\x80\x81\xff\x00",
        b"[1, 2]\n",
        b'{"time_s": true}\n',
        b'{"time_s": 1.0, "what": "fault", "machine": "web-1", "kind": [1], "action": "start",'
        b' "duration_s": "long"}\n',
        b'{"time_s": 1.0, "parameters": 3}\n',
        b'{"time_s": 1.0, "parameters": {"recovery_s": "soon"}}\n',
    ],
)
def test_damaged_events_are_refused_by_their_file(run: Path, damaged: bytes) -> None:
    (run / "events.jsonl").write_bytes(damaged)
    with pytest.raises(InputError) as error:
        read_results(run)
    assert error.value.place.startswith(str(run / "events.jsonl"))


@examples(100)
@given(st.binary(max_size=200))
def test_random_bytes_for_events_end_in_a_refusal_or_in_nothing(
    tmp_path_factory: pytest.TempPathFactory, found: bytes
) -> None:
    path = tmp_path_factory.mktemp("run") / "events.jsonl"
    path.write_bytes(found)
    with contextlib.suppress(InputError):
        assert all(isinstance(event, dict) for event in read_events(path))


@pytest.mark.parametrize(
    ("name", "column"),
    [("requests.parquet", "intended_s"), ("arbiters.parquet", "latency_us_sum"),
     ("hosts.parquet", "cpu_cores")],
)  # fmt: skip
def test_a_missing_column_is_named(run: Path, name: str, column: str) -> None:
    pl.read_parquet(run / name).drop(column).write_parquet(run / name)
    with pytest.raises(InputError, match=f"{name}: {column}"):
        read_results(run)


@pytest.mark.parametrize("name", ["manifest.json", "requests.parquet", "events.jsonl"])
def test_damaged_files_are_refused_by_name(run: Path, name: str) -> None:
    (run / name).write_text("neither one nor the other\n")
    with pytest.raises(InputError, match=name):
        read_results(run)
    with pytest.raises(InputError, match="results folder"):
        read_results(run / "nowhere")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("hosts.parquet", "cpu_cores"),
        ("requests.parquet", "latency_ms"),
        ("arbiters.parquet", "tokens_in_use"),
    ],
)
def test_times_that_nobody_can_have_observed_are_refused_by_file_and_column(
    run: Path, name: str, column: str
) -> None:
    table = pl.read_parquet(run / name)
    absurd = (pl.col(column).cast(pl.Float64) + 1.0) * 1e18
    table.with_columns(absurd.alias(column)).write_parquet(run / name)
    with pytest.raises(InputError) as error:
        fit(read_results(run))
    assert error.value.place == f"{name}: {column}"


def test_a_recovery_that_nobody_can_have_observed_is_refused_by_its_key(
    run_dir: Path, tmp_path: Path
) -> None:
    folder = _with_failovers(run_dir, tmp_path / "run", {})
    events = folder / "events.jsonl"
    absurd = _line("failover", "cloud", recovery_s=1e15)
    events.write_text(f"{events.read_text()}{json.dumps(absurd)}\n")
    with pytest.raises(InputError) as error:
        fit(read_results(folder))
    assert error.value.place == "events.jsonl: recovery_s"


def test_a_rate_of_the_run_that_cannot_be_is_refused_by_its_key_of_the_manifest(
    run_dir: Path, tmp_path: Path
) -> None:
    run = _with_failovers(run_dir, tmp_path / "run", {"repair_s": 1e15})
    with pytest.raises(InputError) as error:
        plan_from_results(run, {"availability": 0.999})
    assert error.value.place == "manifest.json: spec.rates.repair_s"


RECOVERIES_S, REPAIRS_S = [4.0, 5.0, 9.0], [60.0, 80.0, 70.0, 90.0]


def _line(what: str, kind: str, action: str = "end", **parameters: Any) -> dict[str, Any]:
    return {"time_s": 1.0, "what": what, "kind": kind, "action": action, "machine": "web-1",
            "parameters": parameters}  # fmt: skip


def _with_failovers(run_dir: Path, folder: Path, rates: dict[str, float]) -> Path:
    """A copy of a run in which machines were replaced and repaired, and its [rates]."""
    shutil.copytree(run_dir, folder)
    lines = [_line("failover", "pf", recovery_s=s, total_s=s + 1.0) for s in RECOVERIES_S]
    lines += [_line("repair", "web", repair_s=s, to_pool=True) for s in REPAIRS_S]
    with (folder / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["spec"]["rates"] = rates
    path.write_text(json.dumps(manifest))
    return folder


def test_recoveries_and_repairs_are_told_apart() -> None:
    samples = failovers([
        _line("failover", "pf", recovery_s=2.0, total_s=9.0),
        _line("failover", "cloud", recovery_s=3.0, total_s=3.0),
        _line("failover", "ara", recovery_s=30.0, total_s=31.0),
        _line("repair", "web", repair_s=20.0, to_pool=True),
        _line("repair", "web", repair_s=29.0, to_pool=False),
        _line("failover", "standby_pool_empty"),
        _line("failover", "pf", "error"),
    ])  # fmt: skip
    assert samples == Failovers((2.0, 3.0), (30.0, 20.0))
    assert samples.rates() == {}, "three samples are the least"
    assert "2 seen, 3 needed" in samples.thin()[0]


def test_what_a_run_measured_becomes_the_plans_rates(run_dir: Path, tmp_path: Path) -> None:
    run = _with_failovers(run_dir, tmp_path / "run", {"crash_per_year": 2.0})
    service = fit(read_results(run))
    assert service.stated_rates["failover_s"] == {"samples": RECOVERIES_S}
    assert service.stated_rates["repair_s"] == {"samples": REPAIRS_S}
    plan = plan_from_results(run, {"availability": 0.999}, scheme="on-prem").to_json_dict()
    rates = plan["inputs"]["rates"]
    # The mean of an exponential after n samples is their sum over n - 1.
    assert rates["failover_s"] == pytest.approx(sum(RECOVERIES_S) / 2)
    assert rates["repair_s"] == pytest.approx(sum(REPAIRS_S) / 3)
    assert "failover_s: 3 samples, mean 6 s" in plan["assumptions"]
    assert any(line.startswith("repair_s: 4 samples, mean 75 s") for line in plan["assumptions"])


def test_what_a_run_states_goes_before_what_it_measured(run_dir: Path, tmp_path: Path) -> None:
    rates = {"crash_per_year": 2.0, "failover_s": 15.0, "repair_s": 86400.0}
    run = _with_failovers(run_dir, tmp_path / "run", rates)
    assert dict(fit(read_results(run)).stated_rates) == rates
