"""The page of a fail-over run, and its summary on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.kinds.failover import figures, tables
from experiments.kinds.failover.analysis import failovers, read_invocations, strikes
from experiments.record.result import flat
from experiments.report.shell import render_run, save_page
from experiments.report.terminal import print_path, print_reasons, print_table
from experiments.report.text import counted, milliseconds, number

_FAULTS_TOLD = 2  # by a sentence of their own


def write_page(folder: Path) -> Path:
    """Write report.html from a run's files, whole or not at all."""
    manifest, result = manifest_if_any(folder), flat(read_result(folder))
    invocations, struck = read_invocations(folder), strikes(folder)
    found = failovers(invocations, struck)
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
        faults=[
            {
                "identity": f"fault-{index}",
                "name": fault,
                "distribution": figures.distribution_figure(
                    fault, found.filter(fault=fault), arms, result["bound_s"], f"share-{index}"
                ),
                "parts": figures.parts_figure(
                    fault, [row for row in rows if row["fault"] == fault], f"parts-{index}"
                ),
                "courses": _courses(manifest, invocations, struck, fault),
            }
            for index, fault in enumerate(faults)
        ],
    )
    return save_page(folder, html)


def _courses(manifest: Mapping[str, Any], invocations: Any, struck: Any, fault: str) -> list[Any]:
    """Return a timeline for each block of a fault."""
    return [
        figures.timeline_figure(
            f"course-{one['block']}",
            f"{one['arm']}, {counted(one['clients'], 'client')}",
            invocations.filter(block=one["block"]),
            [strike for strike in struck if strike["block"] == one["block"]],
        )
        for one in manifest["blocks"]
        if one["fault"] == fault
    ]


def headline(result: Mapping[str, Any]) -> str:
    """Return the strategies with the shortest and the longest fail-overs, a sentence per fault; of
    many faults, under how many of them each strategy keeps all calls within the bound.
    """
    rows, bound_s = result["rows"], result["bound_s"]
    faults = list(dict.fromkeys(row["fault"] for row in rows))
    if len(faults) > _FAULTS_TOLD:
        said = [_over_all(faults, rows, bound_s)]
    else:
        said = [
            _judged(one, [row for row in rows if row["fault"] == one], bound_s) for one in faults
        ]
    return " ".join([*said, *_not_once(rows)])


def _not_once(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence where replies were wrong, or the service kept what it should not."""
    found = {"wrong replies": sum(row["wrong"] for row in rows)}
    for row in rows:
        for key, count in (row.get("audit") or {}).items():
            if key != "changes":
                found[key] = found.get(key, 0) + count
    told = ", ".join(f"{number(count)} {what}" for what, count in found.items() if count)
    return [f"Not every call was made once: {told}."] if told else []


def _over_all(faults: Sequence[str], rows: Sequence[Mapping[str, Any]], bound_s: float) -> str:
    longest: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["longest_call_ms"] is not None:  # of a block that was cut short there may be no call
            key = row["arm"], row["fault"]
            longest[key] = max(longest.get(key, 0.0), row["longest_call_ms"])
    kept = {row["arm"]: 0 for row in rows}
    for (arm, _), ms in longest.items():
        kept[arm] += ms <= 1e3 * bound_s
    best_first = sorted(kept, key=kept.__getitem__, reverse=True)
    said = ", ".join(f"{kept[arm]} with {arm}" for arm in best_first)
    lost = sum(row["lost"] for row in rows)
    return (
        f"Faults, of {len(faults)}, under which no call took over {bound_s:g} s: {said}. "
        f"{number(lost)} of {number(sum(row['invocations'] for row in rows))} calls were lost."
    )


def _judged(fault: str, rows: Sequence[Mapping[str, Any]], bound_s: float) -> str:
    """Describe the longest fail-over of each strategy, over all numbers of clients."""
    longest: dict[str, float] = {}
    for row in rows:
        if row["max_ms"] is not None:
            longest[row["arm"]] = max(longest.get(row["arm"], 0.0), row["max_ms"])
    if not longest:
        return f"{fault}: no fail-over was felt."
    best, worst = min(longest, key=longest.__getitem__), max(longest, key=longest.__getitem__)
    said = f"{fault}: shortest with {best}, at most {milliseconds(longest[best])}"
    if worst == best:
        return f"{said}."
    within = sum(one <= 1e3 * bound_s for one in longest.values())
    return (
        f"{said}; longest with {worst}, {milliseconds(longest[worst])}; {within} of "
        f"{len(longest)} strategies never beyond {bound_s:g} s."
    )


def print_result(result: Mapping[str, Any], console: Console, page: Path) -> None:
    """The tables, reasons, and the report's path."""
    print_table(tables.summary_table(result["rows"], result["bound_s"]), console)
    for matrix in tables.matrix_tables(result["rows"]):
        print_table(matrix, console)
    print_table(tables.parts_table(result["rows"]), console)
    print_table(tables.calls_table(result["rows"]), console)
    if result["planned"]:
        print_table(tables.bought_table(result["rows"], result["planned"]["availability"]), console)
    print_reasons(result["verdicts"], console)
    print_path(page, console)
