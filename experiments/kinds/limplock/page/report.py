"""The page of a run's rows, and its summary on a terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.design.injections import HELD_S_MAX
from experiments.kinds.limplock.judge.lasting import lasting_figures
from experiments.kinds.limplock.judge.resources import Machine, resources
from experiments.kinds.limplock.judge.result import CLASSES, told_apart
from experiments.kinds.limplock.page.cascade import cascade_figures
from experiments.kinds.limplock.page.figures import course_figures, slowdown_figure
from experiments.kinds.limplock.page.progress import progress_figures
from experiments.kinds.limplock.page.remedies import remedy_lines, remedy_table
from experiments.kinds.limplock.page.words import bounds, slowed, verdict_cell
from experiments.kinds.limplock.page.zones import zone_figures, zone_table, zone_words
from experiments.kinds.limplock.scenarios import CRASH, label
from experiments.kinds.limplock.windows import (
    ASKED,
    ASKED_FILE,
    WHITEBOX,
    WHITEBOX_FILE,
    RunInputs,
    read_windows,
)
from experiments.record.records import read_table
from experiments.record.result import flat
from experiments.report.doses import dose_notes, dose_table, dose_words
from experiments.report.revert_time import revert_time_words
from experiments.report.shell import render_run, save_page
from experiments.report.tables import Cell, Table, named
from experiments.report.terminal import print_path, print_reasons, print_table
from experiments.report.text import factor, milliseconds, number, plain


def write_page(folder: Path) -> Path:
    """Write report.html from a run's files, whole or not at all."""
    result, manifest = flat(read_result(folder)), manifest_if_any(folder)
    left, windows = read_windows(folder)
    asked = read_table(folder / ASKED_FILE, ASKED)
    whitebox = read_table(folder / WHITEBOX_FILE, WHITEBOX)
    doses = manifest.get("doses") or []
    html = render_run(
        Path(__file__).with_name("limplock.html.j2"),
        result,
        manifest,
        headline(result),
        about=f"{scale_words(left)} of the paper's operations",
        summary=summary_table(result),
        zones=zone_figures(result.get("zones") or (), result["arms"]),
        zone_table=zone_table(result.get("zones") or ()),
        scenarios=scenario_table(result),
        remedies=remedy_table(result.get("remedies") or ()),
        slowdowns=slowdown_figure(result),
        lasting=lasting_figures(result),
        cascades=cascade_figures(result),
        courses=course_figures(left, windows, asked, whitebox),
        resources=resource_table(
            result, resources(left, windows, whitebox, result["rule"]["judged_share"])
        ),
        progress=progress_figures(folder, left, windows),
        streams=stream_table(result),
        doses=dose_table(doses),
        dose_words=dose_words(doses),
        dose_notes=dose_notes(doses),
        undone=revert_time_words(result.get("undone")),
        abandoned=result["abandoned"],
    )
    return save_page(folder, html)


def scale_words(left: RunInputs) -> str:
    """Return the share of all rows, or of each."""
    if set(left.scales.values()) <= {left.scale}:
        return plain(left.scale)
    return ", ".join(f"{row} {plain(scale)}" for row, scale in left.scales.items())


def headline(result: Mapping[str, Any]) -> str:
    """Return the rows with limplock beside the paper's verdict; of a search, its zones."""
    if result.get("zones") is not None:
        return zone_words(result["zones"])
    rows = result["rows"]
    locked = [_name(result, one) for one in rows if "yes" in (one[name] for name in CLASSES)]
    agreed = [one["agrees"][name] for one in rows for name in CLASSES]
    known = [one for one in agreed if one is not None]
    open_ones = [one[name] for one in rows for name in CLASSES]
    counts = {word: open_ones.count(word) for word in ("insufficient", "under-dosed")}
    left = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    left = f" {left[0].upper()}{left[1:]}." if left else ""
    said = f"Limplock in {', '.join(locked)}." if locked else "No limplock is shown in any row."
    if all(one["paper"] is None for one in rows):
        return said + left
    same = f"{sum(known)} of {len(known)} verdicts that can be compared are the paper's."
    return f"{said} {same}{left}"


def _name(result: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    """Return a row, and what tells it apart where that is not enough."""
    told = told_apart(one, result["rows"])
    return f"{one['row']} ({', '.join(told)})" if told else str(one["row"])


def summary_table(result: Mapping[str, Any]) -> Table:
    """Table 1: base latency and verdicts, the paper's below ours."""
    rows = tuple(
        (
            dataclasses.replace(named(_name(result, one)), about=one["protocol"]),
            named(f"{one['limpware']}, {one['part']}"),
            named(_workload(one)),
            Cell(f"{number(one['base_s'])} s", about=_paper(one, "base_s", " s")),
            _slowed(result, one),
            *(_verdict(one[name], _paper(one, name), one["agrees"][name]) for name in CLASSES),
        )
        for one in result["rows"]
    )
    head = ("row", "limps", "workload", "base latency", "slowdown", "operation", "node", "cluster")
    return Table("limplock-table", "Which rows lock up (the paper's verdict below)", head, rows)


def _slowed(result: Mapping[str, Any], one: Mapping[str, Any]) -> Cell:
    """Return the largest of its severities, the paper's below."""
    key = ("arm", "row", "part")
    mine = [
        scenario["slowdown"]
        for scenario in result["scenarios"]
        if all(scenario[name] == one[name] for name in key)
        and scenario["scenario"] != CRASH
        and scenario["slowdown"]
    ]
    worst = max(mine, key=lambda found: float(found["factor"]), default=None)
    paper = one["paper"]
    said = "" if paper is None else "paper none named"
    if paper is not None and paper.get("slowdown"):
        said = f"paper {factor(paper['slowdown'])}"
    return Cell(slowed(worst), about=said)


def _workload(one: Mapping[str, Any]) -> str:
    work = one["workload"]
    size = f" of {plain(work['size_kb'])} KB" if work.get("size_kb") else ""
    over = f" over {plain(work['keys'])}" if work.get("keys") else ""
    return f"{plain(one['count'])} {work['operation']}{size}{over}"


def _paper(one: Mapping[str, Any], key: str, unit: str = "") -> str:
    """Return the paper's verdict; nothing of a row that it has not."""
    return "" if one["paper"] is None else f"paper {plain(one['paper'][key])}{unit}"


def _verdict(ours: str, paper: str, agrees: bool | None) -> Cell:
    mark = {True: ", as here", False: ", not as here", None: ""}[agrees]
    return verdict_cell(ours, f"{paper}{mark}")


def scenario_table(result: Mapping[str, Any]) -> Table:
    """Return each scenario's slowdown with its interval, and what it led to."""
    rows = tuple(
        (
            named(f"{_name(result, one)}, {label(one['scenario'])}"),
            Cell(f"{number(one['base_s'])} s"),
            Cell(slowed(one["slowdown"]), about=bounds(one["slowdown"])),
            *(_verdict_of(one, name) for name in CLASSES),
            named(_notes(one)),
        )
        for one in result["scenarios"]
    )
    head = ("row and scenario", "base", "slowdown", "operation", "node", "cluster", "seen")
    return Table("scenario-table", "Every scenario", head, rows)


def resource_table(result: Mapping[str, Any], found: Sequence[Machine]) -> Table | None:
    """Of each row and machine, which resource ran out."""
    rows = tuple(
        (
            named(_name(result, {"arm": one.arm, "row": one.row, "part": one.part})),
            dataclasses.replace(named(one.label), about=", ".join(one.names)),
            Cell(one.words, numeric=False, mood="bad" if one.ran_out else ""),
        )
        for one in found
    )
    head = ("row", "machine", "what it came to while the part limped")
    return Table("resource-table", "Which resource ran out", head, rows) if rows else None


def _verdict_of(one: Mapping[str, Any], name: str) -> Cell:
    about = {
        "operation": one["reason"],
        "node": ", ".join(
            f"{node['node']}{_since(node['since'])}"
            for node in one["nodes"]
            if node["verdict"] == "yes"
        ),
        "cluster": ", ".join(one["scope"]),
    }[name]
    return verdict_cell(one[name], about)


def _since(since: Mapping[str, Any] | None) -> str:
    return f" after {milliseconds(1e3 * since['seconds'])}" if since else ""


def _notes(one: Mapping[str, Any]) -> str:
    down = [node["node"] for node in one["nodes"] if node["down"]]
    words = [f"{one['repeats']} repeats"]
    limit = f"{plain(one['timeout_factor'])} × the base"
    limit += f" or {HELD_S_MAX:g} s" if max(one["took_all_s"], default=0) >= HELD_S_MAX else ""
    limit = "the end of the watch" if one.get("endures") else limit
    words += [f"{one['cut']} cut short at {limit}"] if one["cut"] else []
    words += [f"{one['bases_cut']} bases cut short"] if one.get("bases_cut") else []
    words += [f"{number(one['errors'])} failed attempts"] if one["errors"] else []
    words += [f"parts moved in {one['moved']}"] if one["moved"] else []
    words += [f"started anew after {one['anew']}"] if one["anew"] else []
    words += [f"a service did not start again after {one['stuck']}"] if one.get("stuck") else []
    words += [f"begun cold in {one['cold']}"] if one.get("cold") else []
    words += [f"{one['bases_cold']} bases begun cold"] if one.get("bases_cold") else []
    words += [f"down: {', '.join(down)}"] if down else []
    words += _died(one.get("died_s") or ())
    words += [_dosed(one["dose"])] if one.get("dose") else []
    return "; ".join(words)


def _died(repeats: Sequence[Mapping[str, float]]) -> list[str]:
    """Describe the servers that ran out of memory, the times, and the number of repeats."""
    names = sorted({name for one in repeats for name in one})
    found = []
    for name in names:
        times = [one[name] for one in repeats if name in one]
        when = ", ".join(number(after_s) for after_s in times)
        found.append(f"{name} out of memory after {when} s in {len(times)}")
    return found


def _dosed(dose: Mapping[str, Any]) -> str:
    if dose["share"] is None:
        return f"unknown how much fills {dose['what']}"
    return f"{number(dose['share'])} of what fills {dose['what']}"


def stream_table(result: Mapping[str, Any]) -> Table | None:
    """Return the result of each probe."""
    rows = tuple(
        (
            named(f"{_name(result, one)}, {label(one['scenario'])}"),
            named(stream["node"]),
            named(stream["operation"]),
            named(stream["needs"]),
            Cell(slowed(stream["slowdown"]), about=bounds(stream["slowdown"])),
            verdict_cell(
                stream["verdict"],
                "; ".join(filter(None, [stream["reason"], "down" * stream["down"]])),
            ),
        )
        for one in result["scenarios"]
        for stream in one["streams"]
    )
    head = ("row and scenario", "node", "probe", "needs", "slowdown", "slow")
    return Table("stream-table", "Every stream of probes", head, rows) if rows else None


def print_result(result: Mapping[str, Any], console: Console, page: Path) -> None:
    """Both tables, the verdicts that failed, and the page's path."""
    title = f"{result['experiment']}, run {result['run']}"
    tables = (summary_table(result), scenario_table(result), zone_table(result.get("zones") or ()))
    for table in tables:
        if table and table.rows:
            print_table(_in_one(dataclasses.replace(table, caption=title)), console)
    print_table(remedy_lines(result.get("remedies") or ()), console)
    print_reasons(result["verdicts"], console)
    print_path(page, console)


def _in_one(table: Table) -> Table:
    """Return the text of a cell, with what stands below it on the page."""
    rows: Sequence[tuple[Cell, ...]] = [
        tuple(
            dataclasses.replace(
                cell, text=f"{cell.text} ({cell.about})" if cell.about else cell.text
            )
            for cell in row
        )
        for row in table.rows
    ]
    return dataclasses.replace(table, rows=tuple(rows))
