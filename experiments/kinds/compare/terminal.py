"""The summary of a run on a terminal, with the path of its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from core.terminal import fitting
from experiments.kinds.compare.decided import decided_values
from experiments.kinds.compare.folder import RunFolder, read_folder
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
from experiments.report.terminal import DOUBT, print_doubt, print_path, print_table
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


def print_result(_: Mapping[str, Any], console: Console, page: Path) -> None:
    print_summary(read_folder(page.parent), console, page)


def print_summary(run: RunFolder, console: Console, report: Path | None = None) -> None:
    """Print arms, improvement and verdicts, then the sentences of the report's first screen:
    verdict, gain and cost. The last line is the report's full path.

    A figure that rests on fewer than 10 samples beyond it carries a question mark.
    """
    summary = run.summary
    many = len(summary.get("arms") or {}) > _COLUMNS_MOST
    title = f"{summary.get('experiment')}, run {summary.get('run')}"
    # Not as the table's title, which would be folded to its width.
    about = ": latencies in ms, factor of the mean" if many else ""
    console.print(f"[italic]{escape(title)}{about}[/]", highlight=False, soft_wrap=True)
    arms = _many_arms(summary) if many else _arms(run)
    console.print(fitting(arms, console))
    print_doubt(arms, console)
    if is_a_chain(summary):
        print_table(steps_table(run), console, beside=True)
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
    """Return one column for each arm, and the improvement of the arm in the sentences below."""
    arms: Mapping[str, Any] = run.summary.get("arms") or {}
    _, other_arm, improvement = headline_arms(run)
    table = Table()
    table.add_column("")
    for arm in arms:
        table.add_column(escape(arm), justify="right")
    compared = any(entry.get("factor") is not None for entry in improvement.values())
    compared = compared and not is_a_chain(run.summary)  # a chain's steps have their own table
    improvement_heading = f"improvement, {other_arm}" if len(arms) > 2 else "improvement"
    for heading in (improvement_heading, "95 % interval") if compared else ():
        table.add_column(escape(heading), justify="right")
    for label, key, show in _ROWS:
        name = key.removesuffix("_ms")
        if name == "p99_9" and name not in improvement:
            continue
        cells = [_figure(arm, key, show) for arm in arms.values()]
        entry = improvement.get(name) or {}
        if compared:
            has_factor = entry.get("factor") is not None
            cells.append(factor(entry["factor"]) if has_factor else "")
            cells.append(interval(entry["ci_low"], entry["ci_high"]) if has_factor else "")
        table.add_row(label, *cells)
    return table


def _many_arms(summary: Mapping[str, Any]) -> Table:
    """Return one row for each arm, because so many columns would not fit."""
    comparison: Mapping[str, Any] = summary.get("comparison") or {}
    arms: Mapping[str, Any] = summary.get("arms") or {}
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True, min_width=max(map(len, arms), default=0))
    for heading in ("sent", "errors", "mean", "p50", "p95", "p99", "factor"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=4)
    table.add_column("95 % interval")
    for name, arm in arms.items():
        entry = (comparison.get(name) or {}).get("mean") or {}
        gain = ("", "")
        if entry.get("factor") is not None:
            gain = (number(entry["factor"]), interval(entry["ci_low"], entry["ci_high"]))
        table.add_row(escape(name), *(_figure(arm, key, _rounded) for key in _MANY), *gain)
    return table


def _rounded(value: Any) -> str:
    return number(value if value is None else round(value))


def _figure(arm: Mapping[str, Any], key: str, show: Callable[[Any], str]) -> str:
    doubtful = key.removesuffix("_ms") in (arm.get("insufficient") or ())
    return show(arm.get(key)) + (DOUBT if doubtful else "")


def _print_predicted(summary: Mapping[str, Any], console: Console) -> None:
    """Print the promise, and predicted and measured figures, for a run of a plan's fleet."""

    predicted = summary.get("predicted")
    if not predicted:
        return
    print_table(promise_table(summary), console, beside=True)
    print_table(predicted_table(predicted), console, beside=True)
    for line in availability_words(predicted):
        console.print(f"  {line}", markup=False, highlight=False)


def _print_verdicts(run: RunFolder, console: Console) -> None:
    summary = run.summary
    answers = summary.get("verdicts") or {}
    slo = summary.get("slo") or {}
    faults = summary.get("faults") or {}
    parts = [f"valid: {_valid(summary)}", f"SLO met: {_slo(slo)}"]
    if availability := slo.get("availability"):
        parts[-1:] = [
            f"SLO met as measured: {_slo(slo)}",
            f"availability, by the model: {_answer(availability['met'])}",
        ]
    parts += [f"{name}: {_answer((answers.get(name) or {}).get('ok'))}" for name in _UNDONE]
    console.print("   ".join(parts))
    console.print(
        f"faults: {number(faults.get('injected'))} injected, {number(faults.get('reverted'))} "
        f"reverted   InfluxDB points: {number(summary.get('influx_points'))}",
        highlight=False,
    )
    load = (summary.get("load") or {}).get("blocks") or ()
    dose = dose_words((summary.get("faults") or {}).get("doses") or ())
    undone = revert_time_words(summary.get("undone"))
    decided = decided_values(run.manifest)
    decision_text = decided["said"] if decided else ""
    host = host_words(summary.get("host_blocks") or ())
    for line in (decision_text, dose, undone, host, caps_words(run), load_words(load)):
        if line:
            console.print(line, highlight=False)
    reasons = [reason for verdict in answers.values() for reason in verdict.get("reasons") or ()]
    for reason in dict.fromkeys([*reasons, *(slo.get("reasons") or ())]):
        console.print(f"  - {reason}", markup=False, highlight=False)


def _valid(summary: Mapping[str, Any]) -> str:
    if summary.get("valid") is None:
        return _answer(None)
    answer = validity(summary)
    return "[yellow]disturbed[/]" if answer == "disturbed" else _answer(answer == "yes")


def _slo(slo: Mapping[str, Any]) -> str:
    is_open = slo.get("arms") and slo.get("met") is None
    return "[yellow]undecided[/]" if is_open else _answer(slo.get("met"))


def _answer(answer: Any) -> str:
    if answer is None:
        return "[yellow]not known[/]"
    return "[green]yes[/]" if answer else "[red]no[/]"


def _print_answer(run: RunFolder, console: Console) -> None:
    console.print()
    console.print(main_sentence(run), style="bold", markup=False, highlight=False)
    counts = run.summary.get("valid") is not False
    planned = _planned(run.plan) if counts else "A plan from it is undecided."
    of_plan = run.summary.get("promise")  # such a run's own plan is no answer
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
    verdict_text = {
        "kept": ", which keeps the SLO in simulation",
        "undecided": f", undecided: {simulation.get('reason')}",
        "not-simulated": f", not simulated: {simulation.get('reason')}",
    }.get(simulation.get("verdict") or "", "")
    return f"Planned: {'; '.join(tiers)}{verdict_text}."


def _machines(tier: Mapping[str, Any]) -> str:
    spares = f" + {tier['spares']} spare" if tier.get("spares") else ""
    return f"{tier['nodes']}{spares} x {tier['instance_type']}, r = {tier['replicas']}"
