"""Worth of a limit that a prediction just meets, and a plan's words before its figures."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optimizer.availability import active_route_anywhere
from optimizer.plan.explain.warnings import warn_of_calibration, warn_of_prices
from optimizer.plan.inputs.margin import RECORDED, law_error, level_of
from optimizer.plan.solve.model import solve
from optimizer.plan.solve.options import Option
from optimizer.prices import load_prices
from optimizer.tests.one_tier import asked, planned


@pytest.mark.parametrize("q", [95, 99])
@pytest.mark.parametrize("level", [0.6, 0.9, 0.99])
def test_a_limit_at_the_margin_is_kept_with_its_level(q: int, level: float) -> None:
    error = law_error(q, [], [])
    assert error.probability_within(100.0, 100.0 * error.factor(level)) == pytest.approx(level)
    assert error.factor(0.3) == 1.0, "a law that exaggerates is not counted on"


def test_nine_in_ten_of_the_recorded_truths_are_below_the_margin() -> None:
    for q, ratios in RECORDED.items():
        factor = law_error(q, [], []).factor(0.9)
        assert np.mean([1.0 / ratio <= factor for ratio in ratios]) >= 0.9


def test_arms_that_predict_each_other_narrow_the_error_and_others_widen_it() -> None:
    record = law_error(99, [], []).spread
    assert law_error(99, [0.02, -0.03, 0.01], []).spread < record
    assert law_error(99, [0.9, -0.8], []).spread > record
    assert law_error(99, [0.02, -0.03], [0.5, 0.5]).spread > record, "few requests an arm"


def test_each_of_k_figures_is_taken_at_the_level_that_keeps_all_together() -> None:
    level = level_of(0.9, 3)
    assert level**3 == pytest.approx(0.9)
    assert level_of(None, 3) is None
    rates = {"crash_per_year": {"count": 3, "node_years": 2.0}, "failover_s": 20.0}
    question = asked({"availability": 0.99, "p99_ms": 400.0, "confidence": 0.9}, rates=rates)
    assert set(question.figures) == {"crash_per_year", "latency"}
    assert question.level == pytest.approx(math.sqrt(0.9))
    assert question.case.rates == question.rates.at_level(math.sqrt(0.9))


def test_a_plan_at_a_confidence_keeps_its_limit_in_that_share_of_worlds() -> None:
    tight = planned({"p99_ms": 190.0})
    sure = planned({"p99_ms": 190.0, "confidence": 0.8})
    assert tight.margin["p99_ms"]["probability_kept"] < 0.8
    assert sure.margin["p99_ms"]["probability_kept"] >= 0.8
    assert sure.margin["p99_ms"]["at_confidence_ms"] <= 190.0
    assert sure.predicted["p99_ms"] < sure.margin["p99_ms"]["at_confidence_ms"]
    assert sure.usd_per_month > tight.usd_per_month
    draws = np.random.default_rng(1).standard_t(10, 20_000) * sure.margin["p99_ms"]["log_spread"]
    share = np.mean(sure.predicted["p99_ms"] * np.exp(draws) <= 190.0)
    assert share >= 0.8 - 0.01
    (warning,) = tight.warnings
    assert "--confidence" in warning
    assert not sure.warnings


def test_law_demand_and_rates_drawn_together_keep_all_limits_in_that_share_of_worlds() -> None:
    limits = {"availability": 0.99998, "p99_ms": 225.0}
    values: dict[str, Any] = {
        "rates": {"crash_per_year": {"count": 3, "node_years": 2.0}, "failover_s": 20.0}
    }
    sure = asked({**limits, "confidence": 0.8}, **values, load={"spread": 0.1})
    plain = asked(limits, **values)
    assert set(sure.figures) == {"crash_per_year", "arrival_per_s", "latency"}
    (bought,) = solve(sure.case.problem()).path or ()
    (cheaper,) = solve(plain.case.problem()).path or ()
    rng, worlds = np.random.default_rng(3), 1000
    law = law_error(99, [], [])
    errors = np.exp(law.spread * rng.standard_t(law.freedom, worlds))
    load = np.maximum(0.1, 1.0 + 0.1 * rng.standard_normal(worlds))
    rates = sure.rates.sample(rng, worlds)

    def kept(option: Option) -> float:
        """Return the share of worlds in which this tier keeps both limits."""
        grid = np.linspace(0.1, 1.6, 31)
        p99 = [plain.case.with_load(f).problem_with(()).latency((option,))[99] for f in grid]
        fast = np.interp(load, grid, p99) * errors <= limits["p99_ms"]
        crashes = np.array([world.crash_per_year for world in rates])
        steps = np.geomspace(crashes.min(), crashes.max(), 40)
        unavailabilities = [
            active_route_anywhere(
                option.needed, option.extra, replace(rates[0], crash_per_year=step), scheme="cloud"
            ).unavailability
            for step in steps
        ]
        return float(
            np.mean(
                fast & (np.interp(crashes, steps, unavailabilities) <= 1.0 - limits["availability"])
            )
        )

    assert kept(bought) >= 0.8 - 2 * math.sqrt(0.8 * 0.2 / worlds)
    assert kept(cheaper) < kept(bought)


def test_a_plan_at_a_confidence_is_the_cheapest_that_has_the_margin() -> None:
    problem = asked({"p99_ms": 190.0, "confidence": 0.8}).case.problem()
    solution = solve(problem)
    fleets = [(o,) for o in problem.options[0] if o.utilisation <= problem.utilisation_max]
    costs = [o[0].usd_per_month for o in fleets if problem.latency(o)[99] <= 190.0]
    assert solution.usd_per_month == pytest.approx(min(costs))


def test_what_the_dearest_limit_rests_on_is_said_first() -> None:
    latency = planned({"p99_ms": 140.5})
    assert latency.binding[0].startswith("latency")
    assert latency.assumptions[0].startswith("latency: the model")
    nines = planned({"availability": 0.99999999})
    assert nines.binding[0].startswith("availability")
    assert nines.assumptions[0].startswith("crash rate")
    assert not any("pool" in text or "repair" in text for text in nines.assumptions), "in the cloud"
    shocks = {"common_cause": 0.5, "common_cause_nodes": 4}
    shocked = planned({"availability": 0.99999999}, rates=shocks)
    assert shocked.assumptions[0].startswith("50% of crashes come in common shocks, each of 4 of")


def test_a_law_that_is_far_off_what_was_measured_is_said_to_be() -> None:
    assert warn_of_calibration({95: 1.4, 99: 2.5}) == warn_of_calibration({}) == ()
    (warning,) = warn_of_calibration({95: 2.0, 99: 9.04})
    assert "p99 9.0 times" in warning
    assert "p95" not in warning


def test_old_prices_are_said_with_their_age_and_todays_are_not() -> None:
    book = load_prices()
    day = datetime.date.fromisoformat(book.as_of)
    assert (
        warn_of_prices(book, None) == warn_of_prices(book, day + datetime.timedelta(days=100)) == ()
    )
    (warning,) = warn_of_prices(book, day + datetime.timedelta(days=400))
    assert "400 days" in warning


def test_a_confidence_beside_limping_machines_is_not_called_kept() -> None:
    """A crash ends a limp: the fewer crashes there are, the longer machines limp."""
    limping = {"limp_per_year": 12.0, "limp_recovery_s": 2_592_000.0, "limp_capacity": 0.0}
    rates = {"crash_per_year": {"count": 0, "node_years": 1.0}, **limping}
    slo = {"availability": 0.99, "confidence": 0.95}
    plan = planned(slo, tier={"instance_types": ["c5.large"]}, rates=rates)
    assert plan.confidence["probability_kept"] < 0.5
    assert "of 100 draws" in plan.warnings[0]
    assert not any("all limits are kept" in text for text in plan.assumptions)
