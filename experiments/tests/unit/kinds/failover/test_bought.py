"""Gain of a strategy: the planner's figures from measured fail-overs and repairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.units import YEAR_S
from experiments.design import load_design
from experiments.kinds import find, section_of
from experiments.kinds.failover.availability_gain import bought, planned
from experiments.kinds.failover.section import FailoverSection
from experiments.kinds.failover.tables import bought_table

FAULT = "process.crash"
READY_S = [2.0] * 20


def section() -> FailoverSection:
    found = section_of(find("failover"), load_design("failover"))
    assert isinstance(found, FailoverSection)
    return found


def manifest() -> dict[str, Any]:
    """Of a run of the design, with as much as is read here."""
    fleet = load_design("failover").fleet
    machines = [{"name": name, "tier": tier, "role": spec.role, "standby": False,
                 "usd_per_hour": None, "instance_type": None}
                for tier, spec in fleet.tiers.items() for name in fleet.nodes_of(tier)]  # fmt: skip
    return {"spec": {"fleet": fleet.model_dump(mode="json")}, "fleet": {"machines": machines}}


def buys(arm: str, failover_s: list[float], ready_s: list[float] = READY_S) -> dict[str, Any]:
    found = bought(arm, FAULT, np.array(failover_s), ready_s, section(), manifest())
    assert found is not None
    return found


def test_short_fail_overs_cost_their_number_times_their_length() -> None:
    found = buys("open", [0.02, 0.03, 0.04])
    per_year = section().rates[FAULT].per_year
    assert found["crash_recovery_s"] == pytest.approx(0.03)
    # The second server seldom fails within the seconds of a repair.
    assert found["unavailability"] == pytest.approx(per_year * 0.03 / YEAR_S, rel=1e-3)
    assert found["unavailability_most"] > found["unavailability"]


def test_no_number_of_servers_makes_up_for_a_slow_fail_over() -> None:
    slow, quick = buys("nothing", [1.0, 1.1, 1.2]), buys("open", [0.02, 0.03, 0.04])
    assert slow["servers"] is None
    assert slow["usd_per_month_sized"] is None
    assert quick["servers"] == 2
    assert quick["usd_per_month_sized"] == pytest.approx(quick["usd_per_month"])


def test_a_long_repair_is_made_up_for_by_a_third_server_and_costs_it() -> None:
    found = buys("open", [0.02, 0.03, 0.04], [3600.0, 3600.0, 3600.0])
    assert found["servers"] == 3
    assert found["usd_per_month_sized"] > found["usd_per_month"]


def test_the_arbiter_is_paid_where_the_strategy_has_it() -> None:
    with_it, without = buys("arbiter", [0.02, 0.03, 0.04]), buys("open", [0.02, 0.03, 0.04])
    assert with_it["usd_per_month"] > without["usd_per_month"]


@pytest.mark.parametrize(("failover_s", "ready_s"), [([0.1, 0.2], READY_S), ([0.1] * 20, [2.0])])
def test_too_few_of_either_are_insufficient(failover_s: list[float], ready_s: list[float]) -> None:
    assert buys("open", failover_s, ready_s)["reason"] == "insufficient"


def test_a_fault_without_a_rate_buys_nothing() -> None:
    found = bought("open", "process.hang", np.array([0.1] * 20), READY_S, section(), manifest())
    assert found is None


def test_the_table_has_nines_and_what_they_rest_on() -> None:
    row = {"arm": "open", "fault": FAULT, "clients": 1, "undisturbed_ms": 2.0}
    rows = [{**row, "bought": buys("open", [0.02, 0.03, 0.04])},
            {**row, "bought": buys("open", [0.02])}]  # fmt: skip
    table = bought_table(rows, section().availability)
    assert table.rows[0][4].text == "7.94 nines"
    assert table.rows[1][2].text == "insufficient"
    rests = planned(section(), manifest())
    assert rests is not None
    assert rests["prices"]["as_of"]
    assert rests["rates"][FAULT]["source"]
