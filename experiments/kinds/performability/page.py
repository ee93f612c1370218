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
    manifest, result = manifest_if_any(folder), flat(read_result(folder))
    run = read_run(folder, manifest)
    faults, year = result["faults"], result["year"]
    html = render_run(
        Path(__file__).with_name("performability.html.j2"),
        result,
        manifest,
        headline(result),
        verdicts=[*_slo(result), *chips(result["verdicts"], QUESTIONS)],
        ideal=f"{milliseconds(result['ideal']['latency_ms'])}, {result['ideal']['source']}",
        durations=tables.durations_table(faults, result.get("paper")),
        paper=tables.paper_table(result["paper"]) if result.get("paper") else None,
        source=result["paper"]["source"] if result.get("paper") else "",
        fills=tables.fills_table(result.get("fills") or []),
        failures=tables.failures_table(faults),
        costs=tables.costs_table(faults),
        comparison=tables.comparison_table(faults, run.arms[0]),
        over_all=tables.over_all_table(result.get("over_all", {}), run.arms[0]),
        year=tables.year_table(year) if year else None,
        operator=run.section.operator,
        rates=tables.rates_table(year, faults) if year else None,
        merits=[
            *figures.dots_figures(faults, result.get("before", {}), run.arms),
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


def _slo(result: Mapping[str, Any]) -> list[Any]:
    arms = (result["slo"] or {}).get("arms") or {}
    names = [f"The year's SLO, {arm}?" if len(arms) > 1 else "The year's SLO?" for arm in arms]
    return [
        chip(name, answer["met"], answer["reasons"])
        for name, answer in zip(names, arms.values(), strict=True)
    ]


def headline(result: Mapping[str, Any]) -> str:
    """Return the worst fault's effect on users for each arm, and each arm's year."""
    arms = dict.fromkeys(arm for fault in result["faults"] for arm in fault["arms"])
    sentences = [_worst(arm, result["faults"]) for arm in arms]
    year = result["year"]
    for arm, arm_year in (year["arms"] if year else {}).items():
        sentences.append(
            f"{arm} in a year of these faults: {1e6 * arm_year['lost']:.1f} of a million requests "
            "lost."
        )
    return " ".join(sentences)


def _worst(arm: str, faults: Any) -> str:
    candidates = [fault for fault in faults if arm in fault["arms"]]
    fault = max(
        candidates, key=lambda candidate: candidate["arms"][arm]["cost"]["demerits"]["median"]
    )
    effects = fault["arms"][arm]
    return (
        f"{arm}: the worst fault was {fault['name']}, {tables.seconds(effects['failure_s'])} of "
        f"failure, {effects['cost']['lost']['median']:,g} requests lost, "
        f"{number(effects['cost']['demerits']['median'])} demerits."
    )


def print_result(result: Mapping[str, Any], console: Console, page: Path) -> None:
    print_table(tables.durations_table(result["faults"]), console)
    if result["year"]:
        print_table(tables.year_table(result["year"]), console)
    console.print(headline(result), highlight=False)
    print_reasons(result["verdicts"], console)
    print_path(page, console)
