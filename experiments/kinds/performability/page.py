"""The page of a performability run, and its summary on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.kinds.performability import figures, figures_time, tables
from experiments.kinds.performability.folder import read_run
from experiments.record.result import flat
from experiments.report.shell import QUESTIONS, chip, chips, render_run, save_page
from experiments.report.terminal import print_path, print_reasons, print_table
from experiments.report.text import milliseconds, number


def write_page(folder: Path) -> Path:
    """Write report.html from a run's files, whole or not at all."""
    manifest, found = manifest_if_any(folder), flat(read_result(folder))
    run = read_run(folder, manifest)
    faults, year = found["faults"], found["year"]
    html = render_run(
        Path(__file__).with_name("performability.html.j2"),
        found,
        manifest,
        headline(found),
        verdicts=[*_slo(found), *chips(found["verdicts"], QUESTIONS)],
        ideal=f"{milliseconds(found['ideal']['latency_ms'])}, {found['ideal']['source']}",
        durations=tables.durations_table(faults, found.get("paper")),
        paper=tables.paper_table(found["paper"]) if found.get("paper") else None,
        source=found["paper"]["source"] if found.get("paper") else "",
        fills=tables.fills_table(found.get("fills") or []),
        failures=tables.failures_table(faults),
        costs=tables.costs_table(faults),
        comparison=tables.comparison_table(faults, run.arms[0]),
        over_all=tables.over_all_table(found.get("over_all", {}), run.arms[0]),
        year=tables.year_table(year) if year else None,
        operator=run.section.operator,
        rates=tables.rates_table(year, faults) if year else None,
        merits=[
            *figures.dots_figures(faults, found.get("before", {}), run.arms),
            figures.box_figure(faults, run.arms),
            figures.exceedance_figure(run, faults),
        ],
        courses=[
            {
                "identity": f"fault-{index}",
                "name": fault["name"],
                "figure": figures_time.course_figure(run, index, fault["name"]),
                "phases": tables.phases_table(fault, f"phases-{index}"),
            }
            for index, fault in enumerate(faults)
            if fault["arms"]
        ],
    )
    return save_page(folder, html)


def _slo(found: Mapping[str, Any]) -> list[Any]:
    """Return the year's SLO, arm by arm."""
    arms = (found["slo"] or {}).get("arms") or {}
    names = [f"The year's SLO, {arm}?" if len(arms) > 1 else "The year's SLO?" for arm in arms]
    return [
        chip(name, one["met"], one["reasons"])
        for name, one in zip(names, arms.values(), strict=True)
    ]


def headline(found: Mapping[str, Any]) -> str:
    """Return the faults' effects on users, an arm each; and the year."""
    said = [_worst(arm, found["faults"]) for arm in _arms(found)]
    year = found["year"]
    for arm, one in (year["arms"] if year else {}).items():
        said.append(
            f"{arm} in a year of these faults: {1e6 * one['lost']:.1f} of a million requests lost."
        )
    return " ".join(said)


def _arms(found: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(arm for fault in found["faults"] for arm in fault["arms"]))


def _worst(arm: str, faults: Any) -> str:
    """Return the fault with the most demerits on an arm."""
    having = [fault for fault in faults if arm in fault["arms"]]
    fault = max(having, key=lambda one: one["arms"][arm]["cost"]["demerits"]["median"])
    one = fault["arms"][arm]
    return (
        f"{arm}: the worst fault was {fault['name']}, {tables.seconds(one['failure_s'])} of "
        f"failure, {one['cost']['lost']['median']:,g} requests lost, "
        f"{number(one['cost']['demerits']['median'])} demerits."
    )


def print_result(found: Mapping[str, Any], console: Console, page: Path) -> None:
    """Durations, the year, reasons, and the report's path."""
    print_table(tables.durations_table(found["faults"]), console)
    if found["year"]:
        print_table(tables.year_table(found["year"]), console)
    console.print(headline(found), highlight=False)
    print_reasons(found["verdicts"], console)
    print_path(page, console)
