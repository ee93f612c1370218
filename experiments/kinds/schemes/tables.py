"""Fail-over and time at full strength in the report: figures' frames, table and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.kinds.compare.folder import RunFolder
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, interval, number, percent


def seconds(value: Any) -> str:
    """Return a time: "2.31 s"."""
    return MISSING if value is None else f"{number(value)} s"


def _share(value: Any) -> str:
    return percent(value)


def strength_table(summary: Mapping[str, Any]) -> Table | None:
    """Return each tier's time at full strength beside the model's; None without `[failover]`."""
    tiers = (summary.get("strength") or {}).get("tiers") or {}
    if not tiers:
        return None
    rows = []
    for tier, one in tiers.items():
        measured, predicted = one["measured"], one["predicted"]
        rows.append((
            named(f"{tier}: {one['mechanism']}"), named(_nodes(one)),
            Cell(_with_count({"mean_s": one["crash_mean_s"], "samples": one["crashes"]})),
            Cell(_with_count(one["recovery"])), Cell(_with_count(one["repair"])),
            Cell(_share(measured["share"]), bool(measured["insufficient"])),
            Cell(interval(measured["ci_low"], measured["ci_high"], _share)),
            Cell(_share(predicted["share"])),
            Cell(interval(predicted.get("ci_low"), predicted.get("ci_high"), _share)),
        ))  # fmt: skip
    head = (
        "tier", "nodes", "time to a crash", "until another serves", "until repaired",
        "measured", "95 % interval", "model", "95 % interval",
    )  # fmt: skip
    return Table("strength-table", "Time at full strength", head, tuple(rows))


def strength_words(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return each tier's measured share of the time at full strength."""
    tiers = (summary.get("strength") or {}).get("tiers") or {}
    return {
        f"{tier} at full strength": _share(one["measured"]["share"]) for tier, one in tiers.items()
    }


def _nodes(one: Mapping[str, Any]) -> str:
    extra = one["nodes"] - one["needed"]
    words = [f"{one['needed']} needed"]
    words += [f"{extra} extra"] if extra else []
    words += [f"{one['standby']} standby"] if one["standby"] else []
    return ", ".join(words)


def _with_count(times: Mapping[str, Any]) -> str:
    return f"{seconds(times['mean_s'])} ({times['samples']})" if times["samples"] else MISSING


def recovery_table(summary: Mapping[str, Any]) -> Table | None:
    """Return the distribution of fail-over and repair times by tier."""
    tiers = (summary.get("strength") or {}).get("tiers") or {}
    rows = []
    for tier, one in tiers.items():
        for name, key in (("until another serves", "recovery"), ("until repaired", "repair")):
            times = one[key]
            if times["samples"]:
                figures = ("mean_s", "sd_s", "min_s", "p05_s", "p50_s", "p95_s", "max_s")
                cells = [Cell(seconds(times[figure])) for figure in figures]
                rows.append((named(f"{tier}: {name}"), Cell(number(times["samples"])), *cells))
    if not rows:
        return None
    head = ("", "samples", "mean", "standard deviation", "least", "p5", "p50", "p95", "most")
    return Table("recovery-table", "Times to recover", head, tuple(rows))


def scheme_words(run: RunFolder) -> dict[str, object]:
    """Remarks of the section beside its figures and tables."""
    found = run.summary["strength"]
    empty = found["pool_empty"]
    notes = [
        f"Tier {tier}: no prediction, {one['predicted']['reason']}."
        for tier, one in found["tiers"].items()
        if one["predicted"].get("reason")
    ]
    if empty["count"]:
        times = "once" if empty["count"] == 1 else f"{number(empty['count'])} times"
        notes.append(
            f"The standby pool was empty {times}: fail-overs waited "
            f"{seconds(empty['total_s'])} in all for a standby."
        )
    if found["errors"]:
        notes.append(f"{number(found['errors'])} steps of fail-overs failed; see events.jsonl.")
    return {
        "notes": notes,
        "strength": strength_table(run.summary),
        "recovery": recovery_table(run.summary),
    }


def strength_sentence(found: Mapping[str, Any]) -> str:
    """Return the time of the tiers at full strength, and the models' values, in a sentence."""
    parts = []
    for tier, one in found["tiers"].items():
        measured, predicted = one["measured"], one["predicted"]
        text = f"Tier {tier} was at full strength {_share(measured['share'])} of the time"
        if measured["ci_low"] is not None:
            bounds = interval(measured["ci_low"], measured["ci_high"], _share)
            text += f" (95 % interval {bounds})"
        if predicted["share"] is not None:
            text += f"; PCRAFT's model says {_share(predicted['share'])}"
        parts.append(f"{text}, in {number(one['crashes'])} crashes.")
    return " ".join(parts)
