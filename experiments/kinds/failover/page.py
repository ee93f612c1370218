"""The page of a fail-over run, and its summary on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.kinds.failover import figures, tables
from experiments.kinds.failover.analysis import failovers, strikes
from experiments.kinds.failover.measure import INVOCATIONS_FILE
from experiments.record.result import flat
from experiments.report.shell import render_run, save_page
from experiments.report.terminal import print_path, print_reasons, print_table
from experiments.report.text import counted, milliseconds, number

_FAULTS_UNFOLDED_MOST = 2  # up to so many faults each have a sentence and an unfolded section
_ROWS_MOST, _COURSES_MOST = 12, 4  # longer tables and longer lists of blocks are folded
_WIDE = 120  # columns of a terminal; with them no table cuts a name


def write_page(folder: Path) -> Path:
    manifest, result = manifest_if_any(folder), flat(read_result(folder))
    invocations, strike_records = pl.read_parquet(folder / INVOCATIONS_FILE), strikes(folder)
    longest_failovers = failovers(invocations, strike_records)
    rows, planned = result["rows"], result["planned"]
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    faults = list(dict.fromkeys(row["fault"] for row in rows))
    html = render_run(
        Path(__file__).with_name("failover.html.j2"),
        result,
        manifest,
        headline(result),
        summary=tables.summary_table(rows, result["bound_s"]),
        matrices=tables.matrix_tables(rows),
        parts=tables.parts_table(rows),
        calls=tables.calls_table(rows),
        bought=tables.bought_table(rows, planned["availability"]) if planned else None,
        rates=tables.rates_table(planned["rates"], planned["prices"]) if planned else None,
        rows_most=_ROWS_MOST,
        courses_most=_COURSES_MOST,
        faults=[
            {
                "identity": f"fault-{index}",
                "name": fault,
                "open": len(faults) <= _FAULTS_UNFOLDED_MOST,
                "distribution": figures.distribution_figure(
                    fault,
                    longest_failovers.filter(fault=fault),
                    arms,
                    result["bound_s"],
                    f"share-{index}",
                ),
                "parts": figures.parts_figure(
                    fault, [row for row in rows if row["fault"] == fault], f"parts-{index}"
                ),
                "courses": _courses(manifest, invocations, strike_records, fault),
            }
            for index, fault in enumerate(faults)
        ],
    )
    return save_page(folder, html)


def _courses(
    manifest: Mapping[str, Any], invocations: Any, strike_records: Any, fault: str
) -> list[Any]:
    return [
        figures.timeline_figure(
            f"course-{block['block']}",
            f"{block['arm']}, {counted(block['clients'], 'client')}",
            invocations.filter(block=block["block"]),
            [strike for strike in strike_records if strike["block"] == block["block"]],
        )
        for block in manifest["blocks"]
        if block["fault"] == fault
    ]


def headline(result: Mapping[str, Any]) -> str:
    """Return the strategies with the shortest and the longest fail-overs, a sentence per fault.

    For many faults, one sentence has the number of faults under which each strategy keeps all
    calls within the bound.
    """
    rows, bound_s = result["rows"], result["bound_s"]
    faults = list(dict.fromkeys(row["fault"] for row in rows))
    if len(faults) > _FAULTS_UNFOLDED_MOST:
        sentences = [_many_faults_sentence(faults, rows, bound_s)]
    else:
        sentences = [
            _fault_sentence(fault, [row for row in rows if row["fault"] == fault], bound_s)
            for fault in faults
        ]
    return " ".join([*sentences, *_wrong_calls_sentence(rows)])


def _wrong_calls_sentence(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence if replies were wrong, or an audit found calls not made exactly once."""
    counts = {"wrong replies": sum(row["wrong"] for row in rows)}
    for row in rows:
        for key, count in (row.get("audit") or {}).items():
            if key != "changes":
                counts[key] = counts.get(key, 0) + count
    problems = ", ".join(f"{number(count)} {problem}" for problem, count in counts.items() if count)
    return [f"Not every call was made once: {problems}."] if problems else []


def _many_faults_sentence(
    faults: Sequence[str], rows: Sequence[Mapping[str, Any]], bound_s: float
) -> str:
    longest: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["longest_call_ms"] is not None:  # a block that was cut short may have no call
            key = row["arm"], row["fault"]
            longest[key] = max(longest.get(key, 0.0), row["longest_call_ms"])
    faults_within = {row["arm"]: 0 for row in rows}
    for (arm, _), ms in longest.items():
        faults_within[arm] += ms <= 1e3 * bound_s
    best_first = sorted(faults_within, key=faults_within.__getitem__, reverse=True)
    counts = ", ".join(f"{faults_within[arm]} with {arm}" for arm in best_first)
    lost = sum(row["lost"] for row in rows)
    return (
        f"Faults, of {len(faults)}, under which no call took over {bound_s:g} s: {counts}. "
        f"{number(lost)} of {number(sum(row['invocations'] for row in rows))} calls were lost."
    )


def _fault_sentence(fault: str, rows: Sequence[Mapping[str, Any]], bound_s: float) -> str:
    """Describe the longest fail-over of each strategy, over all numbers of clients."""
    longest: dict[str, float] = {}
    for row in rows:
        if row["max_ms"] is not None:
            longest[row["arm"]] = max(longest.get(row["arm"], 0.0), row["max_ms"])
    if not longest:
        return f"{fault}: no fail-over was felt."
    best, worst = min(longest, key=longest.__getitem__), max(longest, key=longest.__getitem__)
    text = f"{fault}: shortest with {best}, at most {milliseconds(longest[best])}"
    if worst == best:
        return f"{text}."
    within = sum(longest_ms <= 1e3 * bound_s for longest_ms in longest.values())
    return (
        f"{text}; longest with {worst}, {milliseconds(longest[worst])}; {within} of "
        f"{len(longest)} strategies never beyond {bound_s:g} s."
    )


def print_result(result: Mapping[str, Any], console: Console, page: Path) -> None:
    """Print headline, strategy by fault and the report's path; a wide terminal has more tables."""
    console.print(headline(result), markup=False, highlight=False)
    for matrix in tables.matrix_tables(result["rows"]):
        print_table(matrix, console)
    if console.width >= _WIDE:
        print_table(tables.summary_table(result["rows"], result["bound_s"]), console)
        print_table(tables.parts_table(result["rows"]), console)
        print_table(tables.calls_table(result["rows"]), console)
    if result["planned"]:
        print_table(tables.bought_table(result["rows"], result["planned"]["availability"]), console)
    print_reasons(result["verdicts"], console)
    print_path(page, console)
