"""plan.toml: the example works, and what cannot be used is refused by file, key and bound."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from optimizer.plan.inputs.plan_file import read_plan
from optimizer.plan.planner import plan_from_file

EXAMPLE = Path(__file__).parents[3] / "plan" / "example.toml"


def _changed(tmp_path: Path, key: str, line: str, *, nth: int = 1) -> Path:
    """The example with the nth line of `key` replaced."""
    lines = EXAMPLE.read_text().splitlines()
    found = [i for i, text in enumerate(lines) if re.match(rf"{re.escape(key)}(\s*=|\s*#|$)", text)]
    lines[found[nth - 1]] = line
    path = tmp_path / "plan.toml"
    path.write_text("\n".join(lines))
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
    path = _changed(tmp_path, "[slo.degraded]", "")
    path.write_text(re.sub(r"(?m)^nodes_down.*$", "", path.read_text()))
    assert plan_from_file(path).usd_per_month <= plan["usd_per_month"]


@pytest.mark.parametrize(
    ("key", "line", "named"),
    [
        ("availability", "availability = 1.0", r"slo\.availability"),
        ("p95_ms", "p95_ms = -1.0", r"slo\.p95_ms"),
        ("p95_ms", "p95_ms = 1.0", r"slo\.p95_ms.*at least"),
        ("p99_ms", "p99_ms = nan", r"slo\.p99_ms"),
        ("confidence", "confidence = 2", r"slo\.confidence"),
        ("nodes_down", "nodes_down = -1", r"slo\.degraded\.nodes_down"),
        ("arrival_per_s", "arrival_per_s = 0", "arrival_per_s"),
        ("arrival_per_s", "arrival_per_s = inf", "arrival_per_s"),
        ("scheme", 'scheme = "moon"', "scheme.*cloud"),
        ("book", 'book = "none.toml"', r"none\.toml"),
        ("max_replicas", "max_replicas = 13", r"limits\.max_replicas"),
        ("max_nodes", "max_nodes = 0", r"limits\.max_nodes"),
        ("max_collision", "max_collision = 1.5", r"limits\.max_collision"),
        (
            "crash_per_year",
            "crash_per_year = { count = -3, node_years = 1 }",
            r"rates\.crash_per_year\.count",
        ),
        (
            "crash_per_year",
            "crash_per_year = { count = 3, years = 1 }",
            r"rates\.crash_per_year\.years",
        ),
        ("failover_s", "failover_s = { samples = [12.1] }", r"rates\.failover_s"),
        ("repair_s", "repair_s = 0", r"rates\.repair_s"),
        ("repair_s", "repair_crew = 2", r"rates\.repair_crew"),
        ("repair_s", "common_cause_nodes = 3", r"rates\.common_cause_nodes"),
        ("scheme", 'scheme = "cloud"', r"rates\.repair_s"),
        ("processing_s", "processing_s = 0", r"tiers\.0\.processing_s"),
        ("processing_s", "speed = 0.035", r"tiers\.0\.speed"),
        ("processing_s", "", r"tiers\.0\.processing_s"),
        ("gamma", "gamma = 1.4", r"tiers\.0\.gamma"),
        ("mechanisms", 'instance_types = ["slice-0.26"]', r"slice-0\.26"),
        ("mechanisms", 'mechanisms = ["hope"]', r"tiers\.0\.mechanisms"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, key: str, line: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        plan_from_file(_changed(tmp_path, key, line))


def test_two_tiers_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tiers\.1\.name"):
        plan_from_file(_changed(tmp_path, "name", 'name = "web"', nth=2))


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
        plan_from_file(_changed(tmp_path, "book", 'book = "book.toml"'))
