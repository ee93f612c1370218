"""NodT, knee and cost from steps whose truth is known; the file, the page, and the refusals."""

from __future__ import annotations

import dataclasses
import html
import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments import kinds
from experiments.commands.check import check_design
from experiments.design import load_design
from experiments.design.experiment import Experiment
from experiments.kinds.capacity.analysis import capacity_of, cost_of, cpu_ratio, knee, rate_at_limit
from experiments.kinds.capacity.measure import (
    FIRST_WARM_UP_S,
    RESOLUTION,
    at_rate,
    is_beyond,
    needs_rest,
    rate_between,
)
from experiments.kinds.capacity.page import capacity_page, headline
from experiments.kinds.capacity.result import node_findings, whole_sweeps
from experiments.kinds.capacity.section import CapacitySection
from experiments.kinds.capacity.steps import Step, StepSetting, steps_of
from experiments.record.result import flat, result_of
from experiments.report.text import number
from experiments.tests.capacity_fixture import (
    ERRORS_MAX,
    LIMIT_MS,
    NODT,
    RATES,
    capacity_result,
    manifest,
    measured_steps,
    requests,
)

_FEW = pl.when(pl.int_range(pl.len()) % 50 == 0).then(pl.lit("timeout")).otherwise("outcome")


@pytest.fixture(scope="module")
def steps() -> list[Step]:
    return measured_steps()


def test_nodt_of_an_mm1_server_is_found_within_its_interval(steps: list[Step]) -> None:
    capacity = capacity_of(whole_sweeps(steps), LIMIT_MS, ERRORS_MAX, np.random.default_rng(1))
    assert capacity.nodt_per_s is not None
    assert capacity.nodt_per_s.low < NODT < capacity.nodt_per_s.high
    assert abs(capacity.nodt_per_s.value / NODT - 1) < 0.08
    assert capacity.knee_per_s is not None  # an M/M/1's power is greatest at half its capacity
    assert 200.0 <= capacity.knee_per_s.value <= 338.0


def test_no_nodt_is_made_up() -> None:
    def found(limit_ms: float, rates: tuple[float, ...] = RATES[:3]) -> Any:
        sweeps = whole_sweeps(measured_steps(rates, sweeps=1))
        return capacity_of(sweeps, limit_ms, ERRORS_MAX, np.random.default_rng(1))

    high, low = found(5000.0), found(0.5)
    assert (high.nodt_per_s, high.bound_per_s) == (None, 338.0)
    assert "at every rate" in high.reason
    assert (low.nodt_per_s, low.bound_per_s) == (None, 200.0)
    assert "begin lower" in low.reason


def test_where_errors_end_the_search_they_are_the_reason() -> None:
    steps = measured_steps(RATES[:3], sweeps=1)

    def refusing(index: int) -> list[Step]:
        """2 % fail from a step on; p95 keeps its limit."""
        failing = [
            dataclasses.replace(step, requests=step.requests.with_columns(outcome=_FEW))
            for step in steps
        ]
        return [*steps[:index], *failing[index:]]

    def found(index: int, max_error_share: float = ERRORS_MAX) -> Any:
        sweeps = whole_sweeps(refusing(index))
        return capacity_of(sweeps, LIMIT_MS, max_error_share, np.random.default_rng(1))

    fails_last, fails_first, lenient = found(2), found(0), found(0, 0.05)
    assert (fails_last.nodt_per_s, fails_last.bound_per_s) == (None, 260.0), (
        "the last rate that it carried"
    )
    assert "fail at 338/s, 1 % are allowed" in fails_last.reason
    assert (fails_first.nodt_per_s, fails_first.bound_per_s) == (None, 200.0)
    assert "begin lower" in fails_first.reason
    assert (lenient.nodt_per_s, lenient.bound_per_s) == (None, 338.0)
    workload = capacity_result(refusing(2))["capacity"]["workloads"]["cache-reader"]
    assert (workload["bound_per_s"], workload["reason"]) == (260.0, fails_last.reason)


def test_rate_at_limit_is_between_the_steps_and_p95_never_falls_back() -> None:
    assert rate_at_limit([1.0, 2.0, 3.0], [10.0, 10.0, 1000.0], 100.0) == pytest.approx(2.5)
    # the second step passed the limit: what comes after it does not take that back
    assert rate_at_limit([1.0, 2.0, 3.0], [10.0, 1000.0, 20.0], 100.0) == pytest.approx(1.5)
    assert rate_at_limit([1.0, 2.0], [10.0, 20.0], 100.0) is None
    assert knee([1.0, 2.0, 3.0], [1.0, 1.5, 30.0]) == 2.0


def test_the_cost_of_a_request_is_the_slope_and_not_the_idle_cpu(steps: list[Step]) -> None:
    cost = cost_of(steps, "cache-1")
    assert cost is not None
    assert cost.processing_s.low <= 2e-4 <= cost.processing_s.high
    assert cost.processing_s.value == pytest.approx(2e-4, rel=0.05)
    assert cost.idle_cores == pytest.approx(0.02, abs=0.004)
    assert cost_of(steps[:2], "cache-1") is None


def test_a_late_generator_gives_no_nodt_where_it_decides_and_is_no_harm_below() -> None:
    def found(late_rates: tuple[float, ...]) -> dict[str, Any]:
        steps = [
            dataclasses.replace(step, requests=step.requests.with_columns(lag_ms=pl.lit(4.0)))
            if step.rate_per_s in late_rates
            else step
            for step in measured_steps(sweeps=1)
        ]
        workload = capacity_result(steps)["capacity"]["workloads"]["cache-reader"]
        assert isinstance(workload, dict)
        return workload

    early_workload, late_workload = found(RATES[:2]), found(RATES[:-2])
    assert early_workload["nodt_per_s"] is not None
    assert late_workload["nodt_per_s"] is None
    assert late_workload["reason"].startswith("generator saturated at 4")
    assert "p95 keeps the limit at" in late_workload["reason"]


def test_a_node_that_refuses_quickly_carries_nothing() -> None:
    setting = StepSetting(0, 0, "cache-reader", 200.0, LIMIT_MS)
    frame = requests(0, 200.0, seed=1).with_columns(
        pl.lit("bad_status").alias("outcome"), pl.lit(0.5).alias("latency_ms")
    )
    (step,) = steps_of([setting], frame, None, {}, 3000.0)
    assert (step.p95_ms, step.answered_per_s, step.error_share) == (3000.0, 0.0, 1.0)


def test_a_late_step_is_replaced_by_its_next_attempt(steps: list[Step]) -> None:
    late_step = Step(StepSetting(99, 0, "cache-reader", RATES[0], LIMIT_MS), steps[-1].requests,
                     1.0, steps[0].cores)  # fmt: skip
    assert whole_sweeps([late_step, *steps]) == whole_sweeps(steps)
    assert len(whole_sweeps(steps[:-1])) == 2  # the last sweep is not whole
    assert whole_sweeps(list(reversed(steps)))[-1] == whole_sweeps(steps)[0]  # ascending
    workload = capacity_result([late_step, *steps])["capacity"]["workloads"]["cache-reader"]
    assert workload["doubts"] == ["1 of 22 steps are not used: the generator was late"]


def test_the_file_and_the_page(steps: list[Step]) -> None:
    body = flat(json.loads(json.dumps(capacity_result(steps))))
    workload = body["workloads"]["cache-reader"]
    assert body["complete"]
    assert len(workload["steps"]) == 21
    assert workload["steps"][0]["cores"]["generator"] == 0.4
    assert workload["utilisation"] == pytest.approx((0.02 + 2e-4 * NODT) / 0.1, rel=0.1)
    page = capacity_page(body, manifest())
    assert headline(body).split(" (")[0] in page
    assert page.count("<figure") == 2
    assert "20.0 ms" not in headline(body)


def test_arms_are_asked_one_by_one_and_held_against_the_first(steps: list[Step]) -> None:
    experiment, section = read("memcached-capacity")
    arm = next(iter(experiment.arms.values()))
    experiment_of_both = experiment.model_copy(update={"arms": {"native": arm, "ilr": arm}})
    questions = [
        (question.name, question.arm, question.against)
        for question in section.questions(experiment_of_both)
    ]
    assert questions[0] == ("cache-reader-native", "native", "")
    assert (f"{questions[0][0].removesuffix('native')}ilr", "ilr", questions[0][0]) in questions
    assert [question.name for question in section.questions(experiment)] == ["cache-reader"]

    def named(name: str, chosen: list[Step]) -> list[Step]:
        return [
            dataclasses.replace(step, setting=dataclasses.replace(step.setting, user=name))
            for step in chosen
        ]

    half_rate = [
        dataclasses.replace(
            step, setting=dataclasses.replace(step.setting, rate_per_s=step.rate_per_s / 2)
        )
        for step in steps
    ]  # the same answers at half the rate
    all_steps = [*named("native", steps), *named("ilr", half_rate)]
    limits_ms = {"native": LIMIT_MS, "ilr": LIMIT_MS}
    findings = node_findings(manifest(), "cache", limits_ms, all_steps, {"ilr": "native"})
    comparison = findings.body["workloads"]["ilr"]["against"]
    assert comparison["workload"] == "native"
    assert comparison["low"] < 0.5 < comparison["high"]
    assert comparison["value"] == pytest.approx(0.5)
    assert comparison["cpu"]["rates_per_s"] == (200.0,), "the only one that was asked of both"
    assert comparison["cpu"]["value"] == pytest.approx((0.02 + 400 * 2e-4) / (0.02 + 200 * 2e-4))
    body = flat(result_of("capacity", manifest(), findings))
    assert "50.0 % (" in capacity_page(body, manifest())
    nodt_texts = [
        number(findings.body["workloads"][arm]["nodt_per_s"]["value"]) for arm in limits_ms
    ]
    assert headline(body) == (
        f"Requests/s that one node carries: native {nodt_texts[0]}, ilr {nodt_texts[1]}."
    )
    lost_findings = node_findings(manifest(), "cache", limits_ms, all_steps[:21], {"ilr": "native"})
    assert lost_findings.body["workloads"]["ilr"]["against"]["value"] is None


def test_cpu_is_held_against_the_first_arms_at_the_rates_that_both_answered(
    steps: list[Step],
) -> None:
    def dearer(step: Step, factor: float) -> Step:
        cores = {**step.cores, "cache-1": step.cores["cache-1"] * factor}
        return dataclasses.replace(step, cores=cores)

    def lost(step: Step) -> Step:
        return dataclasses.replace(
            step, requests=step.requests.with_columns(outcome=pl.lit("bad_status"))
        )

    native_sweeps = whole_sweeps(steps)
    factors = (1.2, 1.3, 1.4)
    sweeps = [
        [dearer(step, factor) for step in sweep]
        for sweep, factor in zip(native_sweeps, factors, strict=True)
    ]
    sweeps[1][-1] = lost(sweeps[1][-1])
    cost = cpu_ratio(sweeps, native_sweeps, "cache-1")
    assert cost is not None
    assert cost.rates == tuple(step.rate_per_s for step in native_sweeps[0][:-1]), (
        "of one answers failed"
    )
    assert cost.ratio.value == pytest.approx(np.prod(factors) ** (1 / 3))
    assert cost.ratio.low < 1.2 < 1.4 < cost.ratio.high, "three sweeps say little"
    assert cpu_ratio(sweeps[:1], native_sweeps[:1], "cache-1") is None
    assert (
        cpu_ratio([[lost(step) for step in sweep] for sweep in sweeps], native_sweeps, "cache-1")
        is None
    )


def test_a_run_without_nodt_says_why_where_it_says_not_valid(steps: list[Step]) -> None:
    result = capacity_result(steps)
    assert result["valid"]
    nodt = result["capacity"]["workloads"]["cache-reader"]["nodt_per_s"]["value"]
    assert result["found"] == f"NodT: cache-reader {nodt:.0f}/s"
    slow_result = capacity_result(measured_steps(RATES[-2:], sweeps=1))
    (reason,) = slow_result["verdicts"]["measurement"]["reasons"]
    why = slow_result["capacity"]["workloads"]["cache-reader"]["reason"]
    assert why
    assert (slow_result["valid"], slow_result["found"]) == (False, "")
    assert reason.endswith(why)
    assert reason in html.unescape(capacity_page(flat(slow_result), manifest()))


def read(name: str) -> tuple[Experiment, CapacitySection]:
    """A design's experiment, and what its kind's section asks for."""
    design = check_design(load_design(name))
    section = kinds.section_of(kinds.kind_of(design), design)
    assert isinstance(section, CapacitySection)
    return design.experiment, section


def test_a_slow_step_lasts_until_its_requests_can_be_expected() -> None:
    experiment, section = read("apache-capacity")
    first_workload, _, third_workload = section.workloads(experiment)
    slow_step = at_rate(experiment, section, third_workload, 1.0)
    fast_step = at_rate(experiment, section, first_workload, 500.0)
    assert (slow_step.load.user, slow_step.phases.measure) == ("wiki-reader", 80.0)
    assert fast_step.phases.measure == experiment.phases.measure


def test_the_first_step_warms_the_node_up() -> None:
    experiment, section = read("redis-capacity")
    workload = section.workloads(experiment)[0]
    first_step = at_rate(experiment, section, workload, 500.0, FIRST_WARM_UP_S)
    later_step = at_rate(experiment, section, workload, 500.0)
    assert (first_step.phases.warm_up, later_step.phases.warm_up) == (
        20.0,
        experiment.phases.warm_up,
    )


def test_what_an_overloaded_step_left_behind_is_not_charged_to_the_next(steps: list[Step]) -> None:
    assert [is_beyond(step, 0.01) for step in steps if step.setting.sweep == 0] == [
        rate > NODT for rate in RATES
    ]
    failing = dataclasses.replace(steps[0], requests=steps[0].requests.with_columns(outcome=_FEW))
    assert is_beyond(failing, 0.01)
    page_step = StepSetting(7, 0, "wiki-reader", 10.0, 2000.0)
    assert not needs_rest(page_step, dataclasses.replace(page_step, rate_per_s=15.0))
    assert needs_rest(page_step, page_step)
    assert needs_rest(page_step, dataclasses.replace(page_step, rate_per_s=8.0))
    assert needs_rest(page_step, StepSetting(8, 1, "static-file", 450.0, 50.0))


def test_steps_close_in_on_the_limit_until_its_sides_are_near() -> None:
    low, high, truth = 100.0, 400.0, 301.0
    rates = []
    while (rate := rate_between(low, high)) is not None:
        rates.append(rate)
        low, high = (low, rate) if rate > truth else (rate, high)
    assert rates == [200.0, 283.0, 336.0, 308.0]
    assert low < truth < high <= RESOLUTION * low
