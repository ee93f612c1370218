"""Simulated runs of a design that decides: how often looks err, how often they decide, and how
often an SLO's interval covers.

`python -m experiments.tests.looked_runs RUNS SLO_RUNS` prints the tables.

Four servers, each with neighbours of its own (gaps of 20 s, runs of 5 s, as `mediawiki-noisy` has
them) that slow its requests several times; both arms of a pair meet the same arrivals and
neighbours.
The host drifts between blocks. Round-robin takes what comes; a policy that avoids slowed servers
meets few of them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
import polars as pl

from core.statistics.sequential import look_times
from experiments.record.metrics.bootstrap import Sample, Stratum
from experiments.record.metrics.looks import OPEN, compared, levels
from experiments.record.metrics.slo import ArmSlo, slo_verdict

RATE_PER_S, MEASURE_S = 5.0, 20.0
SERVERS, GAP_S, RUN_S = 4, 20.0, 5.0
DRIFT_SD = 0.15  # of the logarithm, from block to block
REPEATS, FIRST, LOOKS = 4, 2, 3  # of ABBA: looks after 4, 6 and 8 pairs


def _neighbours(rng: np.random.Generator) -> list[list[tuple[float, float]]]:
    """Times in which each server is slowed."""
    neighbours = []
    for _ in range(SERVERS):
        spans, at_s = [], 0.0
        if rng.random() >= RUN_S / (GAP_S + RUN_S):
            at_s = rng.exponential(GAP_S)
        while at_s < MEASURE_S:
            end_s = at_s + rng.exponential(RUN_S)
            spans.append((at_s, end_s))
            at_s = end_s + rng.exponential(GAP_S)
        neighbours.append(spans)
    return neighbours


def pair(rng: np.random.Generator, avoids: Sequence[float], drift_sd: float) -> Stratum:
    """A block of each arm, over the same arrivals and neighbours.

    Parameters: avoids, of each arm the share of requests that it sends elsewhere when the server
    in turn is slowed: 0 for round-robin.
    """
    at_s = np.sort(rng.uniform(0.0, MEASURE_S, max(2, rng.poisson(RATE_PER_S * MEASURE_S))))
    slowed = np.zeros((SERVERS, at_s.size), dtype=bool)
    for server, spans in enumerate(_neighbours(rng)):
        for start_s, end_s in spans:
            slowed[server] |= (at_s >= start_s) & (at_s < end_s)
    samples = []
    for share in avoids:
        chosen = rng.integers(SERVERS, size=at_s.size)
        hit = slowed[chosen, np.arange(at_s.size)]
        hit &= slowed.all(axis=0) | (rng.random(at_s.size) >= share)
        service_ms = 120.0 * np.exp(rng.normal(0.0, 0.35, at_s.size) + rng.normal(0.0, drift_sd))
        samples.append(
            Sample(at_s, service_ms * np.where(hit, 3.0 + rng.exponential(4.0, at_s.size), 1.0))
        )
    return Stratum(MEASURE_S, tuple(samples))


def frame_of(strata: Sequence[Stratum]) -> pl.DataFrame:
    """Requests of these pairs of blocks, as `prepared` gives them."""
    parts = []
    for number, stratum in enumerate(strata):
        for arm, sample in enumerate(stratum.arms):
            repeat = number * len(stratum.arms) + arm
            parts.append(
                pl.DataFrame({
                    "arm": f"arm-{arm}", "repeat": repeat, "pair": number, "phase": "measure",
                    "index": np.arange(sample.at_s.size),
                    "intended_s": 100.0 * repeat + sample.at_s, "outcome": "ok",
                    "latency_ms": sample.latency_ms,
                })
            )  # fmt: skip
    return pl.concat(parts)


def answer(seed: int, avoids: Sequence[float], drift_sd: float = DRIFT_SD) -> tuple[str, int]:
    """The answer of the looks at a run on its second arm, and after how many pairs."""
    rng = np.random.default_rng((seed, 40))
    pairs = [[pair(rng, avoids, drift_sd)] for _ in range(2 * REPEATS)]
    manifest = {"seed": seed, "spec": {"interference": {"mean_run_s": RUN_S}}}
    shares: list[float] = []
    for repeats in look_times(FIRST, REPEATS, LOOKS):
        shares.append(repeats / REPEATS)
        level, _ = levels(shares, ends=repeats == REPEATS)
        comparison = compared(pairs[: 2 * repeats], "p95", manifest, level)
        if comparison["decided"] != OPEN:
            break
    return comparison["decided"], 2 * repeats


def slo_run(seed: int, blocks: int, avoid: float) -> pl.DataFrame:
    """Return the requests of one arm's blocks."""
    rng = np.random.default_rng((seed, blocks, 41))
    return frame_of([pair(rng, (avoid,), DRIFT_SD) for _ in range(blocks)])


@cache
def limit_ms(share: float, avoid: float) -> float:
    """The latency beyond which just `share` of the requests lie in the long run."""
    latency_ms = slo_run(1, 3000, avoid)["latency_ms"].to_numpy()
    return float(np.quantile(latency_ms, 1.0 - share))


def slo_words(seed: int, blocks: int, avoid: float, slo: dict[str, float]) -> ArmSlo:
    """The SLO's verdict on one arm of so many blocks."""
    verdict = slo_verdict(slo_run(seed, blocks, avoid), ["arm-0"], slo, block_s=RUN_S)
    return verdict["arms"]["arm-0"]


def _print_tables(runs: int, slo_runs: int) -> None:
    print("| arms | runs | faster or slower, after 4 / 6 / 8 pairs | equivalent | undecided |")
    print("|---|---|---|---|---|")
    for name, avoids, drift_sd in (
        ("alike", (0.0, 0.0), DRIFT_SD),
        ("alike, a host that drifts twice as much", (0.0, 0.0), 2 * DRIFT_SD),
        ("alike, both avoid", (0.95, 0.95), DRIFT_SD),
        ("the second avoids", (0.0, 0.95), DRIFT_SD),
    ):  # fmt: skip
        counts = Counter(answer(seed, avoids, drift_sd) for seed in range(runs))
        decided = [sum(counts[word, pairs] for word in ("faster", "slower")) for pairs in (4, 6, 8)]
        totals = [sum(n for (w, _), n in counts.items() if w == word) for word in
                  ("equivalent", "undecided")]  # fmt: skip
        cell = f"{sum(decided) / runs:.1%} ({' / '.join(f'{n / runs:.1%}' for n in decided)})"
        print(
            f"| {name} | {runs} | {cell} | {totals[0] / runs:.1%} | {totals[1] / runs:.1%} |",
            flush=True,
        )
    print()
    print(
        "| blocks | limit | wrongly met | wrongly missed | mean interval |\n|---|---|---|---|---|"
    )
    for key, allowed in (("p95_ms", 0.05), ("p99_ms", 0.01)):
        for blocks in (4, 6, 8, 12, 18):
            _print_slo(key, allowed, blocks, slo_runs)


def _print_slo(key: str, allowed: float, blocks: int, runs: int) -> None:
    slo = {key: limit_ms(allowed, 0.0)}
    verdicts = [slo_words(seed, blocks, 0.0, slo) for seed in range(runs)]
    met, missed = (
        sum(verdict["met"] is word for verdict in verdicts) / runs for word in (True, False)
    )
    shares = [verdict["shares"][key] for verdict in verdicts]
    low, high = (float(np.mean([interval[end] for interval in shares])) for end in ("low", "high"))
    print(f"| {blocks} | {key} | {met:.1%} | {missed:.1%} | {low:.1%} to {high:.1%} |", flush=True)


if __name__ == "__main__":
    _print_tables(int(sys.argv[1]), int(sys.argv[2]))
