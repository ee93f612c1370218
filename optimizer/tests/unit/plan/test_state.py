"""A cold spare of a tier with state of its own is no availability."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from core.config_file import ConfigFile
from core.errors import InputError
from optimizer.fit import ServiceFit, fit, read_results
from optimizer.plan.inputs.plan_file import checked
from optimizer.plan.inputs.request import (
    PlanRequest,
    request_for_service,
    request_from_plan_file,
)
from optimizer.plan.outcome import Plan
from optimizer.plan.planner import make_plan
from optimizer.tests import synthetic

SLO = {"availability": 0.9999, "p95_ms": 500.0}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write_run(tmp_path_factory.mktemp("state") / "run", synthetic.Truth())


def service(run_dir: Path, state: str | None) -> ServiceFit:
    """The run's service, whose database's role says this state."""
    file = run_dir / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["spec"]["roles"]["mariadb"] |= {"state": state}
    file.write_text(json.dumps(manifest))
    return fit(read_results(run_dir))


def planned(found: ServiceFit) -> Plan:
    return make_plan(request_for_service(found, SLO, scheme="on-prem")).plan


def test_spares_are_planned_where_a_machine_keeps_nothing_and_active_ones_where_it_does(
    run_dir: Path,
) -> None:
    free, kept = (planned(service(run_dir, state)) for state in ("none", "own"))
    assert free.tiers["db"].mechanism == "pf"
    assert free.tiers["db"].spares > 0
    assert kept.tiers["db"].mechanism == "ara"
    assert kept.tiers["db"].spares == 0
    assert any("tier db" in text and "state" in text for text in kept.warnings)
    assert not any("tier db" in text and "state" in text for text in free.warnings)


def test_a_spare_that_is_there_is_not_counted_where_it_cannot_serve(run_dir: Path) -> None:
    found = {}
    for state in ("none", "own"):
        fitted = service(run_dir, state)
        with_spare = tuple(
            replace(tier, spec=replace(tier.spec, standby=1 if tier.spec.name == "db" else 0))
            for tier in fitted.tiers
        )
        present = planned(replace(fitted, tiers=with_spare)).present
        assert present is not None
        found[state] = present["predicted"]["availability"]
        usd = present["usd_per_month"]
    without = planned(service(run_dir, "own")).present
    assert without is not None
    assert found["own"] == without["predicted"]["availability"]
    assert found["none"] != found["own"]
    assert usd > without["usd_per_month"]  # it is paid for all the same


def test_spares_of_a_role_that_does_not_say_its_state_are_warned_of(run_dir: Path) -> None:
    plan = planned(service(run_dir, None))
    assert plan.tiers["db"].spares > 0
    assert any("tier db" in text and "state" in text for text in plan.warnings)


def stated(run_dir: Path, of_role: str, **tier: object) -> PlanRequest:
    """The question about the run with a plan.toml that states something of its database."""
    service(run_dir, of_role)
    values = {"slo": SLO, "scheme": "on-prem", "tiers": [{"name": "db", **tier}]}
    return request_from_plan_file(checked(ConfigFile(Path("plan.toml"), values)), run_dir)


def test_a_plan_that_asks_for_spares_that_cannot_serve_is_refused(run_dir: Path) -> None:
    with pytest.raises(InputError) as error:
        stated(run_dir, "own", mechanisms=["pf"])
    assert error.value.place == "plan.toml: tiers.0.mechanisms"
    assert error.value.got == "pf"


def test_data_that_outlives_its_machine_lets_a_spare_serve_whatever_the_role_says(
    run_dir: Path,
) -> None:
    asked = stated(run_dir, "own", state="volume", mechanisms=["pf"])
    tier = make_plan(asked).plan.tiers["db"]
    assert tier.mechanism == "pf"
    assert tier.spares > 0
