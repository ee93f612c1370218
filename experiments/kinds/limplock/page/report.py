"""The page of a run's rows, and its summary on a terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.design.injections import HELD_S_MAX
from experiments.kinds.limplock.judge.lasting import lasting_figures
from experiments.kinds.limplock.judge.resources import Machine, resources
from experiments.kinds.limplock.judge.result import CLASSES, distinguishing_labels
from experiments.kinds.limplock.page.cascade import cascade_figures
from experiments.kinds.limplock.page.figures import course_figures, slowdown_figure
from experiments.kinds.limplock.page.progress import progress_figures
from experiments.kinds.limplock.page.remedies import remedy_table
from experiments.kinds.limplock.page.words import bounds, ratio_text, verdict_cell
from experiments.kinds.limplock.page.zones import zone_figures, zone_table, zone_words
from experiments.kinds.limplock.scenarios import CRASH, label
from experiments.kinds.limplock.windows import (
    ASKED_FILE,
    WHITEBOX_FILE,
    RunInputs,
    read_windows,
)
from experiments.record.result import flat
from experiments.report.doses import dose_notes, dose_table, dose_words
from experiments.report.revert_time import revert_time_words
from experiments.report.shell import render_run, save_page
from experiments.report.tables import Cell, Table, named
from experiments.report.terminal import print_path, print_reasons, print_table
from experiments.report.text import factor, milliseconds, number, plain


def write_page(folder: Path) -> Path:
    result, manifest = flat(read_result(folder)), manifest_if_any(folder)
    inputs, windows = read_windows(folder)
    operations = pl.read_parquet(folder / ASKED_FILE)
    whitebox = pl.read_parquet(folder / WHITEBOX_FILE)
    doses = manifest.get("doses") or []
    html = render_run(
        Path(__file__).with_name("limplock.html.j2"),
        result,
        manifest,
        headline(result),
        about=f"{scale_words(inputs)} of the paper's operations",
        summary=summary_table(result),
        zones=zone_figures(result.get("zones") or (), result["arms"]),
        zone_table=zone_table(result.get("zones") or ()),
        scenarios=scenario_table(result),
        remedies=remedy_table(result.get("remedies") or ()),
        slowdowns=slowdown_figure(result),
        lasting=lasting_figures(result),
        cascades=cascade_figures(result),
        courses=course_figures(inputs, windows, operations, whitebox),
        resources=resource_table(
            result, resources(inputs, windows, whitebox, result["rule"]["judged_share"])
        ),
        progress=progress_figures(folder, inputs, windows),
        streams=stream_table(result),
        doses=dose_table(doses),
        dose_words=dose_words(doses),
        dose_notes=dose_notes(doses),
        undone=revert_time_words(result.get("undone")),
        abandoned=result["abandoned"],
    )
    return save_page(folder, html)


def scale_words(inputs: RunInputs) -> str:
    if set(inputs.scales.values()) <= {inputs.scale}:
        return plain(inputs.scale)
    return ", ".join(f"{row} {plain(scale)}" for row, scale in inputs.scales.items())


def headline(result: Mapping[str, Any]) -> str:
    """Return the rows with limplock and their agreement with the paper; of a search, its zones."""
    if result.get("zones") is not None:
        return zone_words(result["zones"])
    rows = result["rows"]
    locked = [_name(result, row) for row in rows if "yes" in (row[name] for name in CLASSES)]
    agreements = [row["agrees"][name] for row in rows for name in CLASSES]
    known = [agrees for agrees in agreements if agrees is not None]
    verdicts = [row[name] for row in rows for name in CLASSES]
    counts = {verdict: verdicts.count(verdict) for verdict in ("insufficient", "under-dosed")}
    undecided = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    undecided = f" {undecided[0].upper()}{undecided[1:]}." if undecided else ""
    sentence = f"Limplock in {', '.join(locked)}." if locked else "No limplock is shown in any row."
    if all(row["paper"] is None for row in rows):
        return sentence + undecided
    agreement = f"{sum(known)} of {len(known)} verdicts that can be compared are the paper's."
    return f"{sentence} {agreement}{undecided}"


def _name(result: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Return a row's name, with its arm and part if the name is not unique."""
    labels = distinguishing_labels(row, result["rows"])
    return f"{row['row']} ({', '.join(labels)})" if labels else str(row["row"])


def summary_table(result: Mapping[str, Any]) -> Table:
    """Table 1: base latency and verdicts, the paper's below ours."""
    rows = tuple(
        (
            dataclasses.replace(named(_name(result, row)), about=row["protocol"]),
            named(f"{row['limpware']}, {row['part']}"),
            named(_workload(row)),
            Cell(f"{number(row['base_s'])} s", about=_paper_text(row, "base_s", " s")),
            _slowdown_cell(result, row),
            *(_verdict(row[name], _paper_text(row, name), row["agrees"][name]) for name in CLASSES),
        )
        for row in result["rows"]
    )
    head = ("row", "limps", "workload", "base latency", "slowdown", "operation", "node", "cluster")
    return Table("limplock-table", "Which rows lock up (the paper's verdict below)", head, rows)


def _slowdown_cell(result: Mapping[str, Any], row: Mapping[str, Any]) -> Cell:
    """Return the largest slowdown over the severities, the paper's below."""
    key = ("arm", "row", "part")
    slowdowns = [
        scenario["slowdown"]
        for scenario in result["scenarios"]
        if all(scenario[name] == row[name] for name in key)
        and scenario["scenario"] != CRASH
        and scenario["slowdown"]
    ]
    worst = max(slowdowns, key=lambda slowdown: float(slowdown["factor"]), default=None)
    paper = row["paper"]
    published = "" if paper is None else "paper none named"
    if paper is not None and paper.get("slowdown"):
        published = f"paper {factor(paper['slowdown'])}"
    return Cell(ratio_text(worst), about=published)


def _workload(row: Mapping[str, Any]) -> str:
    work = row["workload"]
    size = f" of {plain(work['size_kb'])} KB" if work.get("size_kb") else ""
    keys = f" over {plain(work['keys'])}" if work.get("keys") else ""
    return f"{plain(row['count'])} {work['operation']}{size}{keys}"


def _paper_text(row: Mapping[str, Any], key: str, unit: str = "") -> str:
    """Return the paper's value; empty for a row that it does not have."""
    return "" if row["paper"] is None else f"paper {plain(row['paper'][key])}{unit}"


def _verdict(ours: str, paper: str, agrees: bool | None) -> Cell:
    mark = {True: ", as here", False: ", not as here", None: ""}[agrees]
    return verdict_cell(ours, f"{paper}{mark}")


def scenario_table(result: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            named(f"{_name(result, scenario)}, {label(scenario['scenario'])}"),
            Cell(f"{number(scenario['base_s'])} s"),
            Cell(ratio_text(scenario["slowdown"]), about=bounds(scenario["slowdown"])),
            *(_class_cell(scenario, name) for name in CLASSES),
            named(_notes(scenario)),
        )
        for scenario in result["scenarios"]
    )
    head = ("row and scenario", "base", "slowdown", "operation", "node", "cluster", "seen")
    return Table("scenario-table", "Every scenario", head, rows)


def resource_table(result: Mapping[str, Any], machines: Sequence[Machine]) -> Table | None:
    rows = tuple(
        (
            named(_name(result, {"arm": machine.arm, "row": machine.row, "part": machine.part})),
            dataclasses.replace(named(machine.label), about=", ".join(machine.names)),
            Cell(machine.words, numeric=False, mood="bad" if machine.ran_out else ""),
        )
        for machine in machines
    )
    head = ("row", "machine", "what it came to while the part limped")
    return Table("resource-table", "Which resource ran out", head, rows) if rows else None


def _class_cell(scenario: Mapping[str, Any], name: str) -> Cell:
    about = {
        "operation": scenario["reason"],
        "node": ", ".join(
            f"{node['node']}{_since_text(node['since'])}"
            for node in scenario["nodes"]
            if node["verdict"] == "yes"
        ),
        "cluster": ", ".join(scenario["scope"]),
    }[name]
    return verdict_cell(scenario[name], about)


def _since_text(since: Mapping[str, Any] | None) -> str:
    return f" after {milliseconds(1e3 * since['seconds'])}" if since else ""


def _notes(scenario: Mapping[str, Any]) -> str:
    down = [node["node"] for node in scenario["nodes"] if node["down"]]
    notes = [f"{scenario['repeats']} repeats"]
    limit = f"{plain(scenario['timeout_factor'])} × the base"
    limit += f" or {HELD_S_MAX:g} s" if max(scenario["took_all_s"], default=0) >= HELD_S_MAX else ""
    limit = "the end of the watch" if scenario.get("endures") else limit
    notes += [f"{scenario['cut']} cut short at {limit}"] if scenario["cut"] else []
    notes += [f"{scenario['bases_cut']} bases cut short"] if scenario.get("bases_cut") else []
    notes += [f"{number(scenario['errors'])} failed attempts"] if scenario["errors"] else []
    notes += [f"parts moved in {scenario['moved']}"] if scenario["moved"] else []
    notes += [f"started anew after {scenario['anew']}"] if scenario["anew"] else []
    notes += (
        [f"a service did not start again after {scenario['stuck']}"]
        if scenario.get("stuck")
        else []
    )
    notes += [f"begun cold in {scenario['cold']}"] if scenario.get("cold") else []
    notes += [f"{scenario['bases_cold']} bases begun cold"] if scenario.get("bases_cold") else []
    notes += [f"down: {', '.join(down)}"] if down else []
    notes += _death_notes(scenario.get("died_s") or ())
    notes += [_dose_note(scenario["dose"])] if scenario.get("dose") else []
    return "; ".join(notes)


def _death_notes(repeats: Sequence[Mapping[str, float]]) -> list[str]:
    """Describe the servers that ran out of memory, with times and number of repeats."""
    names = sorted({name for repeat in repeats for name in repeat})
    notes = []
    for name in names:
        times = [repeat[name] for repeat in repeats if name in repeat]
        when = ", ".join(number(after_s) for after_s in times)
        notes.append(f"{name} out of memory after {when} s in {len(times)}")
    return notes


def _dose_note(dose: Mapping[str, Any]) -> str:
    if dose["share"] is None:
        return f"unknown how much fills {dose['what']}"
    return f"{number(dose['share'])} of what fills {dose['what']}"


def stream_table(result: Mapping[str, Any]) -> Table | None:
    rows = tuple(
        (
            named(f"{_name(result, scenario)}, {label(scenario['scenario'])}"),
            named(stream["node"]),
            named(stream["operation"]),
            named(stream["needs"]),
            Cell(ratio_text(stream["slowdown"]), about=bounds(stream["slowdown"])),
            verdict_cell(
                stream["verdict"],
                "; ".join(filter(None, [stream["reason"], "down" * stream["down"]])),
            ),
        )
        for scenario in result["scenarios"]
        for stream in scenario["streams"]
    )
    head = ("row and scenario", "node", "probe", "needs", "slowdown", "slow")
    return Table("stream-table", "Every stream of probes", head, rows) if rows else None


def print_result(result: Mapping[str, Any], console: Console, page: Path) -> None:
    title = f"{result['experiment']}, run {result['run']}"
    scenarios = scenario_table(result)
    short = dataclasses.replace(
        scenarios, head=scenarios.head[:-1], rows=tuple(row[:-1] for row in scenarios.rows)
    )
    for table in (_narrow(summary_table(result)), short, zone_table(result.get("zones") or ())):
        if table:
            print_table(dataclasses.replace(table, caption=title), console, beside=True)
    for scenario, *_, notes in scenarios.rows:
        console.print(f"{scenario.text}: {notes.text}.", markup=False, highlight=False)
    print_table(remedy_table(result.get("remedies") or ()), console)
    print_reasons(result["verdicts"], console)
    print_path(page, console)


def _narrow(table: Table) -> Table:
    """Return the table without limping part, workload and protocol, which are on the page."""
    rows = tuple((dataclasses.replace(row[0], about=""), *row[3:]) for row in table.rows)
    return dataclasses.replace(table, head=(table.head[0], *table.head[3:]), rows=rows)
