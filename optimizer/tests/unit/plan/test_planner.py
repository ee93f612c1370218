"""Plans from runs and files, and the layers of the planner."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import optimizer.plan
from core.errors import InputError
from optimizer.availability import FailureRates, active_route_anywhere, passive_failover
from optimizer.fit import fit, read_results
from optimizer.latency import TierLatency, mean_stay_s
from optimizer.plan import Limits, Plan, plan_from_file, plan_from_results
from optimizer.plan.inputs.demand import demands, speed_under_interference
from optimizer.plan.inputs.evidence import CalibratedLatency
from optimizer.tests.synthetic import Truth, write_run

EXAMPLE = Path(__file__).parents[3] / "plan" / "example.toml"
SLO = {"availability": 0.999, "p95_ms": 400.0, "p99_ms": 700.0}
pytestmark = pytest.mark.usefixtures("unexplained")  # but for `on_prem`, which is made before


@pytest.fixture(scope="module")
def on_prem(run_dir: Path) -> Plan:
    return plan_from_results(run_dir, SLO)


def test_a_plan_keeps_every_limit_and_says_so_in_json(on_prem: Plan) -> None:
    value = json.loads(json.dumps(on_prem.to_json_dict(), allow_nan=False))
    assert value["schema"] == 1
    assert value["feasible"] is True
    assert value["scheme"] == "on-prem"  # the run's
    assert value["predicted"]["availability"] >= SLO["availability"]
    assert value["predicted"]["p95_ms"] <= SLO["p95_ms"]
    assert value["predicted"]["p99_ms"] <= SLO["p99_ms"]
    assert value["predicted"]["evidence"] == "model"
    assert value["usd_per_month"] == pytest.approx(
        sum(t["usd_per_month"] for t in value["tiers"].values()), abs=0.02
    )
    for tier in value["tiers"].values():
        assert 0 < tier["utilisation"] <= 0.7
        assert tier["nodes"] >= tier["needed"] >= tier["replicas"]
    assert value["binding"]
    assert any("a default, not measured" in text for text in value["assumptions"])
    assert any("measured / modelled" in text for text in value["assumptions"])


def test_the_planned_availability_is_that_of_the_model(on_prem: Plan) -> None:
    product = 1.0
    for tier in on_prem.tiers.values():
        if tier.mechanism == "pf":
            prediction = passive_failover(tier.needed, tier.spares, FailureRates())
        else:
            extra = tier.nodes - tier.needed
            prediction = active_route_anywhere(tier.needed, extra, FailureRates(), scheme="on-prem")
        assert tier.availability == pytest.approx(prediction.availability, abs=1e-10)
        product *= prediction.availability
    assert on_prem.predicted["availability"] == pytest.approx(product, abs=1e-9)


def test_given_rates_replace_the_defaults_and_change_the_plan(run_dir: Path, on_prem: Plan) -> None:
    rates = {"crash_per_year": 1.0, "failover_s": 15.0, "repair_s": 3600.0}
    repaired = plan_from_results(run_dir, SLO, rates=rates)
    assert not any("a default, not measured" in text for text in repaired.assumptions)
    spares = sum(t.spares + t.nodes - t.needed for t in repaired.tiers.values())
    assert spares < sum(t.spares + t.nodes - t.needed for t in on_prem.tiers.values())


def test_the_tfvars_are_valid_and_hold_the_plan(on_prem: Plan) -> None:
    text = on_prem.to_tfvars()
    for name, tier in on_prem.tiers.items():
        assert f'instance_type = "{tier.instance_type}"' in text
        assert f'# {name} = {{ policy = "tad", replicas = {tier.replicas}, ' in text
        assert f"nodes = {tier.nodes}, standby = {tier.spares}" in text
    assert 'calls = ["db"]' in text
    terraform = shutil.which("terraform")
    assert terraform, "expected terraform on the PATH (ci/setup brings it)"
    process = subprocess.run(
        [terraform, "fmt", "-"], input=text, text=True, capture_output=True, check=False
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("slo", "said"),
    [({"p95_ms": 120.0}, "p95: 120 ms asked"), ({"availability": 0.9999}, "availability: 0.9999")],
)
def test_what_the_largest_fleets_miss_is_explained(
    run_dir: Path, slo: dict[str, float], said: str
) -> None:
    plan = plan_from_results(run_dir, slo, limits=Limits(max_nodes=4))
    assert (plan.feasible, plan.usd_per_month, plan.to_tfvars()) == (False, None, "")
    assert any(said in text and "short by" in text for text in plan.reasons)


def test_a_thin_percentile_is_planned_with_and_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", Truth(block_s=40.0))  # about 840 requests per arm
    plan = plan_from_results(run, SLO, scheme="cloud")
    assert plan.feasible
    assert any("p99 from" in t and "1,000 needed" in t for t in plan.insufficient)
    assert not any("p95 from" in t for t in plan.insufficient)
    service = fit(read_results(run))
    latency = CalibratedLatency(demands(service), [95, 99], 4.0, "tad", service)
    for factor in latency.factors.values():
        assert factor.by_percentile[99] >= factor.by_percentile[95]


def test_the_calibration_is_small_where_the_model_fits(run_dir: Path) -> None:
    """The synthetic service has no queueing to misjudge; no factor is below one."""
    service = fit(read_results(run_dir))
    latency = CalibratedLatency(demands(service), [95, 99], 4.0, "tad", service)
    assert set(latency.factors) == {(1, 1), (2, 2)}
    for factor in latency.factors.values():
        for ratio in factor.by_percentile.values():
            assert 1.0 <= ratio < 1.6
    unknown = latency.factor_of((1, 2))[95]
    known = [f.by_percentile[95] for f in latency.factors.values()]
    assert min(known) <= unknown <= max(known)


@pytest.mark.parametrize("load", [0.0, 0.05, 0.3, 0.6])
@pytest.mark.parametrize("gamma", [0.7, 0.95])
def test_the_speed_under_interference_is_solved_back_from_latencies(
    load: float, gamma: float
) -> None:
    tier = TierLatency(0.05, 1.0, 1.0)
    for cores in (0.4, 1.0, 3.0):
        ratio = mean_stay_s(tier, cores, load, 1.0) / mean_stay_s(tier, cores, load / gamma, gamma)
        speed = speed_under_interference(tier, cores, load, ratio)
        assert speed == pytest.approx(gamma, rel=1e-6)
        assert ratio <= speed + 1e-9


@pytest.mark.parametrize(
    ("slo", "named"),
    [({"availability": -0.5}, "slo.availability"), ({"p50_ms": 5.0}, "slo.p50_ms"), ({}, "slo")],
)
def test_an_slo_that_cannot_be_is_refused_by_name(
    run_dir: Path, slo: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        plan_from_results(run_dir, slo)


def test_an_unknown_scheme_is_refused(run_dir: Path) -> None:
    with pytest.raises(InputError, match="scheme"):
        plan_from_results(run_dir, SLO, scheme="moon")


def test_importing_the_planner_loads_no_solver_and_no_experiments() -> None:
    code = (
        "import sys, optimizer; "
        "print([m for m in ('pyomo', 'scipy', 'polars', 'experiments') if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"


def test_stated_figures_replace_measured_ones_and_are_listed(
    run_dir: Path, on_prem: Plan, tmp_path: Path
) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(
        "arrival_per_s = 30.0\n[slo]\navailability = 0.999\np95_ms = 400.0\n"
        "[rates]\nrepair_s = 3600.0\n[[tiers]]\nname = 'db'\nprocessing_s = 0.01\n"
    )
    plan = plan_from_file(file, run_dir)
    assert plan.inputs["mode"] == "results and plan.toml"
    keys = {"arrival_per_s", "rates.repair_s", "tiers.db.processing_s"}
    assert set(plan.inputs["stated"]) == keys
    assert plan.inputs["tiers"]["db"]["processing_s"]["value"] == 0.01
    assert plan.inputs["tiers"]["db"]["processing_s"]["source"] == "stated"
    assert plan.inputs["tiers"]["web"] == on_prem.inputs["tiers"]["web"]
    assert plan.predicted["evidence"] == "model"
    file.write_text("[slo]\np95_ms = 400.0\n[[tiers]]\nname = 'cache'\n")
    with pytest.raises(InputError, match=r"tiers\.0\.name"):
        plan_from_file(file, run_dir)


def test_the_tfvars_keep_the_rules_of_the_local_platform(on_prem: Plan) -> None:
    """Those of infra/stacks/local/variables.tf; machines are slices, with fractions of cores."""
    import hcl2

    fleet = hcl2.loads(on_prem.to_tfvars())
    for name, tier in fleet["tiers"].items():
        assert float(tier["cpus"]) >= 0.1
        assert float(tier["memory_mb"]) >= 64
        assert isinstance(tier["nodes"], int)
        assert isinstance(tier["standby"], int)
        assert tier["nodes"] + tier["standby"] <= 100
        arbiter = fleet["arbiters"][name]
        assert set(arbiter) == {"tokens"}
        assert 1 <= arbiter["tokens"] <= 1000


def test_an_on_premises_plan_takes_owned_machines_and_prices_spares_as_off(on_prem: Plan) -> None:
    assert on_prem.region == "on-prem"
    for tier in on_prem.tiers.values():
        total = tier.usd_active_per_month + tier.usd_standby_per_month
        assert total == pytest.approx(tier.usd_per_month, abs=0.02)
        if tier.spares:
            assert tier.usd_standby_per_month / tier.spares < tier.usd_active_per_month / tier.nodes


def test_a_mechanism_that_is_not_allowed_is_not_planned(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    only = tmp_path / "plan.toml"
    only.write_text(text.replace('mechanisms           = ["ara", "pf"]', 'mechanisms = ["ara"]'))
    assert plan_from_file(only).tiers["web"].mechanism == "ara"
    cloud = tmp_path / "cloud.toml"
    cloud.write_text(
        text.replace('"on-prem"   # cloud', '"cloud"   # cloud')
        .replace('book = "on-prem"', 'book = "ec2"')
        .replace('["ara", "pf"]', '["pf"]')
        .replace("repair_s       = 86400.0", "")
        .replace("present  ", "# ")
    )
    web = plan_from_file(cloud).tiers["web"]
    assert (web.mechanism, web.spares, web.nodes) == ("pf", 0, web.needed)


def test_a_rate_relative_to_the_fleet_is_named_among_what_is_assumed(
    run: Path, on_prem: Plan, tmp_path: Path
) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    calibration = {"utilisation": 0.12, "tier": "web", "rate_per_s": 3.25, "pieces": 5}
    (run / "manifest.json").write_text(json.dumps({**manifest, "calibration": calibration}))
    plan = plan_from_results(run, SLO)
    assert plan.inputs["calibration"] == {"utilisation": 0.12, "tier": "web", "rate_per_s": 3.25}
    assert any("3.25/s" in text for text in plan.assumptions)
    file = tmp_path / "plan.toml"
    file.write_text("arrival_per_s = 30.0\n[slo]\navailability = 0.999\n")
    stated = plan_from_file(file, run)
    assert not any("3.25/s" in text for text in stated.assumptions)
    assert on_prem.inputs["calibration"] is None


PLAN = Path(optimizer.plan.__file__).parent
MAY_IMPORT = {"solve": {"solve"}, "inputs": {"inputs", "solve"},
              "explain": {"inputs", "explain", "solve"},
              "simulate": {"inputs", "explain", "solve", "simulate"}}  # fmt: skip


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_only_what_is_below_it(part: str) -> None:
    files = list((PLAN / part).glob("*.py"))
    imported = {
        (file.name, node.module.split(".")[2])
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
        if node.module is not None and node.module.startswith("optimizer.plan.")
    }
    assert files
    allowed = MAY_IMPORT[part] | ({"outcome"} if part == "explain" else set())
    assert {(name, module) for name, module in imported if module not in allowed} == set()
