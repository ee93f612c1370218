"""The report's tables, as rows of text; the template only lays them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.report.folder import RunFolder
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


@dataclass(frozen=True)
class Cell:
    """One cell; `doubtful` marks a figure that rests on too few samples."""

    text: str
    doubtful: bool = False
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    """Head and rows; the first cell of each row names it."""

    identity: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def named(text: Any) -> Cell:
    """A cell of words."""
    return Cell(str(text), numeric=False)


def improvement_table(run: RunFolder) -> Table | None:
    """Factor, interval and counts of mean, p95 and p99, with both arms' values."""
    entries = run.summary.get("improvement") or {}
    if not entries:
        return None
    compared = run.summary.get("compared") or {"baseline": "baseline", "spare": "spare"}
    if compared["spare"] is None:
        return None
    arms = run.summary.get("arms") or {}
    rows = []
    for name, entry in entries.items():
        doubtful = bool(entry.get("insufficient"))
        both = [
            Cell(milliseconds((arms.get(compared[arm]) or {}).get(f"{name}_ms")), doubtful)
            for arm in ("baseline", "spare")
        ]
        rows.append((
            named(name), *both, Cell(factor(entry.get("factor")), doubtful),
            Cell(interval(entry.get("ci_low"), entry.get("ci_high"))),
            Cell(number(entry.get("samples"))), Cell(number(entry.get("pairs"))),
        ))  # fmt: skip
    head = ("", compared["baseline"], compared["spare"], "factor", "95 % interval",
            "requests per arm", "pairs")  # fmt: skip
    return Table("improvement-table", "Improvement of the spare arm", head, tuple(rows))


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
        spec = asked.get(name) or {}
        entries = found.get(name) or {}
        rows.append((
            named(name), named(spec.get("policy") or MISSING),
            named(", ".join(map(str, (spec.get("replicas") or {}).values())) or MISSING),
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


def asked_rows(run: RunFolder) -> list[tuple[str, str]]:
    """What the experiment asked for, in words."""
    spec = run.spec
    load, phases = spec.get("load") or {}, spec.get("phases") or {}
    rows = []
    if load:
        rows.append(("load", f"{load.get('user')}, {load.get('arrivals')} arrivals, "
                     f"{plain(load.get('rate_per_s'))} per second; time-outs "
                     f"{plain(load.get('connect_timeout_s'))} s to connect, "
                     f"{plain(load.get('response_timeout_s'))} s to answer"))  # fmt: skip
    if phases:
        stages = [f"{name.replace('_', '-')} {plain(s)} s" for name, s in phases.items() if s]
        rows.append(("phases", ", ".join(stages)))
    for name, arm in (spec.get("arms") or {}).items():
        replicas = arm.get("replicas") or {}
        words = [str(arm.get("policy") or "")]
        words += [f"r = {r} on {tier}" for tier, r in replicas.items()]
        words += [
            f"{n} token{'s' * (n != 1)} per server on {t}"
            for t, n in (arm.get("tokens") or {}).items()
        ]
        rows.append((f"arm {name}", ", ".join(words)))
    rows.append(("interference", _interference_words(spec.get("interference") or {})))
    faults = [_fault_words(fault) for fault in spec.get("faults") or []]
    rows.append(("faults", "; ".join(faults) or "none"))
    if spec.get("failover"):
        rows.append(("fail-over", _failover_words(spec["failover"])))
    slo = spec.get("slo") or {}
    if slo:
        rows.append(("SLO", _slo_words(slo)))
    design = spec.get("design") or {}
    if design:
        order = f"order {design.get('order')}, repeated {plain(design.get('repeats'))} ×"
        paired = (
            ", the same arrivals in both arms of a pair" if len(spec.get("arms") or ()) > 1 else ""
        )
        rows.append(("design", order + paired))
    return rows


def _failover_words(asked: Mapping[str, Any]) -> str:
    crash, repair = asked.get("crash_mean_s"), asked.get("repair_mean_s")
    words = [
        f"a heartbeat every {plain(asked.get('heartbeat_s'))} s, lost after {asked.get('misses')}",
        f"boot time {plain(asked.get('boot_time_s'))} s",
        f"crashes every {plain(crash)} s and machine" if crash else "no crashes of our making",
        f"repairs of {plain(repair)} s on average" if repair else "no repairs",
    ]
    if asked.get("tiers"):
        words.append(f"tiers {', '.join(asked['tiers'])}")
    return ", ".join(words)


def _interference_words(asked: Mapping[str, Any]) -> str:
    if not asked or asked.get("pattern") in (None, "none"):
        return "none"
    kinds = " and ".join(str(kind) for kind in asked.get("kinds") or [])
    return (
        f"{kinds}, pattern {asked.get('pattern')}, gaps of {plain(asked.get('mean_gap_s'))} s "
        f"and runs of {plain(asked.get('mean_run_s'))} s on average"
    )


def _fault_words(fault: Mapping[str, Any]) -> str:
    select = ", ".join(f"{key} {value}" for key, value in (fault.get("select") or {}).items()
                       if value is not None)  # fmt: skip
    given = fault.get("parameters") or {}
    parameters = ", ".join(f"{key} {value}" for key, value in given.items())
    length = "until reverted" if fault.get("sticky") else f"for {plain(fault.get('for_s'))} s"
    words = f"{fault.get('kind')} ({parameters})" if parameters else str(fault.get("kind"))
    return f"{words} on {select}, at {plain(fault.get('at_s'))} s {length}"


def _slo_words(slo: Mapping[str, Any]) -> str:
    words = []
    if slo.get("availability") is not None:
        words.append(f"availability {slo['availability'] * 100:g} %")
    words += [f"{key.removesuffix('_ms')} ≤ {plain(slo[key])} ms"
              for key in ("p50_ms", "p90_ms", "p95_ms", "p99_ms") if slo.get(key)]  # fmt: skip
    if slo.get("max_error_share") is not None:
        words.append(f"errors ≤ {100 * slo['max_error_share']:g} %")
    return ", ".join(words)


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
