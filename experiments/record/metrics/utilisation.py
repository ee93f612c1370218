"""CPU use of each tier's machines by each arm's load, beside the prediction of a calibration.

A neighbour runs inside a machine's own cap and would count as work, so only the seconds without a
neighbour or fault on a machine count. A policy that avoids disturbed machines gives the others more
than an even share, so its figure is higher than that of the whole tier. The use without load is
subtracted if a calibration measured it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from core.runfiles.events import Window, of_kind
from experiments.record.metrics.latency import Floats

MARGIN_S = 1.0  # a host sample covers the second before it

Spans = Sequence[tuple[float, float]]


def undisturbed_cores(
    hosts: pl.DataFrame, windows: Sequence[Window], machines: Sequence[str], spans: Spans
) -> Floats:
    """Return the cores in use within `spans`, a value per machine and second."""
    parts = [np.empty(0)]
    disturbances = of_kind(windows, "interference", "fault")
    samples = hosts.filter(pl.col("cpu_cores").is_not_null())
    for machine in machines:
        machine_samples = samples.filter(pl.col("machine") == machine)
        for window in (
            disturbance for disturbance in disturbances if disturbance.machine == machine
        ):
            start_s, end_s = window.start_s - MARGIN_S, window.end_s + 2 * MARGIN_S
            machine_samples = machine_samples.filter(~pl.col("time_s").is_between(start_s, end_s))
        for start_s, end_s in spans:
            inside = machine_samples.filter(pl.col("time_s").is_between(start_s + MARGIN_S, end_s))
            parts.append(inside["cpu_cores"].to_numpy())
    return np.concatenate(parts)


def utilisation(
    hosts: pl.DataFrame | None,
    windows: Sequence[Window],
    blocks: Mapping[str, Spans],
    manifest: Mapping[str, Any],
) -> dict[str, dict[str, object]]:
    """Return predicted and measured utilisation by arm and tier, with the number of samples.

    The prediction needs a calibration of the run, and is None without one. Parameters: blocks, the
    times of each arm's measurement.
    """
    if hosts is None:
        return {}
    tiers = ((manifest.get("spec") or {}).get("fleet") or {}).get("tiers") or {}
    caps = {name: settings["cpus"] for name, settings in tiers.items() if settings.get("cpus")}
    figures: dict[str, dict[str, object]] = {}
    calibration = manifest.get("calibration") or {"arms": {}, "tiers": {}}
    for arm, spans in blocks.items():
        predicted = calibration["arms"].get(arm) or {}
        for tier, cap in caps.items():
            machines = _nodes(manifest, tier)
            cores = undisturbed_cores(hosts, windows, machines, spans)
            idle = (calibration["tiers"].get(tier) or {}).get("idle_cores", 0.0)
            idle_each = idle / max(1, len(machines))
            figures.setdefault(arm, {})[tier] = {
                "foreseen": predicted.get(tier),
                "measured": float(cores.mean() - idle_each) / cap if cores.size else None,
                "samples": int(cores.size),
            }
    return figures


def _nodes(manifest: Mapping[str, Any], tier: str) -> list[str]:
    """Return the tier's machines in service."""
    machines = (manifest.get("fleet") or {}).get("machines") or ()
    return [
        machine["name"]
        for machine in machines
        if machine.get("tier") == tier
        and machine.get("role") != "arbiter"
        and not machine.get("standby")
    ]
