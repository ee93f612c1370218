"""The report's tables, as rows of text; the template only lays them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.kinds.compare.folder import RunFolder
from experiments.report.tables import Cell, Table, named
from experiments.report.text import (
    MISSING,
    command_line,
    factor,
    interval,
    milliseconds,
    number,
    percent,
    plain,
    usd,
)

_QUANTILES = (("p50", "p50"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99"), ("p99_9", "p99.9"))


def improvement_table(run: RunFolder) -> Table | None:
    """Factor, interval and counts of mean, p95 and p99, with both arms' values."""
    entries = run.summary.get("improvement") or {}
    if not entries:
        return None
    compared = run.summary.get("compared") or {}
    if compared.get("other") is None:
        return None
    arms = run.summary.get("arms") or {}
    rows = []
    for name, entry in entries.items():
        doubtful = bool(entry.get("insufficient"))
        both = [
            Cell(milliseconds((arms.get(compared[arm]) or {}).get(f"{name}_ms")), doubtful)
            for arm in ("baseline", "other")
        ]
        rows.append((
            named(name), *both, Cell(factor(entry.get("factor")), doubtful),
            Cell(interval(entry.get("ci_low"), entry.get("ci_high"))),
            Cell(number(entry.get("samples"))), Cell(number(entry.get("pairs"))),
        ))  # fmt: skip
    head = ("", compared["baseline"], compared["other"], "factor", "95 % interval",
            "requests per arm", "pairs")  # fmt: skip
    return Table("improvement-table", f"Improvement of {compared['other']}", head, tuple(rows))


def comparison_table(run: RunFolder) -> Table | None:
    """Every arm of a run of more than two: what it was, what it reached, what that cost."""
    found = run.summary.get("comparison") or {}
    if not found:
        return None
    arms = run.summary.get("arms") or {}
    asked = run.spec.get("arms") or {}
    loads = run.summary.get("replication") or {}
    rows = []
    for name, figures in arms.items():
        few = figures.get("insufficient") or ()
        settings = list(((asked.get(name) or {}).get("settings") or {}).values())
        policies = dict.fromkeys(str(one["policy"]) for one in settings)
        entries = found.get(name) or {}
        rows.append((
            named(name), named(", ".join(policies) or MISSING),
            named(", ".join(str(one["replicas"]) for one in settings) or MISSING),
            Cell(number(figures.get("requests"))),
            *(Cell(milliseconds(figures.get(f"{key}_ms")), key in few)
              for key in ("mean", "p95", "p99", "p99_9")),
            *(_factor_cell(entries.get(key)) for key in ("mean", "p95", "p99")),
            Cell(percent(_extra_work(loads.get(name)))),
        ))  # fmt: skip
    head = ("arm", "policy", "r", "requests", "mean", "p95", "p99", "p99.9", "mean, factor",
            "p95, factor", "p99, factor", "extra replicas")  # fmt: skip
    return Table("comparison-table", "Every arm against the baseline", head, tuple(rows))


def simulated_table(run: RunFolder) -> Table | None:
    """Percentiles of every other arm as the simulator predicts them, beside the measured ones."""
    predicted = run.simulated.get("predicted") or {}
    if not predicted:
        return None
    names = [name for name in next(iter(predicted.values())) if name != "requests"]
    rows = []
    for arm, entry in predicted.items():
        cells = [Cell(number(entry["requests"]))]
        for name in names:
            real_s, ours_s = entry[name]
            cells += [Cell(milliseconds(1e3 * real_s)), Cell(milliseconds(1e3 * ours_s))]
            cells.append(Cell(f"{100 * (ours_s / real_s - 1):+.0f} %"))
        rows.append((named(arm), *cells))
    heads = [f"{name}{what}" for name in names for what in (" measured", " simulated", ", off")]
    return Table(
        "simulated-table", "Simulated and measured", ("arm", "requests", *heads), tuple(rows)
    )


def _factor_cell(entry: Mapping[str, Any] | None) -> Cell:
    if not entry or entry.get("factor") is None:
        return Cell(MISSING)
    low_high = interval(entry["ci_low"], entry["ci_high"])
    return Cell(f"{factor(entry['factor'])} ({low_high})", bool(entry.get("insufficient")))


def _extra_work(tiers: Mapping[str, Mapping[str, Any]] | None) -> float | None:
    """Replicas sent beyond one per request, as a share of the requests of all tiers."""
    received = sum(load["received"] for load in (tiers or {}).values())
    sent = sum(load["replicas_sent"] for load in (tiers or {}).values())
    return max(0.0, sent / received - 1.0) if received else None


def arm_table(figures: Mapping[str, Mapping[str, Any]], identity: str, caption: str) -> Table:
    """Every metric of the arms, one column each."""
    arms = list(figures)
    rows: list[tuple[Cell, ...]] = []

    def add(label: str, cells: Sequence[Cell]) -> None:
        rows.append((named(label), *cells))

    def line(label: str, key: str, show: Any = number) -> None:
        add(label, [Cell(show(figures[arm].get(key))) for arm in arms])

    line("requests", "requests")
    line("offered, 1/s", "offered_per_s")
    line("throughput (any answer), 1/s", "throughput_per_s")
    line("goodput (ok), 1/s", "goodput_per_s")
    line("goodput, share of offered", "goodput", percent)
    line("mean", "mean_ms", milliseconds)
    line("mean of the middle 95 %", "trimmed_mean_ms", milliseconds)
    for key, label in _QUANTILES:
        cells = [
            Cell(milliseconds(figures[arm].get(f"{key}_ms")),
                 key in (figures[arm].get("insufficient") or ()))
            for arm in arms
        ]  # fmt: skip
        add(label, cells)
    for threshold in ("0.1", "1", "2"):
        shares = [(figures[arm].get("share_above_s") or {}).get(threshold) for arm in arms]
        add(f"slower than {threshold} s", [Cell(percent(share)) for share in shares])
    line("punctuality (ideal / mean)", "punctuality", percent)
    line("demerits", "demerits")
    line("demerits per request", "demerits_per_request")
    line("sent late, p99", "lag_ms_p99", milliseconds)
    return Table(identity, caption, ("", *arms), tuple(rows))


def phase_table(run: RunFolder) -> Table | None:
    """One row for each phase and arm."""
    phases = run.summary.get("phases") or {}
    rows = []
    for phase, arms in phases.items():
        for arm, figures in arms.items():
            insufficient = figures.get("insufficient") or ()
            rows.append((
                named(phase), named(arm), Cell(number(figures.get("requests"))),
                Cell(number(figures.get("duration_s"))), Cell(number(figures.get("goodput_per_s"))),
                Cell(percent(figures.get("goodput"))), Cell(milliseconds(figures.get("mean_ms"))),
                *(Cell(milliseconds(figures.get(f"{q}_ms")), q in insufficient)
                  for q in ("p50", "p95", "p99")),
                Cell(percent(figures.get("punctuality"))),
                Cell(number(figures.get("demerits_per_request"))),
            ))  # fmt: skip
    if not rows:
        return None
    head = ("phase", "arm", "requests", "seconds", "ok/s", "ok share", "mean", "p50", "p95",
            "p99", "punctuality", "demerits per request")  # fmt: skip
    return Table("phase-table", "By phase", head, tuple(rows))


def outcome_table(run: RunFolder) -> Table | None:
    """How the requests ended, per arm."""
    arms = run.summary.get("arms") or {}
    if not arms:
        return None
    names = list(next(iter(arms.values())).get("outcomes") or {})
    rows = []
    for name in names:
        counts = [(figures.get("outcomes") or {}).get(name, 0) for figures in arms.values()]
        totals = [figures.get("requests") or 0 for figures in arms.values()]
        cells = [
            Cell(f"{number(count)} ({percent(count / total, 2)})" if count and total else "0")
            for count, total in zip(counts, totals, strict=True)
        ]
        rows.append((named(name.replace("_", " ")), *cells))
    return Table("outcome-table", "Outcomes", ("", *arms), tuple(rows))


def fault_table(run: RunFolder) -> Table | None:
    """Faults and interference by kind: how often, for how long, and taken back."""
    kinds = (run.summary.get("faults") or {}).get("by_kind") or {}
    rows = []
    for kind, counts in kinds.items():
        mine = [w for w in run.windows if w.kind == kind and w.what in ("fault", "interference")]
        machines = sorted({window.machine for window in mine if window.machine})
        rows.append((
            named(kind), Cell(number(counts["injected"])), Cell(number(counts["reverted"])),
            Cell(number(sum(window.duration_s for window in mine))),
            named(", ".join(machines) or MISSING),
        ))  # fmt: skip
    if not rows:
        return None
    head = ("kind", "injected", "reverted", "seconds in all", "machines")
    return Table("fault-table", "Faults and interference", head, tuple(rows))


def replication_table(run: RunFolder) -> Table | None:
    """What the replicas cost, per arm and tier."""
    rows = [
        (
            named(arm), named(tier), Cell(number(load["received"])),
            Cell(number(load["replicas_sent"])), Cell(number(load["replicas_per_request"])),
            Cell(number(load["replicas_wasted"])), Cell(number(load["wasted_s"])),
        )
        for arm, tiers in (run.summary.get("replication") or {}).items()
        for tier, load in tiers.items()
    ]  # fmt: skip
    if not rows:
        return None
    head = ("arm", "tier", "requests", "replicas sent", "per request", "wasted",
            "wasted server seconds")  # fmt: skip
    return Table("replication-table", "What replication cost", head, tuple(rows))


def host_table(run: RunFolder) -> Table | None:
    """The host's cores in each block, and their speed against the fastest block's."""
    blocks = (run.manifest.get("host") or {}).get("blocks") or []
    if not blocks:
        return None
    fastest = max(block["core_speed"] for block in blocks)
    rows = [
        (
            named(block["repeat"] + 1), named(block["arm"]), Cell(percent(block["busy_share"])),
            Cell(percent(block["stolen_share"])), Cell(percent(block["core_speed"] / fastest)),
            named(f"set aside: {why}" if (why := block.get("spoiled")) else "counts"),
        )
        for block in blocks
    ]  # fmt: skip
    head = ("block", "arm", "cores busy", "stolen by others", "core speed",
            "what became of it")  # fmt: skip
    return Table("host-table", "The host under all machines", head, tuple(rows))


def plan_table(plan: Mapping[str, Any]) -> Table | None:
    """The planned tiers, one row each; columns are what the plan has."""
    tiers = dict(plan.get("tiers") or {})
    columns = list(dict.fromkeys(key for tier in tiers.values() for key in _flat(tier)))
    if not columns:
        return None
    rows = []
    for name, tier in tiers.items():
        values = _flat(tier)
        cells = [
            Cell(planned_value(key, values.get(key)),
                 numeric=isinstance(values.get(key), (int, float)))
            for key in columns
        ]  # fmt: skip
        rows.append((named(name), *cells))
    labels = tuple(key.replace("_", " ").replace("usd", "USD") for key in columns)
    return Table("plan-table", "The planned fleet", ("tier", *labels), tuple(rows))


def planned_value(key: str, value: Any) -> str:
    """A figure of the plan by what its name says it is; nines are not rounded away."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return plain(value)
    if key.startswith("usd"):
        return usd(value)
    if "availability" in key:
        return f"{100.0 * value:.6g} %"
    if key in ("utilisation", "collision"):
        return percent(value)
    return milliseconds(value) if key.endswith("_ms") else number(value)


def _flat(tier: Any) -> dict[str, Any]:
    """The scalar entries of a planned tier."""
    if not isinstance(tier, Mapping):
        return {"nodes": tier}
    return {k: v for k, v in tier.items() if isinstance(v, (str, int, float)) or v is None}


def repeat_rows(run: RunFolder) -> list[tuple[str, str]]:
    """What one needs to repeat the run."""
    manifest = run.manifest
    host = manifest.get("host") or {}
    versions = manifest.get("versions") or {}
    setup = manifest.get("setup_s") or {}
    rows = [
        ("command", command_line(manifest.get("command")) or MISSING),
        ("seed", str(manifest.get("seed", MISSING))),
        ("run", str(manifest.get("run") or run.path.name)),
        ("platform", str(manifest.get("platform") or MISSING)),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("host", ", ".join(str(part) for part in (
            host.get("cpu"), f"{number(host.get('cores'))} cores",
            f"{number(host.get('memory_gb'))} GB", f"Linux {host.get('kernel')}")
            if part) if host else MISSING),
        ("times", f"{manifest.get('started_at', MISSING)} to {manifest.get('ended_at', MISSING)}"),
    ]  # fmt: skip
    if setup:
        parts = [f"{name.replace('_', '-')} {number(value)} s" for name, value in setup.items()]
        rows.append(("set-up", ", ".join(parts)))
    return rows
