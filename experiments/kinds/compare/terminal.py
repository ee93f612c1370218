"""The summary of a run on a terminal, with the path of its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from core.terminal import fitting
from experiments.kinds.compare.decided import decided_values
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.headline import is_a_chain
from experiments.kinds.compare.host import caps_words, host_words, load_words
from experiments.kinds.compare.predicted import availability_words, predicted_table, promise_table
from experiments.kinds.compare.steps import main_sentence, steps_table
from experiments.kinds.compare.summary import summary_lines
from experiments.kinds.compare.tables import operation_tables, stage_table
from experiments.kinds.compare.verdict import headline_arms
from experiments.record.result import validity
from experiments.report.doses import dose_words
from experiments.report.revert_time import revert_time_words
from experiments.report.tables import Cell
from experiments.report.tables import Table as Cells
from experiments.report.terminal import print_path, print_table
from experiments.report.text import factor, interval, milliseconds, number, percent

_ROWS = (
    ("requests", "requests", number),
    ("errors", "errors", number),
    ("goodput, ok per s", "goodput_per_s", number),
    ("mean", "mean_ms", milliseconds),
    ("p50", "p50_ms", milliseconds),
    ("p95", "p95_ms", milliseconds),
    ("p99", "p99_ms", milliseconds),
    ("p99.9", "p99_9_ms", milliseconds),
    ("punctuality", "punctuality", percent),
    ("demerits per request", "demerits_per_request", number),
    ("sent late, p99", "lag_ms_p99", milliseconds),
)

_UNDONE = ("revert", "cleanup")
_MANY = ("requests", "errors", "mean_ms", "p50_ms", "p95_ms", "p99_ms")
_COLUMNS_MOST = 4
_OPERATIONS_MOST = 20  # rows; all are in the report


def print_summary(run: RunFolder, console: Console, report: Path | None = None) -> None:
    """Print arms, improvement and verdicts, then what the report's first screen says: verdict, gain
    and cost; the last line is the report's path, whole.

    A figure that rests on fewer than 10 samples beyond it carries a question mark.
    """
    summary = run.summary
    many = len(summary.get("arms") or {}) > _COLUMNS_MOST
    # Not as the table's title, which would be folded to its width.
    about = ": latencies in ms, factor of the mean" if many else ""
    console.print(f"[italic]{_title(summary)}{about}[/]", highlight=False, soft_wrap=True)
    console.print(fitting(_many_arms(summary) if many else _arms(run), console))
    _print_steps(run, console)
    stages = stage_table(run)
    for table in (*([stages] if stages else []), *operation_tables(run)):
        if len(table.rows) <= _OPERATIONS_MOST:
            print_table(table, console)
    _print_predicted(summary, console)
    _print_verdicts(run, console)
    _print_answer(run, console)
    if report is not None:
        print_path(report, console)


def _arms(run: RunFolder) -> Table:
    """One column for each arm, and the improvement of the one that the sentences below speak of."""
    arms: Mapping[str, Any] = run.summary.get("arms") or {}
    _, other, improvement = headline_arms(run)
    table = Table()
    table.add_column("")
    for arm in arms:
        table.add_column(escape(arm), justify="right")
    compared = any(entry.get("factor") is not None for entry in improvement.values())
    compared = compared and not is_a_chain(run.summary)  # whose steps have a table of their own
    whose = f"improvement, {other}" if len(arms) > 2 else "improvement"
    for heading in (whose, "95 % interval") if compared else ():
        table.add_column(escape(heading), justify="right")
    for label, key, show in _ROWS:
        name = key.removesuffix("_ms")
        if name == "p99_9" and name not in improvement:
            continue
        cells = [_figure(arm, key, show) for arm in arms.values()]
        entry = improvement.get(name) or {}
        if compared:
            known = entry.get("factor") is not None
            cells.append(factor(entry["factor"]) if known else "")
            cells.append(interval(entry["ci_low"], entry["ci_high"]) if known else "")
        table.add_row(label, *cells)
    return table


def _print_steps(run: RunFolder, console: Console) -> None:
    """Each step of a chain of arms, its factors with their intervals."""
    table = steps_table(run) if is_a_chain(run.summary) else None
    _print_with_intervals(table, console)


def _print_with_intervals(cells: Cells | None, console: Console) -> None:
    """The page's small print below a figure, in brackets behind it."""
    if cells is not None:
        rows = tuple(
            tuple(replace(cell, text=_with_interval(cell)) for cell in row) for row in cells.rows
        )
        print_table(replace(cells, rows=rows), console)


def _with_interval(cell: Cell) -> str:
    return f"{cell.text} ({cell.about})" if cell.about else cell.text


def _many_arms(summary: Mapping[str, Any]) -> Table:
    """One row for each arm, since so many columns would not fit."""
    comparison: Mapping[str, Any] = summary.get("comparison") or {}
    arms: Mapping[str, Any] = summary.get("arms") or {}
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True, min_width=max(map(len, arms), default=0))
    for heading in ("sent", "err", "mean", "p50", "p95", "p99", "factor"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=4)
    table.add_column("95 % interval")
    for name, arm in arms.items():
        entry = (comparison.get(name) or {}).get("mean") or {}
        gain = ("", "")
        if entry.get("factor") is not None:
            gain = (number(entry["factor"]), interval(entry["ci_low"], entry["ci_high"]))
        table.add_row(escape(name), *(_figure(arm, key, _whole) for key in _MANY), *gain)
    return table


def _whole(value: Any) -> str:
    return number(value if value is None else round(value))


def _title(summary: Mapping[str, Any]) -> str:
    return escape(f"{summary.get('experiment')}, run {summary.get('run')}")


def _figure(arm: Mapping[str, Any], key: str, show: Callable[[Any], str]) -> str:
    doubtful = key.removesuffix("_ms") in (arm.get("insufficient") or ())
    return show(arm.get(key)) + (" ?" if doubtful else "")


def _print_predicted(summary: Mapping[str, Any], console: Console) -> None:
    """The promise and the figures, predicted beside measured, for a run of a plan's fleet."""
    found = summary.get("predicted")
    if not found:
        return
    _print_with_intervals(promise_table(summary), console)
    _print_with_intervals(predicted_table(found), console)
    for line in availability_words(found):
        console.print(f"  {line}", markup=False, highlight=False)


def _print_verdicts(run: RunFolder, console: Console) -> None:
    summary = run.summary
    found = summary.get("verdicts") or {}
    slo = summary.get("slo") or {}
    faults = summary.get("faults") or {}
    said = [f"valid: {_valid(summary)}", f"SLO met: {_slo(slo)}"]
    if modelled := slo.get("availability"):
        said[-1:] = [
            f"SLO met as measured: {_slo(slo)}",
            f"availability, by the model: {_answer(modelled['met'])}",
        ]
    said += [f"{name}: {_answer((found.get(name) or {}).get('ok'))}" for name in _UNDONE]
    console.print("   ".join(said))
    console.print(
        f"faults: {number(faults.get('injected'))} injected, {number(faults.get('reverted'))} "
        f"reverted   InfluxDB points: {number(summary.get('influx_points'))}",
        highlight=False,
    )
    load = (summary.get("load") or {}).get("blocks") or ()
    dose = dose_words((summary.get("faults") or {}).get("doses") or ())
    undone = revert_time_words(summary.get("undone"))
    decided = decided_values(run.manifest)
    how = decided["said"] if decided else ""
    host = host_words(summary.get("host_blocks") or ())
    for line in (how, dose, undone, host, caps_words(run), load_words(load)):
        if line:
            console.print(line, highlight=False)
    reasons = [reason for verdict in found.values() for reason in verdict.get("reasons") or ()]
    for reason in dict.fromkeys([*reasons, *(slo.get("reasons") or ())]):
        console.print(f"  - {reason}", markup=False, highlight=False)


def _valid(summary: Mapping[str, Any]) -> str:
    if summary.get("valid") is None:
        return _answer(None)
    word = validity(summary)
    return "[yellow]disturbed[/]" if word == "disturbed" else _answer(word == "yes")


def _slo(slo: Mapping[str, Any]) -> str:
    open_one = slo.get("arms") and slo.get("met") is None
    return "[yellow]undecided[/]" if open_one else _answer(slo.get("met"))


def _answer(answer: Any) -> str:
    if answer is None:
        return "[yellow]not known[/]"
    return "[green]yes[/]" if answer else "[red]no[/]"


def _print_answer(run: RunFolder, console: Console) -> None:
    console.print()
    console.print(main_sentence(run), style="bold", markup=False, highlight=False)
    counts = run.summary.get("valid") is not False
    planned = _planned(run.plan) if counts else "A plan from it is undecided."
    of_plan = run.summary.get("promise")  # what a run of one arm plans in turn is no answer
    for sentence in (*summary_lines(run), *([] if of_plan else [planned])):
        console.print(sentence, markup=False, highlight=False)


def _planned(plan: Mapping[str, Any]) -> str:
    if plan.get("feasible") is None:
        why = "; ".join(plan.get("reasons") or ())
        return f"The plan is undecided: {why}." if why else "No fleet was planned from it."
    if not plan["feasible"]:
        return "No fleet within the limits meets the SLO."
    tiers = [f"{name}: {_machines(tier)}" for name, tier in (plan.get("tiers") or {}).items()]
    simulation = plan.get("simulation") or {}
    said = {
        "kept": ", which keeps the SLO in simulation",
        "undecided": f", undecided: {simulation.get('reason')}",
        "not-simulated": f", not simulated: {simulation.get('reason')}",
    }.get(simulation.get("verdict") or "", "")
    return f"Planned: {'; '.join(tiers)}{said}."


def _machines(tier: Mapping[str, Any]) -> str:
    spares = f" + {tier['spares']} spare" if tier.get("spares") else ""
    return f"{tier['nodes']}{spares} x {tier['instance_type']}, r = {tier['replicas']}"
