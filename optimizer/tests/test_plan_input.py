"""plan.toml: the example works, and what cannot be used is refused by file, key and bound."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import InputError
from optimizer.plan.planner import plan_from_file
from optimizer.plan.source import read_plan

EXAMPLE = Path(__file__).parents[1] / "plan" / "example.toml"


def _changed(tmp_path: Path, old: str, new: str) -> Path:
    text = EXAMPLE.read_text()
    assert old in text
    path = tmp_path / "plan.toml"
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    return plan_from_file(EXAMPLE).to_json_dict()


def test_the_example_has_a_plan_that_keeps_its_limits(plan: dict[str, Any]) -> None:
    asked = tomllib.loads(EXAMPLE.read_text())
    assert plan["feasible"]
    assert plan["predicted"]["availability"] >= asked["slo"]["availability"]
    assert plan["predicted"]["p95_ms"] <= asked["slo"]["p95_ms"]
    assert plan["predicted"]["p99_ms"] <= asked["slo"]["p99_ms"]
    for tier in plan["tiers"].values():
        assert tier["nodes"] + tier["spares"] <= asked["limits"]["max_nodes"]
        assert tier["utilisation"] <= asked["limits"]["max_utilisation"]
        assert 1 <= tier["replicas"] <= tier["needed"]
    total = sum(tier["usd_per_month"] for tier in plan["tiers"].values())
    assert plan["usd_per_month"] == pytest.approx(total, abs=0.02)


def test_the_plan_is_json_without_inf_and_terraform_variables(plan: dict[str, Any]) -> None:
    import hcl2

    json.dumps(plan, allow_nan=False)
    tiers = hcl2.loads(plan["tfvars"])["tiers"]
    for name, tier in plan["tiers"].items():
        assert int(tiers[name]["nodes"]) == tier["nodes"]
        assert int(tiers[name]["standby"]) == tier["spares"]


def test_the_confidence_is_reported_with_the_share_of_draws_that_keep_the_target(
    plan: dict[str, Any],
) -> None:
    assert plan["confidence"]["probability_kept"] >= 0.9


def test_a_fleet_that_holds_with_a_node_down_costs_at_least_as_much(
    tmp_path: Path, plan: dict[str, Any]
) -> None:
    path = _changed(tmp_path, "[slo.degraded]", "#")
    path.write_text(path.read_text().replace("nodes_down = 1 ", "#", 1))
    assert plan_from_file(path).usd_per_month <= plan["usd_per_month"]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("availability = 0.999 ", "availability = 1.0 ", r"slo\.availability.*\[0, 1\)"),
        ("p95_ms       = 800.0", "p95_ms = -1.0", r"slo\.p95_ms.*above 0"),
        ("p95_ms       = 800.0", "p95_ms = 1.0", r"slo\.p95_ms.*at least"),
        ("p99_ms       = 1500.0", "p99_ms = nan", r"slo\.p99_ms"),
        ("confidence   = 0.9", "confidence = 2", r"slo\.confidence"),
        ("nodes_down = 1", "nodes_down = -1", r"slo\.degraded\.nodes_down"),
        ("arrival_per_s = 20.0", "arrival_per_s = 0", "arrival_per_s"),
        ("arrival_per_s = 20.0", "arrival_per_s = inf", "arrival_per_s"),
        ('"on-prem"   # cloud', '"moon"   # cloud', "scheme.*cloud"),
        ('book = "on-prem"', 'book = "none.toml"', "none.toml"),
        ("max_replicas    = 3", "max_replicas = 13", r"max_replicas.*servers \(12"),
        ("max_nodes       = 12", "max_nodes = 0", r"limits\.max_nodes"),
        ("max_collision   = 0.5", "max_collision = 1.5", r"limits\.max_collision"),
        ("count = 3", "count = -3", r"rates\.crash_per_year\.count"),
        ("node_years = 2.1", "years = 2.1", r"rates\.crash_per_year\.years"),
        ("[12.1, 14.0, 15.2, 11.0, 19.0]", "[12.1]", r"rates\.failover_s"),
        ("repair_s       = 86400.0", "repair_s = 0", r"rates\.repair_s"),
        ("processing_s = 0.035", "processing_s = 0", r"tiers\[1\]\.processing_s"),
        ("processing_s = 0.035", "speed = 0.035", r"tiers\[1\]\.speed.*unknown"),
        ("processing_s = 0.035", "", r"tiers\[1\]\.processing_s.*nothing"),
        ("gamma        = 0.4", "gamma = 1.4", r"tiers\[1\]\.gamma"),
        ('"slice-0.25", ', '"slice-0.26", ', "slice-0.26"),
        ('name         = "db"', 'name = "web"', r"tiers\[2\]\.name"),
        ('["ara", "pf"]', '["hope"]', r"tiers\[1\]\.mechanisms"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, old: str, new: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        plan_from_file(_changed(tmp_path, old, new))


def test_a_file_that_is_no_toml_or_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml"):
        read_plan(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("scheme = ")
    with pytest.raises(InputError, match=r"bad\.toml"):
        read_plan(tmp_path / "bad.toml")


def test_an_empty_price_book_is_named(tmp_path: Path) -> None:
    (tmp_path / "book.toml").write_text(
        'as_of = "2026-01-01"\nsource = "us"\ncurrency = "USD"\n[instances]\n[usd_per_hour]\n'
    )
    with pytest.raises(InputError, match=r"book\.toml"):
        plan_from_file(_changed(tmp_path, 'book = "on-prem"', 'book = "book.toml"'))
