"""Fail-over and time at full strength in the report: figures' frames, table and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.vocabulary import MECHANISMS, Mechanism
from experiments.kinds.compare.folder import RunFolder
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, interval, number, percent


def seconds(value: Any) -> str:
    return MISSING if value is None else f"{number(value)} s"


def strength_table(summary: Mapping[str, Any]) -> Table | None:
    """Return each tier's time at full strength beside the model's; None without `[failover]`."""
    tiers = (summary.get("strength") or {}).get("tiers") or {}
    if not tiers:
        return None
    rows = []
    for tier, tier_body in tiers.items():
        measured, predicted = tier_body["measured"], tier_body["predicted"]
        crashes = {"mean_s": tier_body["crash_mean_s"], "samples": tier_body["crashes"]}
        rows.append((
            named(f"{tier}: {_mechanism(tier_body['mechanism'])}"), named(_nodes(tier_body)),
            Cell(_with_count(crashes)),
            Cell(_with_count(tier_body["recovery"])), Cell(_with_count(tier_body["repair"])),
            Cell(percent(measured["share"]), bool(measured["insufficient"])),
            Cell(interval(measured["ci_low"], measured["ci_high"], percent)),
            Cell(percent(predicted["share"])),
            Cell(interval(predicted.get("ci_low"), predicted.get("ci_high"), percent)),
        ))  # fmt: skip
    head = (
        "tier", "nodes", "time to a crash", "until another serves", "until repaired",
        "measured", "95 % interval", "model", "95 % interval",
    )  # fmt: skip
    return Table("strength-table", "Time at full strength", head, tuple(rows))


def strength_shares(summary: Mapping[str, Any]) -> dict[str, str]:
    tiers = (summary.get("strength") or {}).get("tiers") or {}
    return {
        f"{tier} at full strength": percent(tier_body["measured"]["share"])
        for tier, tier_body in tiers.items()
    }


def _mechanism(name: str) -> str:
    return Mechanism(name).words if name in MECHANISMS else "replaced in the cloud"


def _nodes(tier_body: Mapping[str, Any]) -> str:
    extra = tier_body["nodes"] - tier_body["needed"]
    parts = [f"{tier_body['needed']} needed"]
    parts += [f"{extra} extra"] if extra else []
    parts += [f"{tier_body['standby']} standby"] if tier_body["standby"] else []
    return ", ".join(parts)


def _with_count(times: Mapping[str, Any]) -> str:
    return f"{seconds(times['mean_s'])} ({times['samples']})" if times["samples"] else MISSING


def recovery_table(summary: Mapping[str, Any]) -> Table | None:
    """Return the distribution of fail-over and repair times by tier."""
    tiers = (summary.get("strength") or {}).get("tiers") or {}
    rows = []
    for tier, tier_body in tiers.items():
        for name, key in (("until another serves", "recovery"), ("until repaired", "repair")):
            times = tier_body[key]
            if times["samples"]:
                figures = ("mean_s", "sd_s", "min_s", "p05_s", "p50_s", "p95_s", "max_s")
                cells = [Cell(seconds(times[figure])) for figure in figures]
                rows.append((named(f"{tier}: {name}"), Cell(number(times["samples"])), *cells))
    if not rows:
        return None
    head = ("", "samples", "mean", "standard deviation", "least", "p5", "p50", "p95", "most")
    return Table("recovery-table", "Times to recover", head, tuple(rows))


def section_values(run: RunFolder) -> dict[str, object]:
    strength = run.summary["strength"]
    empty = strength["pool_empty"]
    notes = [
        f"Tier {tier}: no prediction, {tier_body['predicted']['reason']}."
        for tier, tier_body in strength["tiers"].items()
        if tier_body["predicted"].get("reason")
    ]
    if empty["count"]:
        times = "once" if empty["count"] == 1 else f"{number(empty['count'])} times"
        notes.append(
            f"The standby pool was empty {times}: fail-overs waited "
            f"{seconds(empty['total_s'])} in all for a standby."
        )
    if strength["errors"]:
        notes.append(f"{number(strength['errors'])} steps of fail-overs failed; see events.jsonl.")
    return {
        "notes": notes,
        "strength": strength_table(run.summary),
        "recovery": recovery_table(run.summary),
    }


def strength_sentence(strength: Mapping[str, Any]) -> str:
    """Return the time of the tiers at full strength, and the models' values, in a sentence."""
    parts = []
    for tier, tier_body in strength["tiers"].items():
        measured, predicted = tier_body["measured"], tier_body["predicted"]
        text = f"Tier {tier} was at full strength {percent(measured['share'])} of the time"
        if measured["ci_low"] is not None:
            bounds = interval(measured["ci_low"], measured["ci_high"], percent)
            text += f" (95 % interval {bounds})"
        if predicted["share"] is not None:
            text += f"; PCRAFT's model says {percent(predicted['share'])}"
        parts.append(f"{text}, in {number(tier_body['crashes'])} crashes.")
    return " ".join(parts)
