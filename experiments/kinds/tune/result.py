"""Result of a search: the request, the inputs of Alg. 1, every step, and the chosen r."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from core.runfiles.manifest import manifest_if_any
from experiments.kinds.tune.evidence import Ratio, Window, ratio
from experiments.kinds.tune.loads import total
from experiments.kinds.tune.replicator import Contest, MeasuredWindow, Point, Replicator
from experiments.kinds.tune.section import Target, TuneSection
from experiments.record.metrics.improvement import STATISTICS
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, Floats, samples_beyond
from experiments.record.result import Findings, not_measured
from optimizer.replication import (
    Replicas,
    TierLoad,
    collision_probabilities,
    search_replicas,
    server_utilisation,
    token_utilisation,
)

SEARCH = "walk.json"  # of a run's folder: the search as it went


def analyse(folder: Path) -> Findings:
    """Return the result of the search, which was decided during the run."""
    result = json.loads((folder / SEARCH).read_text(encoding="utf-8"))
    reasons = [] if result["complete"] else [f"the search was cut short: {result['stopped']}"]
    verdicts = not_measured(manifest_if_any(folder)["verdicts"], reasons)
    chosen = f"r = ({', '.join(map(str, result['chosen']))})" if result["chosen"] else ""
    return Findings(result, verdicts, found=chosen)


def result_json(
    section: TuneSection,
    replicator: Replicator,
    loads: Sequence[TierLoad],
    feasible: Sequence[Replicas],
    *,
    complete: bool,
) -> dict[str, object]:
    """Return the whole result of a tune, also of one that was cut short (`complete` is then False).

    `iterations` counts as in the paper's Tables 4 and 6: all measured points with the start.
    """
    exhaustive = _exhaustive(replicator)
    round_requests = sum(window.requests for windows in replicator.rounds for window in windows)
    chosen, servers = replicator.chosen, [load.servers for load in loads]
    return {
        "asked": section.model_dump(mode="json"),
        "tiers": [_tier(load) for load in loads],
        "feasible": [
            {"replicas": list(r), "collision": list(collision_probabilities(servers, r))}
            for r in feasible
        ],
        "start": _point(replicator.start),
        "steps": [_step(number, step) for number, step in enumerate(replicator.contests, start=2)],
        "chosen": None if chosen is None else list(chosen.replicas),
        "iterations": len(replicator.contests) + (replicator.start is not None),
        "windows": len(replicator.windows),
        "requests": {"walk": replicator.requests - round_requests, "exhaustive": round_requests},
        "pairs_max": replicator.rules.pairs_max,
        "error": replicator.rules.error,
        "levels": list(replicator.rules.levels),
        "stretch_s": replicator.rules.stretch_s,
        "stopped": replicator.stopped or "interrupted",
        "complete": complete,
        "exhaustive": exhaustive,
    }


def _tier(load: TierLoad) -> dict[str, object]:
    return {
        "tier": load.name,
        "servers": load.servers,
        "cores": load.cores,
        "tokens_per_server": load.tokens_per_server,
        "request_per_s": load.request_per_s,
        "processing_ms": load.processing_s * 1e3,
        "connection_per_s": load.connection_per_s,
        "token_hold_ms": load.token_hold_s * 1e3,
        "server_utilisation": server_utilisation(load, 1),
        "token_utilisation": token_utilisation(load, 1),
    }


def _point(point: Point | None) -> dict[str, object] | None:
    if point is None:
        return None
    return {
        "replicas": list(point.replicas),
        "value_ms": point.value_ms,
        "low_ms": point.low_ms,
        "high_ms": point.high_ms,
        "samples": point.samples,
        "variability": list(point.variability),
        "steady_from_s": point.steady.from_s,
        "steady": point.steady.reached,
    }


def _step(number: int, step: Contest) -> dict[str, object]:
    return {
        "iteration": number,
        "current": _point(step.current),
        "candidate": _point(step.candidate),
        "verdict": step.verdict,
        "accepted": step.accepted,
        "pairs": step.pairs,
        "requests": step.requests,
        **asdict(step.significance),
        **asdict(step.ratio),
        "why": step.why,
    }


def _exhaustive(replicator: Replicator) -> dict[str, object] | None:
    """Return every feasible r over the complete rounds, and the chosen one over the best of them.

    The least of several noisy figures looks lower than it is, so the ratio errs upwards.
    """
    rounds = replicator.rounds
    if not rounds or replicator.chosen is None:
        return None
    by_replicas = {windows[0].replicas: windows for windows in zip(*rounds, strict=True)}
    points = {r: replicator.point(r, windows) for r, windows in by_replicas.items()}
    best = min(points.values(), key=lambda point: point.value_ms)
    chosen = replicator.chosen.replicas
    from_s = max(point.steady.from_s for point in points.values())
    steady_rounds = {r: _SteadyRounds(windows, from_s) for r, windows in by_replicas.items()}
    quotient = _quotient(replicator, steady_rounds, best.replicas, chosen, replicator.rules.target)
    return {
        "rounds": len(rounds),
        "points": [_point(point) for point in points.values()],
        "best": list(best.replicas),
        **asdict(quotient),
        "cases": [_case(replicator, steady_rounds, target) for target in get_args(Target)],
    }


@dataclass(frozen=True)
class _SteadyRounds:
    """The windows of one r over the rounds, counted from `from_s` on."""

    measured: Sequence[MeasuredWindow]
    from_s: float

    def windows(self) -> list[Window]:
        return [window.window.after(self.from_s) for window in self.measured]

    def latency_ms(self) -> Floats:
        return np.concatenate([window.latency_ms for window in self.windows()])

    def variability(self, target: Target) -> tuple[float, ...]:
        tiers = zip(*(window.tiers for window in self.measured), strict=True)
        return tuple(total(tier).variability(target) for tier in tiers)


def _case(
    replicator: Replicator, steady_rounds: Mapping[Replicas, _SteadyRounds], target: Target
) -> dict[str, object]:
    """Run Alg. 1 as published on the rounds' figures of one target: it accepts a lower figure
    without regard to its interval. `factor` is the figure of r = 1 over the chosen one's."""
    statistic, quantile = STATISTICS[target]
    value_ms = {r: statistic(rounds.latency_ms()) for r, rounds in steady_rounds.items()}
    search = search_replicas(
        steady_rounds, lambda r: (value_ms[r], steady_rounds[r].variability(target))
    )
    best = min(value_ms, key=lambda r: value_ms[r])
    samples_min = min(rounds.latency_ms().size for rounds in steady_rounds.values())
    all_ones = (1,) * len(search.replicas)
    return {
        "target": target,
        "walk": [
            {"replicas": list(step.replicas), "value_ms": step.target, "accepted": step.accepted}
            for step in search.steps
        ],
        "chosen": list(search.replicas),
        "best": list(best),
        "factor": value_ms[all_ones] / value_ms[search.replicas],
        "enough": quantile is None or samples_beyond(quantile, samples_min) >= SAMPLES_BEYOND_MIN,
        **asdict(_quotient(replicator, steady_rounds, best, search.replicas, target)),
    }


def _quotient(
    replicator: Replicator,
    steady_rounds: Mapping[Replicas, _SteadyRounds],
    best: Replicas,
    chosen: Replicas,
    target: Target,
) -> Ratio:
    """Return chosen / best with its 95 % interval."""
    if best == chosen:
        return Ratio(1.0, 1.0, 1.0)
    pairs = list(zip(steady_rounds[best].windows(), steady_rounds[chosen].windows(), strict=True))
    return ratio(pairs, target, replicator.rules.stretch_s, replicator.rng)
