"""Improvement factors: exact where they must be, and intervals that cover as often as they say."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from experiments.record.metrics import bootstrap
from experiments.record.metrics.bootstrap import Sample, Stratum
from experiments.record.metrics.improvement import improvement, pairs_of
from experiments.record.records import REQUESTS

LENGTH_S = 60.0
RATE_PER_S = 10.0
SLOWER = {"baseline": 3.0, "replicated": 1.5}


def simulated_pair(rng: np.random.Generator, drift_sd: float) -> list[Stratum]:
    """One pair: shared arrivals and shared bursts that slow the baseline more than the other."""
    at_s = np.sort(rng.uniform(0.0, LENGTH_S, rng.poisson(LENGTH_S * RATE_PER_S)))
    slow = np.zeros(at_s.size)
    for _ in range(3):
        start_s = rng.exponential(40.0)
        while start_s < LENGTH_S:
            end_s = start_s + rng.exponential(10.0)
            slow += (at_s >= start_s) & (at_s < end_s)
            start_s = end_s + rng.exponential(40.0)
    latencies = []
    for arm, factor in SLOWER.items():
        burst = 1.0 + factor * np.minimum(slow, 2.0) * rng.uniform(0.0, 1.0, at_s.size)
        drift = np.exp(rng.normal(0.0, drift_sd)) * 1.2 if arm == "baseline" else 1.0
        latencies.append(40.0 * np.exp(rng.normal(0.0, 0.4, at_s.size)) * burst * drift)
    at_s = at_s - at_s[0]
    return [Stratum(LENGTH_S, tuple(Sample(at_s, latency_ms) for latency_ms in latencies))]


def true_mean_factor() -> float:
    """The factor of the means in the long run, from 3,000 pairs."""
    rng = np.random.default_rng(9)
    pairs = [simulated_pair(rng, 0.0)[0] for _ in range(3000)]
    return float(
        np.concatenate([pair.arms[0].latency_ms for pair in pairs]).mean()
        / np.concatenate([pair.arms[1].latency_ms for pair in pairs]).mean()
    )


@pytest.mark.parametrize(("pairs", "drift_sd"), [(2, 0.0), (2, 0.1), (4, 0.1)])
def test_intervals_cover_the_truth_about_as_often_as_they_claim(
    pairs: int, drift_sd: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "DRAWS_MAX", 120)
    monkeypatch.setattr(bootstrap, "DRAWS_MIN", 120)
    truth, trials, covered = true_mean_factor(), 60, 0
    for trial in range(trials):
        rng = np.random.default_rng((pairs, round(drift_sd * 100), trial))
        sample = [simulated_pair(rng, drift_sd) for _ in range(pairs)]
        found = improvement(sample, block_s=10.0, rng=rng)["mean"]
        covered += found["ci_low"] <= truth <= found["ci_high"]
    # Nominal 95 %. Fewer than 49 of 60 has a chance of 4e-5 at 95 %, 5 % at 88 %, 55 % at 80 %.
    assert covered >= 49, f"{covered} of {trials} intervals covered {truth:.3f}"


def test_a_bootstrap_over_single_requests_would_not_have_covered() -> None:
    """Why there are blocks of time: the naive interval misses far too often on the same data."""
    truth, trials, covered = true_mean_factor(), 60, 0
    for trial in range(trials):
        rng = np.random.default_rng((2, 10, trial))
        strata = [simulated_pair(rng, 0.1)[0] for _ in range(2)]
        logs = [np.concatenate([s.arms[arm].latency_ms for s in strata]) for arm in (0, 1)]
        factor = np.log(logs[0].mean() / logs[1].mean())
        error = np.sqrt(sum(x.var() / x.size / x.mean() ** 2 for x in logs))
        covered += abs(factor - np.log(truth)) <= 1.96 * error
    assert covered < 49


def frame(latency_ms: dict[str, list[float]], pair: int = 0) -> pl.DataFrame:
    """Both arms of one pair, one request a second."""
    rows = [
        {"arm": arm, "repeat": pair * 2 + number, "pair": pair, "phase": "measure", "index": index,
         "user": "u", "name": "n", "intended_s": 100.0 * number + index, "sent_s": 0.0,
         "done_s": 0.0, "latency_ms": value, "lag_ms": 0.0, "outcome": "ok", "status": 200,
         "bytes": 1}
        for number, (arm, values) in enumerate(latency_ms.items())
        for index, value in enumerate(values)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=REQUESTS)


def test_a_constant_ratio_gives_an_interval_without_width() -> None:
    rng = np.random.default_rng(5)
    replicated = list(rng.lognormal(4.0, 0.5, 200))
    both = pl.concat(
        frame({"baseline": [2.0 * value for value in replicated], "replicated": replicated}, pair)
        for pair in range(2)
    )
    found = improvement(pairs_of(both, "baseline", "replicated"), block_s=10.0, rng=rng)
    for entry in found.values():
        assert entry["factor"] == pytest.approx(2.0)
        assert entry["ci_low"] == pytest.approx(2.0)
        assert entry["ci_high"] == pytest.approx(2.0)


def test_swapping_the_arms_inverts_factor_and_interval() -> None:
    rng = np.random.default_rng(6)
    values = {
        "baseline": list(rng.lognormal(5, 1, 300)),
        "replicated": list(rng.lognormal(4, 1, 300)),
    }
    there = improvement(
        pairs_of(frame(values), "baseline", "replicated"),
        block_s=10.0,
        rng=np.random.default_rng(1),
    )
    back = improvement(
        pairs_of(frame(values), "replicated", "baseline"),
        block_s=10.0,
        rng=np.random.default_rng(1),
    )
    for name in there:
        assert back[name]["factor"] == pytest.approx(1 / there[name]["factor"])
        assert back[name]["ci_high"] == pytest.approx(1 / there[name]["ci_low"], rel=1e-6)


def test_the_same_seed_gives_the_same_interval() -> None:
    rng = np.random.default_rng(6)
    pairs = [simulated_pair(rng, 0.1) for _ in range(2)]
    first, second = (
        improvement(pairs, block_s=10.0, rng=np.random.default_rng(4)) for _ in range(2)
    )
    assert first == second


def test_pairs_that_disagree_open_the_interval() -> None:
    rng = np.random.default_rng(8)
    base = rng.lognormal(4.0, 0.3, 400)
    agree = [frame({"baseline": list(base * 2), "replicated": list(base)}, p) for p in range(2)]
    differ = [
        frame({"baseline": list(base * times), "replicated": list(base)}, p)
        for p, times in enumerate((1.0, 3.0))
    ]
    widths = []
    for frames in (agree, differ):
        pairs = pairs_of(pl.concat(frames), "baseline", "replicated")
        found = improvement(pairs, block_s=10.0, rng=np.random.default_rng(2))["mean"]
        widths.append(found["ci_high"] / found["ci_low"])
    assert widths[0] < 1.01
    assert widths[1] > 3.0


def test_one_pair_says_that_it_cannot_see_between_pairs() -> None:
    rng = np.random.default_rng(3)
    found = improvement([simulated_pair(rng, 0.0)], block_s=10.0, rng=rng)
    assert found["mean"]["pairs"] == 1
    assert "one pair" in found["mean"]["note"]


def test_p99_of_few_requests_is_marked_insufficient() -> None:
    rng = np.random.default_rng(3)
    values = {
        "baseline": list(rng.lognormal(4, 1, 300)),
        "replicated": list(rng.lognormal(4, 1, 300)),
    }
    found = improvement(pairs_of(frame(values), "baseline", "replicated"), block_s=10.0, rng=rng)
    assert found["p99"]["insufficient"]
    assert not found["p95"]["insufficient"]


def test_an_interrupted_pair_compares_only_what_both_arms_measured() -> None:
    values = {"baseline": [100.0] * 50 + [9000.0] * 50, "replicated": [50.0] * 50}
    pairs = pairs_of(frame(values), "baseline", "replicated")
    found = improvement(pairs, block_s=10.0, rng=np.random.default_rng(1))
    assert found["mean"]["factor"] == pytest.approx(2.0)
    assert found["mean"]["samples"] == 50


def test_without_a_second_arm_there_is_no_factor_and_a_reason() -> None:
    pairs = pairs_of(frame({"baseline": [1.0, 2.0]}), "baseline", "replicated")
    found = improvement(pairs, block_s=10.0, rng=np.random.default_rng(1))
    assert found["p99"]["factor"] is None
    assert found["p99"]["note"]
