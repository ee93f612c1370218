"""Result of a search: the request, the inputs of Alg. 1, every step, the r it stands at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from core.runfiles.manifest import manifest_if_any
from experiments.kinds.tune.evidence import Ratio, ratio
from experiments.kinds.tune.replicator import Contest, Measured, Point, Replicator
from experiments.kinds.tune.section import TuneSection
from experiments.record.result import Findings, not_measured
from optimizer.replication import (
    Replicas,
    TierLoad,
    collision_probabilities,
    server_utilisation,
    token_utilisation,
)

SEARCH = "walk.json"  # of a run's folder: the search as it went


def analyse(folder: Path) -> Findings:
    """The search; it was decided while it went."""
    result = json.loads((folder / SEARCH).read_text(encoding="utf-8"))
    cut = [] if result["complete"] else [f"the search was cut short: {result['stopped']}"]
    verdicts = not_measured(manifest_if_any(folder)["verdicts"], cut)
    said = f"r = ({', '.join(map(str, result['chosen']))})" if result["chosen"] else ""
    return Findings(result, verdicts, found=said)


def result_json(
    section: TuneSection,
    replicator: Replicator,
    loads: Sequence[TierLoad],
    feasible: Sequence[Replicas],
    rounds: Sequence[Sequence[Measured]],
    *,
    complete: bool,
) -> dict[str, object]:
    """Everything of a tune, also of one that was cut short (`complete` is then False).

    `iterations` counts as in the paper's Tables 4 and 6: the points measured, the start among them.
    """
    exhaustive = _exhaustive(replicator, rounds)
    spent = sum(window.requests for found in rounds for window in found)
    chosen = replicator.chosen
    return {
        "asked": section.model_dump(mode="json"),
        "tiers": [_tier(load) for load in loads],
        "feasible": [
            {"replicas": list(r), "collision": list(_collisions(loads, r))} for r in feasible
        ],
        "start": _point(replicator.start),
        "steps": [_step(number, step) for number, step in enumerate(replicator.contests, start=2)],
        "chosen": None if chosen is None else list(chosen.replicas),
        "iterations": len(replicator.contests) + (replicator.start is not None),
        "windows": len(replicator.windows),
        "requests": {"walk": replicator.requests - spent, "exhaustive": spent},
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


def _collisions(loads: Sequence[TierLoad], replicas: Replicas) -> tuple[float, ...]:
    return collision_probabilities([load.servers for load in loads], replicas)


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


def _exhaustive(
    replicator: Replicator, rounds: Sequence[Sequence[Measured]]
) -> dict[str, object] | None:
    """Every feasible r over the complete rounds, and the chosen one against the least of them.

    The least of several noisy figures looks lower than it is, so the ratio errs upwards.
    """
    if not rounds or replicator.chosen is None:
        return None
    by_replicas = {found[0].replicas: found for found in zip(*rounds, strict=True)}
    points = {r: replicator.point(r, found) for r, found in by_replicas.items()}
    best = min(points.values(), key=lambda point: point.value_ms)
    ours = replicator.chosen.replicas
    quotient = Ratio(1.0, 1.0, 1.0)
    if best.replicas != ours:
        from_s = max(points[r].steady.from_s for r in (ours, best.replicas))
        pairs = [
            (one.window.after(from_s), other.window.after(from_s))
            for one, other in zip(by_replicas[best.replicas], by_replicas[ours], strict=True)
        ]
        quotient = ratio(pairs, replicator.rules.target, replicator.rules.stretch_s, replicator.rng)
    return {
        "rounds": len(rounds),
        "points": [_point(point) for point in points.values()],
        "best": list(best.replicas),
        **asdict(quotient),
    }
