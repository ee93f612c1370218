"""Time at full strength of a run with crashes and recoveries, beside PCRAFT's models.

A tier is at full strength while at least `needed` of its machines serve. The measured share is over
the phase `measure` of all blocks; each block begins with every machine up. Its interval is a
bootstrap over regenerative cycles: stretches of time that begin with the tier in its initial state,
all nodes up and nothing broken. A block's last cycle is cut off. The model uses the measured rates
of the same run, and the block's length as its horizon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from core.errors import SparecraftError
from core.runfiles.events import Window, of_kind, read_events, run_end_s, windows, without_discarded
from core.runfiles.manifest import manifest_if_any
from core.units import YEAR_S
from experiments.design.failover import mechanism
from experiments.design.fleet import Fleet
from experiments.kinds.compare import analysis as compare
from experiments.record.metrics.bootstrap import seeded
from experiments.record.metrics.summary import checked_fleet, without_nan
from experiments.record.result import Findings
from optimizer.availability import availability
from optimizer.fit.failovers import SAMPLES_LEAST, Failovers, failovers
from optimizer.uncertainty import rates_from

CYCLES_MIN = 5
_DRAWS = 2000
_MODEL_DRAWS = 200
_TAIL = 2.5  # per cent on each side


@dataclass(frozen=True)
class Cycle:
    """A stretch of time, and how much of it the tier was below strength [s]."""

    length_s: float
    below_s: float


def analyse(folder: Path) -> Findings:
    findings = compare.analyse(folder)
    return replace(findings, body={**findings.body, "strength": strength_of(folder)})


def strength_of(folder: Path) -> dict[str, object]:
    manifest = manifest_if_any(folder)
    events = without_discarded(read_events(folder / "events.jsonl"))
    requests = pl.read_parquet(folder / "requests.parquet")
    run_windows = windows(events, run_end_s(requests, events, manifest))
    fleet = checked_fleet(manifest["spec"])
    return dict(without_nan(strength(events, run_windows, manifest, fleet, seeded(manifest))))


def strength(
    events: Sequence[Mapping[str, Any]],
    run_windows: Sequence[Window],
    manifest: Mapping[str, Any],
    fleet: Fleet,
    rng: np.random.Generator,
) -> dict[str, object]:
    """Fail-overs and time at full strength by tier, ready for JSON."""
    settings = manifest["spec"]["failover"]
    tiers = settings.get("tiers") or fleet.tiers
    failed = [e for e in events if e.get("what") == "failover" and e.get("action") == "error"]
    return {
        "settings": dict(settings),
        "tiers": {tier: _tier(tier, events, run_windows, fleet, settings, rng) for tier in tiers},
        "failovers": _list_failovers(events),
        "pool_empty": _pool_waits(run_windows),
        "errors": len(failed),
    }


def _list_failovers(events: Iterable[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Every fail-over that came to its end, with its parts [s]."""
    return [
        {
            "time_s": event["time_s"], "mechanism": event["kind"], "machine": event["machine"],
            "repeat": event.get("repeat"), **event["parameters"],
        }
        for event in events
        if event.get("what") == "failover"
        and event.get("action") == "end"
        and "total_s" in (event.get("parameters") or {})
    ]  # fmt: skip


def _pool_waits(run_windows: Sequence[Window]) -> dict[str, object]:
    waits = [w for w in of_kind(run_windows, "failover") if w.kind == "standby_pool_empty"]
    return {"count": len(waits), "total_s": sum(w.duration_s for w in waits)}


def _tier(
    tier: str,
    events: Sequence[Mapping[str, Any]],
    run_windows: Sequence[Window],
    fleet: Fleet,
    settings: Mapping[str, Any],
    rng: np.random.Generator,
) -> dict[str, object]:
    spec, kind = fleet.tiers[tier], mechanism(fleet, tier)
    needed = int((settings.get("needed") or {}).get(tier, spec.nodes))
    machines = frozenset(f"{tier}-{i}" for i in range(1, spec.nodes + spec.standby + 1))
    tier_events = [event for event in events if event.get("machine") in machines]
    tier_windows = [w for w in run_windows if w.machine in machines]
    blocks = [w for w in of_kind(run_windows, "phase") if w.kind == "measure" and w.duration_s > 0]
    cycles: list[Cycle] = []
    crashes, exposure_s = 0, 0.0
    for block in blocks:
        block_windows = [w for w in tier_windows if w.repeat == block.repeat]
        served = of_kind(block_windows, "member")
        broken = _outages(block_windows)
        crashes += sum(block.start_s <= w.start_s < block.end_s for w in of_kind(broken, "fault"))
        exposure_s += sum(_overlap_s(w, block) for w in served)
        cycles += cycles_of(block, served, broken, needed, spec.nodes)
    times = failovers(tier_events)
    horizon_s = blocks[0].duration_s if blocks else 0.0
    extra = spec.standby if kind == "pf" else spec.nodes - needed
    result = {
        "mechanism": kind, "needed": needed, "nodes": spec.nodes, "standby": spec.standby,
        "crashes": crashes, "exposure_s": exposure_s,
        "crash_mean_s": exposure_s / crashes if crashes else None,
        "recovery": _times(times.crash_recovery_s), "repair": _times(times.pool_repair_s),
        "measured": _measured_share(cycles, rng),
    }  # fmt: skip
    predicted = _predicted_share(kind, needed, extra, times, crashes, exposure_s, horizon_s, rng)
    return {**result, "horizon_s": horizon_s, "predicted": predicted}


def _outages(run_windows: Sequence[Window]) -> list[Window]:
    return [w for w in of_kind(run_windows, "fault", "failover") if w.kind != "standby_pool_empty"]


def _overlap_s(window: Window, block: Window) -> float:
    return max(0.0, min(window.end_s, block.end_s) - max(window.start_s, block.start_s))


def cycles_of(
    block: Window, served: Sequence[Window], broken: Sequence[Window], needed: int, nodes: int
) -> list[Cycle]:
    """Return the block's regenerative cycles; the sweep goes over the times of all changes."""
    inner = {t for w in [*served, *broken] for t in (w.start_s, w.end_s)}
    times = sorted({block.start_s, block.end_s, *inner})
    times = [t for t in times if block.start_s <= t <= block.end_s]
    cycles: list[Cycle] = []
    length_s = below_s = 0.0
    was_intact = True
    for start_s, end_s in pairwise(times):
        up = sum(w.start_s <= start_s and w.end_s >= end_s for w in served)
        is_intact = up >= nodes and not any(
            w.start_s <= start_s and w.end_s >= end_s for w in broken
        )
        if is_intact and not was_intact:
            cycles.append(Cycle(length_s, below_s))
            length_s = below_s = 0.0
        was_intact = is_intact
        length_s += end_s - start_s
        below_s += end_s - start_s if up < needed else 0.0
    return [*cycles, Cycle(length_s, below_s)] if length_s else cycles


def _measured_share(cycles: Sequence[Cycle], rng: np.random.Generator) -> dict[str, object]:
    length_s = np.array([cycle.length_s for cycle in cycles])
    below_s = np.array([cycle.below_s for cycle in cycles])
    share = 1.0 - float(below_s.sum() / length_s.sum()) if length_s.sum() else None
    low = high = None
    if len(cycles) >= 2:
        draws = rng.integers(len(cycles), size=(_DRAWS, len(cycles)))
        shares = 1.0 - below_s[draws].sum(axis=1) / length_s[draws].sum(axis=1)
        low, high = (float(v) for v in np.percentile(shares, (_TAIL, 100.0 - _TAIL)))
    return {
        "share": share, "ci_low": low, "ci_high": high, "cycles": len(cycles),
        "time_s": float(length_s.sum()), "insufficient": len(cycles) < CYCLES_MIN,
    }  # fmt: skip


def _times(samples_s: Sequence[float]) -> dict[str, object]:
    if not samples_s:
        return {"samples": 0}
    values = np.asarray(samples_s)
    p05, p50, p95 = (float(v) for v in np.percentile(values, (5, 50, 95)))
    return {
        "samples": len(values), "mean_s": float(values.mean()), "min_s": float(values.min()),
        "p05_s": p05, "p50_s": p50, "p95_s": p95, "max_s": float(values.max()),
        "sd_s": float(values.std(ddof=1)) if len(values) > 1 else None,
    }  # fmt: skip


def _predicted_share(
    kind: str,
    needed: int,
    extra: int,
    times: Failovers,
    crashes: int,
    exposure_s: float,
    horizon_s: float,
    rng: np.random.Generator,
) -> dict[str, object]:
    """Return the model's share with the measured rates, and its interval over their uncertainty."""

    rate_names = {"cloud": ("failover_s",), "ara": ("repair_s",), "pf": ("failover_s", "repair_s")}
    table = {name: value for name, value in times.rates().items() if name in rate_names[kind]}
    absent = [name for name in rate_names[kind] if name not in table]
    if not crashes or absent:
        shortage = (
            "no crash" if not crashes else f"fewer than {SAMPLES_LEAST} of {', '.join(absent)}"
        )
        return {"share": None, "reason": f"the run saw {shortage}"}
    table["crash_per_year"] = {"count": crashes, "node_years": exposure_s / YEAR_S}
    rates = rates_from(table)
    means = {name: float(np.mean(table[name]["samples"])) for name in rate_names[kind]}
    means["crash_per_year"] = crashes * YEAR_S / exposure_s
    scheme, model = ("cloud", "ara") if kind == "cloud" else ("on-prem", kind)

    def share(values: Any) -> float:
        prediction = availability(
            needed, extra, values, mechanism=model, scheme=scheme, horizon_s=horizon_s
        )
        return prediction.availability

    try:
        shares = [share(values) for values in rates.sample(rng, _MODEL_DRAWS)]
        middle = share(rates.with_values(means))
    except SparecraftError as error:
        return {"share": None, "reason": str(error)}
    low, high = (float(v) for v in np.percentile(shares, (_TAIL, 100.0 - _TAIL)))
    return {"share": middle, "ci_low": low, "ci_high": high}
