"""Decisions of a tune on latencies drawn from known laws: steadiness, the test, the search."""

from __future__ import annotations

import html
import io
import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from core.errors import MeasurementFailed
from core.runfiles.result import VERDICTS
from experiments.design import load_design
from experiments.design.feasible import feasibility_problems
from experiments.kinds.tune import KIND
from experiments.kinds.tune.evidence import (
    Pair,
    Significance,
    Window,
    ratio,
    significance,
    stretch_s,
)
from experiments.kinds.tune.loads import TierWindow, tier_load, tier_window
from experiments.kinds.tune.measure import tuning_design
from experiments.kinds.tune.page import headline
from experiments.kinds.tune.replicator import (
    PAIRS_MIN,
    MeasuredWindow,
    OutOfTime,
    Replicator,
    Rules,
)
from experiments.kinds.tune.result import SEARCH, result_json
from experiments.kinds.tune.section import Target, TuneSection
from experiments.kinds.tune.steady import steady_state
from experiments.record.records import write_json
from experiments.record.result import flat
from optimizer.replication import Replicas

LENGTH_S = 40.0
RATE_PER_S = 6.0
RNG = np.random.default_rng


def window(seed: int, factor: float = 1.0, *, bursts: bool = True, rate: float = 1.0) -> Window:
    """Poisson arrivals, exponential latencies of mean 100 ms, and bursts in which they are 4 times
    as long; equal seeds meet the same arrivals and bursts."""
    shared_rng, own_rng = RNG([seed, 1]), RNG([seed, 2, round(factor * 1000)])
    at_s = np.sort(
        shared_rng.uniform(0, LENGTH_S, shared_rng.poisson(RATE_PER_S * rate * LENGTH_S))
    )
    latency_ms = own_rng.exponential(100.0, at_s.size) * factor
    for start_s in shared_rng.uniform(0, LENGTH_S, 2 if bursts else 0):
        in_burst = (at_s >= start_s) & (at_s < start_s + shared_rng.exponential(8.0))
        latency_ms[in_burst] *= 4.0
    return Window(LENGTH_S, at_s, latency_ms)


def pairs(count: int, factor: float, seed: int) -> list[Pair]:
    return [
        (window(1000 * seed + k), window(1000 * seed + k, factor * 1.000001)) for k in range(count)
    ]


# steady state


def test_a_steady_series_is_kept_almost_whole_whatever_its_bursts() -> None:
    for seed in range(20):
        windows = [window(100 * seed + k) for k in range(4)]
        steady = steady_state(
            [sample.at_s for sample in windows], [sample.latency_ms for sample in windows]
        )
        assert steady.reached, seed
        assert steady.from_s < 0.3 * LENGTH_S, seed


def test_a_transient_is_cut_where_it_ends() -> None:
    windows = [window(k, bursts=False) for k in range(4)]
    latencies_ms = [
        np.where(sample.at_s < 8.0, sample.latency_ms * 10, sample.latency_ms) for sample in windows
    ]
    steady = steady_state([sample.at_s for sample in windows], latencies_ms)
    assert steady.reached
    assert 7.0 < steady.from_s < 10.0


def test_a_queue_that_grows_to_the_end_is_not_steady() -> None:
    windows = [window(k, bursts=False) for k in range(4)]
    latencies_ms = [sample.latency_ms + 100.0 * sample.at_s for sample in windows]
    assert not steady_state([sample.at_s for sample in windows], latencies_ms).reached


def test_too_few_requests_say_nothing_and_are_kept() -> None:
    at_s = np.arange(10.0)
    assert steady_state([at_s], [at_s + 1.0]) == steady_state([at_s], [at_s * 9 + 1.0])
    assert steady_state([at_s], [at_s + 1.0]).from_s == 0.0


# the test


def test_an_equal_r_is_rarely_taken_for_a_better_one() -> None:
    """40 comparisons of equals at 5 %: more than 6 would have a probability below 1 %."""
    unit_s = stretch_s(LENGTH_S, 8.0)
    outcomes = [significance(pairs(4, 1.0, seed), "p95", unit_s, RNG(seed)) for seed in range(40)]
    assert sum(outcome.p_better <= 0.05 for outcome in outcomes) <= 6
    assert sum(outcome.p_worse <= 0.05 for outcome in outcomes) <= 6


@pytest.mark.parametrize("target", ["mean", "p95"])
def test_half_the_latency_is_seen_within_four_pairs(target: Target) -> None:
    unit_s = stretch_s(LENGTH_S, 8.0)
    for seed in range(6):
        unequal = pairs(4, 0.5, seed)
        outcome = significance(unequal, target, unit_s, RNG(seed))
        assert outcome.verdict(0.05 / 3) == "better", seed
        reverse = significance([(fast, slow) for slow, fast in unequal], target, unit_s, RNG(seed))
        assert reverse.verdict(0.05 / 3) == "worse", seed
    quotient = ratio(unequal, target, unit_s, RNG(0))
    assert quotient.ratio_low < quotient.ratio < quotient.ratio_high < 1.0


def test_a_percentile_with_fewer_than_ten_samples_beyond_decides_nothing() -> None:
    outcome = significance(pairs(2, 0.2, 5), "p99", stretch_s(LENGTH_S, 8.0), RNG(0))
    assert outcome.p_better < 0.01
    assert not outcome.enough
    assert outcome.verdict(0.05) == "insufficient"


def test_an_arm_without_requests_is_refused() -> None:
    empty = Window(LENGTH_S, np.empty(0), np.empty(0))
    with pytest.raises(MeasurementFailed, match="requests in both arms"):
        significance([(window(1), empty)], "mean", 8.0, RNG(0))


# the search

SQUARE = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 2)]


def replicator(
    factors: Mapping[Replicas, float], pairs_max: int = 4, windows_max: int = 10_000
) -> Replicator:
    """A replicator on a service whose latency is that of `window` times a factor for each r."""
    numbers = itertools.count()

    def run(replicas: Replicas, pair: int) -> MeasuredWindow:
        if next(numbers) >= windows_max:
            raise OutOfTime("time is over")
        sample = window(pair, factors[replicas] * (1.0 + 1e-6 * sum(replicas)))
        # The tier whose replicas are fewer varies more, the back tier where they are equal.
        tiers = tuple(
            TierWindow(requests=20, buckets={1000: 18, 1000 * (9 - 2 * copies + index): 2})
            for index, copies in enumerate(replicas)
        )
        return MeasuredWindow(replicas, pair, sample.at_s.size, sample, tiers)

    rules = Rules("p95", pairs_max, stretch_s(LENGTH_S, 8.0))
    return Replicator(rules, run, RNG(1), lambda _: None)


def test_the_search_of_the_paper_is_made_on_noisy_latencies() -> None:
    """sPARE Fig. 7: (1,1) (1,2) (2,2); (2,3) and (3,2) are no better."""
    fig_7: dict[Replicas, float] = {(1, 1): 2.1, (1, 2): 1.4, (2, 2): 0.8, (2, 3): 0.9, (3, 2): 1.0}
    tuner = replicator(fig_7, pairs_max=6)
    search = tuner.search(SQUARE, None)
    assert search is not None
    assert search.replicas == (2, 2)
    assert tuner.chosen is not None
    assert tuner.chosen.replicas == (2, 2)
    assert [contest.candidate.replicas for contest in tuner.contests] == [
        (1, 2),
        (2, 2),
        (2, 3),
        (3, 2),
    ]
    assert [contest.accepted for contest in tuner.contests] == [True, True, False, False]
    assert tuner.requests == sum(run_window.requests for run_window in tuner.windows)
    assert tuner.requests == sum(contest.requests for contest in tuner.contests) + sum(
        run_window.requests for run_window in tuner.windows[:2]
    )


def test_a_comparison_within_the_noise_is_insufficient_and_moves_nothing() -> None:
    tuner = replicator(dict.fromkeys(SQUARE, 1.0), pairs_max=3)
    search = tuner.search(SQUARE, None)
    assert search is not None
    assert search.replicas == (1, 1)
    assert {contest.verdict for contest in tuner.contests} == {"insufficient"}
    assert all(contest.pairs == 3 for contest in tuner.contests), "the whole budget was used"


def test_a_comparison_ends_as_the_look_said_that_ended_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second test of the same pairs draws other arrangements and could decide otherwise."""
    looks = list[Significance]()

    def look(*_: object) -> Significance:
        looks.append(Significance(1.0, 0.9 if looks else 0.0, samples=100, enough=True))
        return looks[-1]

    monkeypatch.setattr("experiments.kinds.tune.replicator.significance", look)
    tuner = replicator(dict.fromkeys(SQUARE, 1.0), pairs_max=4)
    tuner.search([(1, 1), (1, 2)], None)
    [contest] = tuner.contests
    assert (contest.verdict, contest.pairs) == ("worse", PAIRS_MIN)
    assert looks == [contest.significance]


def test_both_sides_of_a_pair_meet_the_same_arrivals_in_turning_order() -> None:
    tuner = replicator(dict.fromkeys(SQUARE, 1.0), pairs_max=3)
    tuner.search([(1, 1), (1, 2)], None)
    sides = [(run_window.pair, run_window.replicas) for run_window in tuner.windows[2:]]
    assert sides == [(2, (1, 1)), (2, (1, 2)), (3, (1, 2)), (3, (1, 1)), (4, (1, 1)), (4, (1, 2))]


def test_when_time_is_over_the_search_ends_with_what_it_has() -> None:
    tuner = replicator({**dict.fromkeys(SQUARE, 1.0), (1, 2): 0.4}, pairs_max=4, windows_max=9)
    assert tuner.search(SQUARE, None) is None
    assert tuner.stopped == "time is over"
    assert tuner.chosen is not None
    assert tuner.chosen.replicas == (1, 2)
    assert len(tuner.windows) == 9


def test_the_exhaustive_rounds_are_interleaved_and_a_cut_one_is_left_out() -> None:
    feasible = [(1, 1), (1, 2), (2, 1)]
    tuner = replicator(dict.fromkeys(SQUARE, 1.0), windows_max=8)
    rounds = tuner.exhaust(feasible, 3)
    assert len(rounds) == 2
    assert [[run_window.replicas for run_window in round_windows] for round_windows in rounds] == [
        feasible,
        feasible,
    ]
    assert [run_window.replicas for run_window in tuner.windows[:6]] == [
        *feasible,
        *reversed(feasible),
    ]


def test_a_search_after_the_rounds_takes_its_pairs_from_them() -> None:
    factors: dict[Replicas, float] = {**dict.fromkeys(SQUARE, 1.0), (1, 2): 0.4, (1, 3): 0.9}
    tuner = replicator(factors, pairs_max=4)
    feasible = [(1, 1), (1, 2), (1, 3), (2, 1)]
    tuner.exhaust(feasible, 4)
    search = tuner.search(feasible, None)
    assert search is not None
    assert search.replicas == (1, 2)
    assert len(tuner.windows) == 4 * len(feasible), "no window beside those of the rounds"
    assert [(contest.candidate.replicas, contest.accepted) for contest in tuner.contests] == [
        ((1, 2), True),
        ((1, 3), False),
    ]
    assert tuner.contests[0].pairs == 4


def test_a_comparison_goes_on_where_the_rounds_were_cut_short() -> None:
    tuner = replicator(dict.fromkeys(SQUARE, 1.0), pairs_max=4)
    tuner.exhaust([(1, 1), (1, 2)], 1)
    tuner.search([(1, 1), (1, 2)], None)
    [contest] = tuner.contests
    assert contest.pairs == 4
    assert len(tuner.windows) == 2 + 2 * 3


# what Alg. 1 rests on


def test_every_r_that_keeps_copies_apart_has_an_arm_that_a_calibration_takes() -> None:
    """As it did not on 28 November 2026: a rate by utilisation refused the arm (2, 2)."""
    design = tuning_design(load_design("mediawiki-noisy"), TuneSection(target="p95"))
    arms = design.experiment.arms
    assert list(arms) == ["1,1", "1,2", "1,3", "2,1"]
    utilisation = {name: {"web": 1.2} for name in arms}
    assert list(feasibility_problems(design.experiment, design.fleet, utilisation)) == []
    assert {arm.of("web").policy for arm in arms.values()} == {"tad"}
    wider_design = tuning_design(
        load_design("mediawiki-noisy"), TuneSection(target="p95", collision_max=1)
    )
    assert "2,2" in wider_design.experiment.arms


def poll(requests: int, buckets: Mapping[int, int], uptime_s: float = 9.0) -> dict[str, object]:
    server = {"processing_count": requests, "processing_us_sum": 4_000 * requests}
    stats = {"tier": "web", "uptime_s": uptime_s, "requests": {"received": requests},
             "token_holds": requests, "token_hold_us_total": 9_000 * requests,
             "busy_us": 5_000 * requests, "wasted_us": 0, "servers": [server, server]}  # fmt: skip
    return {
        "stats": stats,
        "latency": {
            "buckets": [{"us": bound_us, "count": count} for bound_us, count in buckets.items()]
        },
    }


def test_rates_and_times_are_those_between_two_polls() -> None:
    tier = tier_window(poll(100, {10: 90}), poll(300, {10: 90, 20: 180, 900: 20}), 50.0)
    assert (tier.requests, tier.processed) == (200, 400)
    assert tier.buckets == {20: 180, 900: 20}
    assert tier.quantile_us(0.9) == 20
    assert tier.quantile_us(0.95) == 900
    assert tier.variability("p95") == pytest.approx(900 / 108)
    load = tier_load("web", 4, 0.4, 2, tier)
    assert load.request_per_s == 4.0
    assert load.processing_s == pytest.approx(0.004)
    assert load.connection_per_s == 4.0
    assert load.token_hold_s == pytest.approx(0.009)
    doubled = tier + tier
    assert (doubled.seconds, doubled.buckets[900]) == (100.0, 40)


def test_a_restarted_arbiter_and_an_idle_tier_are_refused() -> None:
    with pytest.raises(MeasurementFailed, match="restarted"):
        tier_window(poll(100, {}), poll(3, {}, uptime_s=1.0), 50.0)
    with pytest.raises(MeasurementFailed, match="tier db"):
        tier_load("db", 4, 0.4, 2, TierWindow(seconds=5.0))


# what is written down


def test_a_search_is_written_read_back_and_shown_with_its_answer(tmp_path: Path) -> None:
    tuner = replicator({**dict.fromkeys(SQUARE, 1.0), (1, 2): 0.4}, pairs_max=4)
    feasible = [(1, 1), (1, 2)]
    tuner.exhaust(feasible, 2)
    search = tuner.search(feasible, None)
    loads = [tier_load(tier, 3, 0.4, 2, tier_window(poll(0, {}), poll(200, {20: 200}), 50.0))
             for tier in ("web", "db")]  # fmt: skip
    section = TuneSection(target="p95", window_s=LENGTH_S)
    body = result_json(section, tuner, loads, feasible, complete=search is not None)
    write_json(tmp_path / SEARCH, body)
    verdicts = {name: {"ok": True, "reasons": []} for name in VERDICTS}
    manifest = {"experiment": "shop", "run": "20261123T100000Z", "seed": 1, "verdicts": verdicts}
    write_json(tmp_path / "manifest.json", manifest)
    result = KIND.conclude(tmp_path)
    assert result["valid"]
    assert KIND.row(result) == {"r": [1, 2]}
    assert result["found"] == "r = (1, 2)"
    assert result["tune"]["exhaustive"]["rounds"] == 2
    cases = {case["target"]: case for case in result["tune"]["exhaustive"]["cases"]}
    assert list(cases) == ["mean", "p95", "p99"]
    assert (cases["p95"]["chosen"], cases["p95"]["best"], cases["p95"]["ratio"]) == (
        [1, 2],
        [1, 2],
        1,
    )
    assert (cases["mean"]["enough"], cases["p99"]["enough"]) == (True, False)
    page = KIND.write_page(tmp_path)
    text = page.read_text()
    assert text.count("<figure id=") == 2
    assert headline(flat(result)) in html.unescape(text)
    screen = io.StringIO()
    KIND.print_result(result, Console(file=screen, width=300), page)
    assert screen.getvalue().endswith(f"Report: {page}\n")
    assert "as published, p95: (1, 1) (1, 2), r = (1, 2)" in screen.getvalue()
    assert "Alg. 1 as published" in text
    write_json(tmp_path / SEARCH, {**body, "complete": False, "stopped": "time is over"})
    cut_result = KIND.conclude(tmp_path)
    assert not cut_result["valid"]
    assert "time is over" in cut_result["verdicts"]["measurement"]["reasons"][0]
