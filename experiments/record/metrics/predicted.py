"""The prediction of a plan for a fleet, beside the measurement of a run of that fleet.

The plan is fitted to the phase `measure`, with neighbours and before faults, so its percentiles are
compared with that phase. Percentiles with faults are shown beside, and compared only if the plan's
distribution has them. A run of minutes cannot measure an availability over a year; it shows the
observed failures, and their small weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import polars as pl
from scipy import stats

from core.runfiles.events import Window, of_kind
from core.runfiles.requests import BEFORE_FAULTS, without_faults
from core.statistics.percentiles import OK, percentile
from core.units import HOURS_PER_YEAR
from experiments.design.contracts import KINDS
from experiments.design.fleet import Fleet
from experiments.design.prediction import PLANNED_ARM, Expected, Prediction
from experiments.record.metrics.bootstrap import (
    CONFIDENCE,
    Value,
    intervals,
    quantile_value,
    stratum,
    student_half,
)
from experiments.record.metrics.frames import spans_of
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, samples_beyond
from experiments.record.metrics.utilisation import undisturbed_cores

PERCENTILES = {"p50_ms": 0.50, "p95_ms": 0.95, "p99_ms": 0.99}
# Faults that take a machine's service away; the others make it slow or lossy.
STOPPING = tuple(name for name, kind in KINDS.items() if kind.stops_service)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Records:
    """The comparison's view of a run: all but the warm-up of `requests`."""

    requests: pl.DataFrame
    windows: Sequence[Window]
    hosts: pl.DataFrame | None
    fleet: Fleet
    machines: Sequence[Mapping[str, Any]]  # the inventory's
    rates: Mapping[str, Any]


@dataclass(frozen=True)
class _Block:
    """A stretch of the run in which the planned arm was measured."""

    repeat: int
    start_s: float
    end_s: float
    requests: pl.DataFrame

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


class Entry(TypedDict):
    """A figure, predicted and measured.

    within: is the prediction in the measured figure's interval? None: cannot be said. off_share:
    measured / predicted - 1. predicted_low and predicted_high: where the plan expects the figure,
    with `predicted_confidence`; covered: is the measured figure there? None: cannot be said.
    """

    predicted: float | None
    measured: float | None
    ci_low: float | None
    ci_high: float | None
    within: bool | None
    off_share: float | None
    predicted_low: float | None
    predicted_high: float | None
    covered: bool | None


class PercentileEntry(Entry):
    """A percentile without the faults, and with them."""

    samples: int
    samples_beyond: int
    insufficient: bool
    with_faults: float | None
    samples_with_faults: int
    in_all: Entry


class UtilisationEntry(Entry):
    """CPU of a tier; `plan` is the plan's own figure, which may count less than the cap."""

    plan: float | None
    samples: int


class CostEntry(Entry):
    """The machines that ran, and their differences from those of the plan."""

    machines: dict[str, dict[str, int]]
    errors: list[str]


class Compared(TypedDict):
    """Predicted against measured, as it stands in a result."""

    source_run: str | None
    evidence: str
    arm: str
    phase: str
    confidence: float
    predicted_confidence: float | None
    blocks: int
    nodes_not_counted_on: dict[str, int]
    latency: dict[str, PercentileEntry]
    arrival_rate_per_s: Entry
    disturbed_share: dict[str, Entry]
    utilisation: dict[str, UtilisationEntry]
    cost_usd_per_month: CostEntry
    availability: dict[str, float | None]


def compare(
    prediction: Prediction, records: Records, *, block_s: float, rng: np.random.Generator
) -> Compared:
    """Compare predicted with measured figures.

    Parameters: block_s float [s], length of a correlated stretch (a burst of interference); rng
    for the bootstrap.
    """
    arm_requests = records.requests.filter(pl.col("arm") == PLANNED_ARM)
    blocks = _blocks(arm_requests, records.windows)
    counts = [block.requests.height for block in blocks]
    return {
        "source_run": prediction.source_run,
        "evidence": prediction.predicted.evidence,
        "arm": PLANNED_ARM,
        "phase": _phase(arm_requests),
        "confidence": CONFIDENCE,
        "predicted_confidence": prediction.confidence,
        "blocks": len(blocks),
        "nodes_not_counted_on": {
            name: tier.nodes - tier.needed
            for name, tier in prediction.tiers.items()
            if tier.needed is not None and tier.nodes > tier.needed
        },
        "latency": _latency(prediction, arm_requests, blocks, block_s, rng),
        "arrival_rate_per_s": _blocks_entry(
            prediction.input("pages_per_s"),
            [count / block.duration_s for count, block in zip(counts, blocks, strict=True)],
        ),
        "disturbed_share": _disturbed_shares(prediction, records, blocks),
        "utilisation": _utilisation(prediction, records, blocks),
        "cost_usd_per_month": _cost(prediction, records),
        "availability": _availability(prediction, records, arm_requests),
    }


def _phase(arm_requests: pl.DataFrame) -> str:
    """Return the phase that the plan predicts; "all" in a run that does not have it."""
    return BEFORE_FAULTS if (arm_requests["phase"] == BEFORE_FAULTS).any() else "all"


def _blocks(arm_requests: pl.DataFrame, windows: Sequence[Window]) -> list[_Block]:
    """Return the planned arm's blocks, by the recorded phases; else from first to last arrival."""
    phase = _phase(arm_requests)
    rows = without_faults(arm_requests)
    recorded = {
        window.repeat: window
        for window in of_kind(windows, "phase")
        if window.kind == phase and window.arm == PLANNED_ARM and window.duration_s > 0
    }
    blocks = []
    for (repeat,), part in rows.sort("repeat").group_by("repeat", maintain_order=True):
        at_s = part["intended_s"].sort()
        window = recorded.get(int(str(repeat)))
        start_s, end_s = (window.start_s, window.end_s) if window else (at_s[0], at_s[-1])
        if end_s > start_s:
            blocks.append(_Block(int(str(repeat)), float(start_s), float(end_s), part))
    return blocks


def _entry(
    predicted: float | None,
    measured: float | None,
    low: float | None = None,
    high: float | None = None,
    expected: Expected | None = None,
) -> Entry:
    within = off_share = covered = None
    if expected is not None:
        predicted = expected.point
        covered = None if measured is None else expected.covers(measured)
    if predicted is not None and low is not None and high is not None:
        within = low * (1 - _ROUNDING) <= predicted <= high * (1 + _ROUNDING)
    if predicted and measured is not None:
        off_share = measured / predicted - 1.0
    return {
        "predicted": predicted,
        "measured": measured,
        "ci_low": low,
        "ci_high": high,
        "within": within,
        "off_share": off_share,
        "predicted_low": expected.low if expected else None,
        "predicted_high": expected.high if expected else None,
        "covered": covered,
    }


def _latency(
    prediction: Prediction,
    arm_requests: pl.DataFrame,
    blocks: Sequence[_Block],
    block_s: float,
    rng: np.random.Generator,
) -> dict[str, PercentileEntry]:
    """Return percentiles with their intervals; fewer than 10 samples beyond allow no conclusion."""
    estimates: Mapping[str, tuple[float, float, float] | None] = {}
    if blocks:
        strata = [
            [stratum([rows]) for _, rows in block.requests.group_by("phase", maintain_order=True)]
            for block in blocks
        ]
        values = {name: single(quantile) for name, quantile in PERCENTILES.items()}
        estimates = intervals(strata, values, block_s=block_s, rng=rng)
    samples = sum(block.requests.height for block in blocks)
    all_ms = np.sort(arm_requests["latency_ms"].to_numpy())
    has_faults = all_ms.size > samples
    expected, in_all = prediction.expected, prediction.expected_in_all(has_faults)
    result: dict[str, PercentileEntry] = {}
    for name, quantile in PERCENTILES.items():
        value, low, high = estimates.get(name) or (None, None, None)
        beyond = samples_beyond(quantile, samples)
        point = getattr(prediction.predicted, name, None)  # of a p50 only the distribution's
        with_faults_ms = percentile(all_ms, quantile)
        entry: PercentileEntry = {
            **_entry(point, value, low, high, getattr(expected, name)),
            "samples": samples,
            "samples_beyond": beyond,
            "insufficient": beyond < SAMPLES_BEYOND_MIN,
            "with_faults": with_faults_ms,
            "samples_with_faults": int(all_ms.size),
            "in_all": _entry(None, with_faults_ms, expected=getattr(in_all, name)),
        }
        if entry["insufficient"]:
            entry["within"] = entry["covered"] = None
        result[name] = entry
    return result


def single(quantile: float) -> Value:
    value = quantile_value(quantile)
    return lambda arms: value(arms[0]) or None  # a latency of zero has no logarithm


def _blocks_entry(
    predicted: float | None,
    values: Sequence[float],
    maximum: float = math.inf,
    expected: Expected | None = None,
) -> Entry:
    """Return the mean of the blocks' values; of two or more blocks with Student's interval.

    The interval is cut to the possible values, from 0 to `maximum`.
    """
    if not values:
        return _entry(predicted, None, expected=expected)
    mean = float(np.mean(values))
    if len(values) < 2:
        return _entry(predicted, mean, expected=expected)
    half = student_half(values)
    return _entry(predicted, mean, max(0.0, mean - half), min(maximum, mean + half), expected)


def _disturbed_shares(
    prediction: Prediction, records: Records, blocks: Sequence[_Block]
) -> dict[str, Entry]:
    """Return the share of each tier's machine time with a neighbour."""
    entries, neighbours = {}, of_kind(records.windows, "interference")
    for tier in prediction.tiers:
        machines = records.fleet.nodes_of(tier)
        by_machine = [[w for w in neighbours if w.machine == machine] for machine in machines]
        shares = []
        for block in blocks:
            hit_s = [_union_s(windows, block.start_s, block.end_s) for windows in by_machine]
            shares.append(float(np.mean(hit_s)) / block.duration_s)
        assumed = prediction.input("tiers", tier, "interference_share")
        entries[tier] = _blocks_entry(assumed, shares, maximum=1.0)
    return entries


def _utilisation(
    prediction: Prediction, records: Records, blocks: Sequence[_Block]
) -> dict[str, UtilisationEntry]:
    """Return the CPU use over the caps of each tier's machines while no neighbour was on them.

    `plan` is the plan's own figure. Its capacity may be less than the cap: the rest beside
    interference, and of a burstable instance its baseline.
    """
    predicted_load = _load_on_caps(prediction, records.fleet)
    entries: dict[str, UtilisationEntry] = {}
    for tier in prediction.tiers:
        cap = records.fleet.tiers[tier].cpus
        machines = records.fleet.nodes_of(tier)
        samples = [
            np.empty(0)
            if records.hosts is None
            else undisturbed_cores(
                records.hosts, records.windows, machines, [(block.start_s, block.end_s)]
            )
            for block in blocks
        ]
        shares = [float(cores.mean()) / cap for cores in samples if cores.size]
        entries[tier] = {
            **_blocks_entry(
                predicted_load.get(tier), shares, expected=prediction.expected.cpu.get(tier)
            ),
            "plan": prediction.tiers[tier].utilisation,
            "samples": sum(int(cores.size) for cores in samples),
        }
    return entries


def _load_on_caps(prediction: Prediction, fleet: Fleet) -> dict[str, float]:
    r"""Predicted CPU use over the caps, rho_i = lambda prod_{j<=i} (v_j r_j) s_i / (n_i c_i).

    lambda pages per second, v_j requests per copy of the tier above, r_j replicas, s_i CPU seconds
    per request, all from the plan's inputs; n_i nodes, c_i cores. Nothing is predicted from the
    first tier on whose inputs are missing.
    """
    loads: dict[str, float] = {}
    rate_per_s = prediction.input("pages_per_s")
    for name in fleet.tier_order:
        visits = prediction.input("tiers", name, "requests_per_copy")
        processing_s = prediction.input("tiers", name, "processing_s")
        if rate_per_s is None or visits is None or processing_s is None:
            break
        tier = fleet.tiers[name]
        rate_per_s *= visits * prediction.tiers[name].replicas
        loads[name] = rate_per_s * processing_s / (tier.nodes * tier.cpus)
    return loads


def _cost(prediction: Prediction, records: Records) -> CostEntry:
    """Return the cost of the machines that ran, at the plan's prices.

    Other machines than planned are an error.
    """
    errors, cost = [], 0.0
    machines_run: dict[str, dict[str, int]] = {}
    for name, tier in prediction.tiers.items():
        tier_machines = [
            machine
            for machine in records.machines
            if machine.get("tier") == name and machine.get("role") != "arbiter"
        ]
        spares = sum(1 for machine in tier_machines if machine.get("standby"))
        types = sorted({str(machine.get("instance_type")) for machine in tier_machines})
        machines_run[name] = {"nodes": len(tier_machines) - spares, "spares": spares}
        if (len(tier_machines) - spares, spares, types) != (
            tier.nodes,
            tier.spares,
            [tier.instance_type],
        ):
            ran = (
                f"{len(tier_machines) - spares} + {spares} spare of {', '.join(types) or 'no type'}"
            )
            errors.append(
                f"{name}: {ran} ran, "
                f"{tier.nodes} + {tier.spares} of {tier.instance_type} were planned"
            )
        cost += math.fsum(_price(prediction, name, machine) for machine in tier_machines)
    if not errors:
        cost = prediction.usd_per_month  # the same machines; the plan's tiers are rounded to cents
    usd = cost if math.isfinite(cost) else None
    return {**_entry(prediction.usd_per_month, usd), "machines": machines_run, "errors": errors}


def _price(prediction: Prediction, tier: str, machine: Mapping[str, Any]) -> float:
    """Return USD a month of a tier's machine by the plan [USD].

    This tier's price, else the price of its type in another tier, else nan.
    """
    plan_tiers = [prediction.tiers[tier], *prediction.tiers.values()]
    for planned in plan_tiers:
        if planned.instance_type == machine.get("instance_type"):
            return planned.usd_per_machine_month(bool(machine.get("standby")))
    return math.nan


def _availability(
    prediction: Prediction, records: Records, arm_requests: pl.DataFrame
) -> dict[str, float | None]:
    """Return the failures that the run observed; `measured` is None, because a run is no year.

    `crash_per_year_max`: the highest crash rate that is compatible with the observed crashes at
    95 % (Poisson; chi-squared quantile), in the time that the nodes were watched.
    """
    spans = spans_of(arm_requests).get(PLANNED_ARM, [])
    watched_s = sum(end_s - start_s for start_s, end_s in spans)
    nodes = [name for tier in records.fleet.tier_order for name in records.fleet.nodes_of(tier)]
    lost_machines = [
        window for window in of_kind(records.windows, "machine") if window.machine in nodes
    ]
    stopped = [window for window in of_kind(records.windows, "fault") if window.kind in STOPPING]
    down_s = sum(_union_s([*lost_machines, *stopped], start_s, end_s) for start_s, end_s in spans)
    node_years = len(nodes) * watched_s / 3600.0 / HOURS_PER_YEAR
    failed = arm_requests.filter(pl.col("outcome") != OK).height
    stated = records.rates.get("crash_per_year")
    return {
        "predicted": prediction.predicted.availability,
        "measured": None,
        "requests": arm_requests.height,
        "failed": failed,
        "error_share": failed / arm_requests.height if arm_requests.height else None,
        "watched_s": watched_s,
        "node_hours": node_years * HOURS_PER_YEAR,
        "all_nodes_up_share": 1.0 - down_s / watched_s if watched_s else None,
        "stopping_faults_injected": len(stopped),
        "crashes_seen": len(lost_machines),
        "crash_per_year_stated": stated,
        "crashes_expected": stated * node_years if stated is not None else None,
        "crash_per_year_max": float(
            stats.chi2.ppf(0.95, 2 * (len(lost_machines) + 1)) / 2 / node_years
        )
        if node_years
        else None,
        "failover_s_stated": records.rates.get("failover_s"),
        "repair_s_stated": records.rates.get("repair_s"),
    }


def _union_s(windows: Sequence[Window], start_s: float, end_s: float) -> float:
    """Return the seconds of a stretch that lie in any of the windows, which may overlap."""
    total, reached = 0.0, start_s
    for window in sorted(windows, key=lambda window: window.start_s):
        low, high = max(window.start_s, reached), min(window.end_s, end_s)
        total += max(0.0, high - low)
        reached = max(reached, high)
    return total
