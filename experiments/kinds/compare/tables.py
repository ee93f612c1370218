"""The report's tables, as rows of text for the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.kinds.compare.cost import extra_work
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.verdict import arm_cell, factor_cell, slo_mark
from experiments.record.result import WORDS
from experiments.report.shell import repeat_rows
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, by_number, milliseconds, number, percent, plain

ARMS_MOST = 6  # columns beside the figure's name
_QUANTILES = (("p50", "p50"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99"), ("p99_9", "p99.9"))


def comparison_table(run: RunFolder) -> Table | None:
    """Return settings, latencies, factors and extra work of every arm, for three arms or more."""

    comparison = run.summary.get("comparison") or {}
    if not comparison:
        return None
    arms = run.summary.get("arms") or {}
    loads = run.summary.get("replication") or {}
    rows = []
    for name, figures in arms.items():
        entries = comparison.get(name) or {}
        rows.append((
            arm_cell(run, name),
            Cell(number(figures.get("requests"))),
            *latency_cells(figures, "mean", "p95", "p99", "p99_9"),
            *(factor_cell(run, entries.get(key)) for key in ("mean", "p95", "p99")),
            Cell(percent(extra_work(loads.get(name)))),
        ))  # fmt: skip
    head = ("arm", "requests", "mean", "p95", "p99", "p99.9", "mean, factor", "p95, factor",
            "p99, factor", "extra replicas")  # fmt: skip
    return Table("comparison-table", "Every arm against the baseline", head, tuple(rows))


def simulated_table(run: RunFolder) -> Table | None:
    """Return every arm's simulated and measured percentiles. The fitted arm is first; even its
    percentiles need not agree."""
    simulated = run.simulated
    if not simulated.get("predicted"):
        return None
    fitted, arms = simulated["fitted_arm"], run.summary.get("arms") or {}
    requests = (arms.get(fitted) or {}).get("requests")
    entries = {f"{fitted} (fitted)": {"requests": requests, **(simulated.get("fitted") or {})}}
    entries |= simulated["predicted"]
    names = [name for name in next(iter(simulated["predicted"].values())) if name != "requests"]
    rows = []
    for arm, entry in entries.items():
        cells = [Cell(number(entry["requests"]))]
        for real_s, ours_s in (entry[name] for name in names if name in entry):
            cells += [Cell(milliseconds(1e3 * real_s)), Cell(milliseconds(1e3 * ours_s))]
            cells.append(Cell(f"{100 * (ours_s / real_s - 1):+.0f} %"))
        rows.append((named(arm), *cells))
    heads = [f"{name}{column}" for name in names for column in (" measured", " simulated", ", off")]
    return Table(
        "simulated-table", "Simulated and measured", ("arm", "requests", *heads), tuple(rows)
    )


def latency_cells(figures: Mapping[str, Any], *statistics: str) -> list[Cell]:
    """Return a cell for each statistic; it is doubtful if too few samples lie beyond."""
    few = figures.get("insufficient") or ()
    return [Cell(milliseconds(figures.get(f"{key}_ms")), key in few) for key in statistics]


def arm_tables(figures: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """Return every metric of the arms, a column for each arm, in tables of up to ARMS_MOST arms."""
    arms = list(figures)
    parts = [arms[start : start + ARMS_MOST] for start in range(0, len(arms), ARMS_MOST)]
    return [_arm_table(figures, part, index) for index, part in enumerate(parts, start=1)]


def _arm_table(figures: Mapping[str, Mapping[str, Any]], arms: Sequence[str], part: int) -> Table:
    rows: list[tuple[Cell, ...]] = []

    def add(label: str, cells: Sequence[Cell]) -> None:
        rows.append((named(label), *cells))

    def line(label: str, key: str, show: Any = number) -> None:
        add(label, [Cell(show(figures[arm].get(key))) for arm in arms])

    line("requests", "requests")
    for name in next(iter(figures.values())).get("outcomes") or ():
        counts = [(figures[arm].get("outcomes") or {}).get(name) or 0 for arm in arms]
        if name == "ok" or any(counts):
            add(f"ended {name.replace('_', ' ')}", [
                Cell(f"{number(count)} ({percent(count / figures[arm]['requests'], 2)})"
                     if count else "0")
                for arm, count in zip(arms, counts, strict=True)
            ])  # fmt: skip
    line("offered, 1/s", "offered_per_s")
    line("throughput (any answer), 1/s", "throughput_per_s")
    line("goodput (ok), 1/s", "goodput_per_s")
    line("mean", "mean_ms", milliseconds)
    line("mean of the middle 95 %", "trimmed_mean_ms", milliseconds)
    for key, label in _QUANTILES:
        add(label, [cell for arm in arms for cell in latency_cells(figures[arm], key)])
    for threshold in ("0.1", "1", "2"):
        shares = [(figures[arm].get("share_above_s") or {}).get(threshold) for arm in arms]
        add(f"slower than {threshold} s", [Cell(percent(share)) for share in shares])
    line("punctuality (ideal / mean)", "punctuality", percent)
    line("demerits", "demerits")
    line("demerits per request", "demerits_per_request")
    line("sent late, p99", "lag_ms_p99", milliseconds)
    identity = f"arm-table-{part}" if part > 1 else "arm-table"
    title = "All figures of each arm, faults included, warm-up left out"
    return Table(identity, title, ("", *arms), tuple(rows))


def operation_tables(run: RunFolder) -> list[Table]:
    """Return a table of the operations and one of whole sessions, a row for each arm; none for
    operations if there is only one.
    """
    tables = [
        _operation_table(run, "operations", "By operation"),
        _operation_table(run, "sessions", "By session, from its begin to its last answer"),
    ]
    return [table for table in tables if table is not None]


def _operation_table(run: RunFolder, group: str, title: str) -> Table | None:
    group_body = run.summary.get(group) or {}
    if not group_body or (group == "operations" and len(group_body) == 1):
        return None
    rows = [
        (
            named(name),
            named(arm),
            Cell(number(figures["requests"])),
            *(_percentile_cell(figures, key) for key in ("p50", "p95", "p99")),
            Cell(number(figures["errors"]), about=_counted(figures, "reasons")),
            named(_counted(figures, "status") or MISSING),
            Cell(number(figures["bytes"])),
            _slo_cell(run, group, name, arm),
        )
        for name, arms in group_body.items()
        for arm, figures in arms.items()
    ]
    head = (group.removesuffix("s"), "arm", "count", "p50", "p95", "p99", "errors", "status",
            "bytes", "SLO")  # fmt: skip
    return Table(f"{group}-table", title, head, tuple(rows))


def _percentile_cell(figures: Mapping[str, Any], key: str) -> Cell:
    ends = figures[f"{key}_ms_interval"]
    about = f"{milliseconds(ends[0])} to {milliseconds(ends[1])}"
    return Cell(milliseconds(figures[f"{key}_ms"]), key in figures["insufficient"], about=about)


def _counted(figures: Mapping[str, Any], key: str) -> str:
    """Return the count of each outcome: `status 500: 3, no token: 1`."""
    return ", ".join(f"{outcome}: {number(count)}" for outcome, count in figures[key].items())


def _slo_cell(run: RunFolder, group: str, name: str, arm: str) -> Cell:
    """Return the verdict on the limits of an operation or session, if it has any."""
    judged = ((run.summary.get("slo") or {}).get("arms") or {}).get(arm) or {}
    entry = (judged.get(group) or {}).get(name)
    if entry is None:
        return named("")
    mark, mood = slo_mark(run, entry["met"])
    return Cell(f"{mark} {WORDS[entry['met']]}", numeric=False, mood=mood)


def stage_table(run: RunFolder) -> Table | None:
    """Return one row for each stage of the load and each arm; None at a steady rate."""
    rows = [
        (
            named(f"{stage['stage']}, to {plain(stage['target_per_s'])} per s"),
            named(f"{plain(stage['begin_s'])} to {plain(stage['end_s'])} s"),
            named(arm),
            Cell(number(figures["requests"])),
            Cell(f"{number(figures['errors'])} ({percent(figures['error_share'])})"),
            Cell(number(figures["offered_per_s"])),
            *latency_cells(figures, "p50", "p95", "p99"),
        )
        for stage in run.summary.get("stages") or ()
        for arm, figures in stage["arms"].items()
    ]
    head = ("stage", "of the block", "arm", "requests", "errors", "sent per s", "p50", "p95", "p99")
    return Table("stage-table", "By stage of the load", head, tuple(rows)) if rows else None


def phase_table(run: RunFolder) -> Table | None:
    phases = run.summary.get("phases") or {}
    rows = []
    for phase, arms in phases.items():
        for arm, figures in arms.items():
            rows.append((
                named(phase), named(arm), Cell(number(figures.get("requests"))),
                Cell(number(figures.get("duration_s"))), Cell(number(figures.get("goodput_per_s"))),
                Cell(percent(figures.get("goodput"))), Cell(milliseconds(figures.get("mean_ms"))),
                *latency_cells(figures, "p50", "p95", "p99"),
                Cell(percent(figures.get("punctuality"))),
                Cell(number(figures.get("demerits_per_request"))),
            ))  # fmt: skip
    if not rows:
        return None
    head = ("phase", "arm", "requests", "seconds", "ok/s", "ok share", "mean", "p50", "p95",
            "p99", "punctuality", "demerits per request")  # fmt: skip
    return Table("phase-table", "By phase", head, tuple(rows))


def fault_table(run: RunFolder) -> Table | None:
    """Return faults and interference by kind: their number, their time, and the number reverted."""
    kinds = (run.summary.get("faults") or {}).get("by_kind") or {}
    rows = []
    for kind, counts in kinds.items():
        kind_windows = [
            w for w in run.windows if w.kind == kind and w.what in ("fault", "interference")
        ]
        machines = sorted(
            {window.machine for window in kind_windows if window.machine}, key=by_number
        )
        rows.append((
            named(kind), Cell(number(counts["injected"])), Cell(number(counts["reverted"])),
            Cell(number(sum(window.duration_s for window in kind_windows))),
            named(", ".join(machines) or MISSING),
        ))  # fmt: skip
    if not rows:
        return None
    head = ("kind", "injected", "reverted", "seconds in all", "machines")
    return Table("fault-table", "Faults and interference", head, tuple(rows))


def replication_table(run: RunFolder) -> Table | None:
    rows = [
        (
            named(arm), named(tier), Cell(number(load["received"])),
            Cell(number(load["replicas_sent"])), Cell(number(load["replicas_per_request"])),
            Cell(number(load["replicas_wasted"])), Cell(number(load["wasted_s"])),
            Cell(milliseconds(load.get("server_ms"))),
        )
        for arm, tiers in (run.summary.get("replication") or {}).items()
        for tier, load in tiers.items()
    ]  # fmt: skip
    if not rows:
        return None
    head = ("arm", "tier", "requests", "replicas sent", "per request", "wasted",
            "wasted server seconds", "mean at a server")  # fmt: skip
    return Table("replication-table", "What replication cost", head, tuple(rows))


def agreement_table(run: RunFolder) -> Table | None:
    """Return the agreement of replicas for tiers whose arbiter compared their replies."""
    rows = [
        (
            named(arm), named(tier),
            *(Cell(number(counts[name])) for name in ("equal", "different", "not_compared",
                                                     "refused")),
        )
        for arm, tiers in (run.summary.get("agreement") or {}).items()
        for tier, counts in tiers.items()
    ]  # fmt: skip
    if not rows:
        return None
    head = ("arm", "tier", "reads alike", "different", "not compared", "refused")
    return Table("agreement-table", "Replies held against each other", head, tuple(rows))


def _moment(instant: Any) -> str:
    """Return a time of the manifest in the format of a page's head."""
    return f"{str(instant)[:19].replace('T', ' ')} UTC" if instant else MISSING


def facts_to_repeat(run: RunFolder) -> list[tuple[str, str]]:
    manifest = run.manifest
    host, versions = manifest.get("host") or {}, manifest.get("versions") or {}
    parts = (
        host.get("cpu"), f"{number(host.get('cores'))} cores",
        f"{number(host.get('memory_gb'))} GB", f"Linux {host.get('kernel')}",
    )  # fmt: skip
    setup = (manifest.get("setup_s") or {}).items()
    more = {
        "platform": str(manifest.get("platform") or ""),
        "versions": ", ".join(f"{k} {v}" for k, v in versions.items() if k != "commit"),
        "host": ", ".join(str(part) for part in parts if part) if host else "",
        "times": f"{_moment(manifest.get('started_at'))} to {_moment(manifest.get('ended_at'))}",
        "set-up": ", ".join(f"{key.replace('_', '-')} {number(s)} s" for key, s in setup),
    }
    return repeat_rows(manifest, **more)
