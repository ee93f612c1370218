"""Rates at which the rule is right, wrong, and undecided, where the answer is known.

python -m experiments.tests.limplock_calibration [DRAWS]

Each draw is another cluster (threads, clients, service times, severity, noise of the host) and
another course of three repeats. `limplock_model.py` says why each has the answer that is expected.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from experiments.kinds.limplock.judge.dose import Class, Dose
from experiments.kinds.limplock.judge.probes import SCHEMA, Stream, probe_findings
from experiments.kinds.limplock.judge.rule import Limplock, Measured, Rule, Verdict, judge
from experiments.kinds.limplock.judge.slowdown import Duration
from experiments.tests.limplock_model import LIMPING, Cluster, Outcome, Repeat

REPEATS = 3
SEVERITIES = (10.0, 100.0, 1000.0)
FACTORS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 10.0)
SPREADS = ((3, 0.1, 0.1), (3, 0.2, 0.2), (3, 0.1, 0.4), (5, 0.2, 0.2), (5, 0.1, 0.4))
"""Repeats, and the spread of the logarithm of a base run's and of a faulty run's duration."""
BANDS = (1.0, 1.5, 2.0, 3.0, 4.5, 9.0)
_REPEATS_TRUE = 12
_SEED = 20261124
Draw = Callable[[np.random.Generator], Cluster]
Verdicts = tuple[Verdict, Verdict, Verdict]  # operation, node, cluster


@dataclass(frozen=True)
class Scenario:
    """Clusters of one make, and what must be found of them."""

    name: str
    draw: Draw
    expected: Verdicts


def measured(cluster: Cluster, outcomes: Sequence[Outcome]) -> Measured:
    """Repeats of a cluster as a testbed would hand them over."""
    rows = [
        (
            repeat,
            f"n{probe.node}",
            probe.operation,
            probe.needs,
            probe.start_s,
            probe.end_s,
            probe.outcome,
        )
        for repeat, outcome in enumerate(outcomes)
        for probe in outcome.probes
    ]
    return Measured(
        limping=f"n{LIMPING}",
        fault_s=dict.fromkeys(range(len(outcomes)), cluster.fault_s),
        probes=pl.DataFrame(rows, schema=SCHEMA, orient="row"),
        base=[_waited(outcome.base_run_s, cluster.base_s) for outcome in outcomes],
        faulty=[_waited(outcome.faulty_run_s, cluster.fault_s) for outcome in outcomes],
        dose=_dose(cluster) if cluster.design == "queue" else None,
    )


def _dose(cluster: Cluster) -> Dose:
    """Updates that are written while the fault lasts, of those that memory holds."""
    updates = _updates_per_s(cluster) * cluster.fault_s
    verdicts: tuple[Class, ...] = ("operation", "node", "cluster")
    return Dose("the holder's memory", "updates", updates, float(cluster.memory), 1.0, verdicts)


def _updates_per_s(cluster: Cluster) -> float:
    return cluster.writers / (cluster.think_s + cluster.processor_s + 2 * cluster.device_s)


def _waited(seconds: float | None, most_s: float) -> Duration:
    return Duration(most_s, at_least=True) if seconds is None else Duration(seconds)


def repeats(cluster: Cluster, rng: np.random.Generator, count: int = REPEATS) -> list[Outcome]:
    """Simulate several repeats of one cluster."""
    return [Repeat(cluster, rng).run() for _ in range(count)]


def _cluster(rng: np.random.Generator, **changes: Any) -> Cluster:
    """Clients keep a device busy 30 to 60 % of the time, as in the paper, and hold all threads
    when it limps."""
    threads = int(rng.integers(3, 7))
    values: dict[str, Any] = {
        "severity": float(rng.choice(SEVERITIES)),
        "threads": threads,
        "writers": threads + int(rng.integers(6, 9)),
        "processor_s": float(rng.uniform(0.003, 0.006)),
        "device_s": float(rng.uniform(0.015, 0.02)),
        "noise": float(rng.uniform(0.02, 0.3)),
    }
    return Cluster(**values | changes)


def _queue(rng: np.random.Generator, filled: bool) -> Cluster:
    """Memory for 4 to 6 s of updates, or for ten times as many as there can be."""
    cluster = _cluster(rng, design="queue", severity=float(rng.choice(SEVERITIES[1:])))
    seconds = float(rng.uniform(4.0, 6.0)) if filled else 10 * cluster.fault_s
    return replace(cluster, memory=int(_updates_per_s(cluster) * seconds))


SCENARIOS = (
    Scenario(
        "threads for all, writes to the own device",
        lambda rng: _cluster(rng, design="pool"),
        ("yes", "yes", "no"),
    ),
    Scenario(
        "threads for all, writes to any device",
        lambda rng: _cluster(rng, design="pool", anywhere=True),
        ("yes", "yes", "yes"),
    ),
    Scenario(
        "queue without limit, memory fills",
        lambda rng: _queue(rng, filled=True),
        ("yes", "yes", "no"),
    ),
    Scenario(
        "queue without limit, fault ends before",
        lambda rng: _queue(rng, filled=False),
        ("under-dosed", "under-dosed", "under-dosed"),
    ),
    Scenario(
        "threads for each stage", lambda rng: _cluster(rng, design="stages"), ("yes", "no", "no")
    ),
    Scenario(
        "threads for all, a crash",
        lambda rng: _cluster(rng, design="pool", fault="crash"),
        ("no", "no", "no"),
    ),
    Scenario(
        "threads for all, no fault",
        lambda rng: _cluster(rng, design="pool", fault="none"),
        ("no", "no", "no"),
    ),
    Scenario(
        "the same on a very noisy host",
        lambda rng: _cluster(rng, design="pool", fault="none", noise=0.7),
        ("no", "no", "no"),
    ),
    Scenario(
        "writes to any device on a very noisy host",
        lambda rng: _cluster(rng, design="pool", anywhere=True, noise=0.7),
        ("yes", "yes", "yes"),
    ),
)


def verdicts(findings: Limplock) -> Verdicts:
    """Return the verdicts on operation, node and cluster."""
    return findings.operation.verdict, findings.node, findings.cluster


def tally(verdict: Verdict, expected: Verdict) -> str:
    """Say if a verdict is right, wrong or insufficient."""
    if verdict == "insufficient":
        return verdict
    return "right" if verdict == expected else "wrong"


def row(scenario: Scenario, draws: int) -> str:
    """A scenario as a line of a Markdown table."""
    rng = np.random.default_rng((_SEED, SCENARIOS.index(scenario)))
    counts: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())
    for _ in range(draws):
        cluster = scenario.draw(rng)
        row_verdicts = verdicts(judge(measured(cluster, repeats(cluster, rng)), Rule()))
        for count, verdict, expected in zip(counts, row_verdicts, scenario.expected, strict=True):
            count[tally(verdict, expected)] += 1
    cells = [
        f"{counter['right']} / {counter['wrong']} / {counter['insufficient']}" for counter in counts
    ]
    return f"| {scenario.name} | {' / '.join(scenario.expected)} | {' | '.join(cells)} |"


def near_row(factor: float, draws: int) -> str:
    """Operations of a known slowdown: how often each verdict comes, by repeats and spread."""
    rng = np.random.default_rng((_SEED, round(factor * 100)))
    cells = []
    for count, *spread in SPREADS:
        counts = Counter(
            judge(_runs(factor, count, spread, rng), Rule()).operation.verdict for _ in range(draws)
        )
        cells.append(f"{counts['yes']} / {counts['no']} / {counts['insufficient']}")
    return f"| {factor:g} × | {' | '.join(cells)} |"


def _runs(factor: float, count: int, spread: Sequence[float], rng: np.random.Generator) -> Measured:
    base, faulty = (np.exp(rng.normal(0.0, spread_sd, count)) for spread_sd in spread)
    return Measured(
        limping="",
        fault_s={},
        probes=pl.DataFrame(schema=SCHEMA),
        base=[Duration(float(seconds)) for seconds in base],
        faulty=[Duration(float(seconds)) for seconds in faulty * factor],
    )


def mild(rng: np.random.Generator) -> tuple[float, Verdict]:
    """A device 3 to 12 times slower under few threads: by how much the node's reads are slower,
    from twelve further repeats, and whether three find the node's limplock."""
    cluster = _cluster(rng, design="pool", severity=float(rng.uniform(3.0, 12.0)))
    cluster = replace(cluster, noise=0.05, writers=cluster.threads + 4, think_s=1.0)
    findings = judge(measured(cluster, repeats(cluster, rng)), Rule())
    [node] = [entry for entry in findings.nodes if entry.node == f"n{LIMPING}"]
    return _true(cluster, rng), node.verdict


def _true(cluster: Cluster, rng: np.random.Generator) -> float:
    many_repeats = measured(cluster, repeats(cluster, rng, _REPEATS_TRUE))
    rule = Rule()
    streams = probe_findings(
        many_repeats.probes,
        many_repeats.fault_s,
        {},
        factor=rule.factor,
        judged_share=rule.judged_share,
    )
    reads = streams[Stream(many_repeats.limping, "read", "node")]
    faulty = [read.faulty.seconds for read in reads if read.faulty is not None]
    base = [read.base_s for read in reads if read.base_s is not None]
    return float(np.median(faulty) / np.median(base))


def mild_rows(draws: int) -> list[str]:
    """Counts of findings by truth."""
    rng = np.random.default_rng((_SEED, 1000))
    samples = [mild(rng) for _ in range(draws)]
    rows = []
    for low, high in zip((0.0, *BANDS), (*BANDS, np.inf), strict=True):
        counts = Counter(verdict for true, verdict in samples if low <= true < high)
        rows.append(
            f"| {low:g} to {high:g} × | {counts['yes']} | {counts['no']} |"
            f" {counts['insufficient']} |"
        )
    return rows


def main() -> None:
    """The three tables."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("| cluster | known answer | operation | node | cluster |", "|---" * 5 + "|", sep="\n")
    for scenario in SCENARIOS:
        print(row(scenario, draws), flush=True)
    heads = [f"{count} repeats, {base:g} and {faulty:g}" for count, base, faulty in SPREADS]
    print("", f"| slowdown | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|", sep="\n")
    for factor in FACTORS:
        print(near_row(factor, 10 * draws), flush=True)
    print("", "| reads slower by | yes | no | insufficient |", "|---" * 4 + "|", sep="\n")
    print("\n".join(mild_rows(draws)))


if __name__ == "__main__":
    main()
