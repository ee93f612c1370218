"""The page of a run on an endpoint, and its summary on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.kinds.compare import page as compare
from experiments.kinds.compare.figures import all_figures
from experiments.kinds.compare.figures_rate import rate_figure
from experiments.kinds.compare.folder import RunFolder, read_folder
from experiments.kinds.compare.host import host_table, host_words, load_table, load_words
from experiments.kinds.compare.spec_summary import spec_rows
from experiments.kinds.compare.tables import (
    arm_tables,
    facts_to_repeat,
    operation_tables,
    stage_table,
)
from experiments.kinds.compare.verdict import slo_notes, slo_table, verdict
from experiments.record.result import validity
from experiments.report.shell import chips, render_page, save_page
from experiments.report.tables import Cell, Table, named
from experiments.report.terminal import print_path, print_reasons, print_table
from experiments.report.text import milliseconds, number, percent

_QUESTIONS = {"measurement": "Measured as asked?"}
_SPEC_ROWS = ("load", "certificates", "load sent by", "phases", "SLO", "design")
_QUANTILES = ("p50", "p95", "p99")


def write_page(folder: Path) -> Path:
    """Write report.html from a run's files, whole or not at all."""
    run = read_folder(folder)
    figures = all_figures(run)
    body = run.summary
    load, host = (body.get("load") or {}).get("blocks") or [], body.get("host_blocks") or []
    html = render_page(
        "endpoint.html.j2",
        [Path(__file__).parent, compare.FOLDER],
        name=str(body.get("experiment") or folder.name),
        run=run,
        when=str(run.manifest.get("started_at") or ""),
        about=address_words(body),
        headline=verdict(run),
        validity=validity(body) if "valid" in body else "",
        verdicts=chips(body.get("verdicts") or {}, _QUESTIONS),
        slo=slo_table(run),
        slo_notes=slo_notes(run),
        whole=whole_table(body),
        rate=rate_figure(run),
        stages=stage_table(run),
        over_time=figures["over-time"],
        tail=figures["tail"],
        operations=operation_tables(run),
        asked=_spec_table(run),
        arms=arm_tables(body.get("arms") or {}),
        folded=[(host_words(host), host_table(host)), (load_words(load), load_table(load))],
        repeat=facts_to_repeat(run),
    )
    return save_page(folder, html)


def address_words(body: Mapping[str, Any]) -> str:
    """Return the service, and where its name led to."""
    target, address = body.get("target") or "", body.get("address") or ""
    words = target if address in target else f"{target} at {address}"
    return f"{words}, certificate not checked" if body.get("insecure") else words


def _spec_table(run: RunFolder) -> list[tuple[str, str]]:
    rows = [row for row in spec_rows(run) if row[0] in _SPEC_ROWS or row[0].startswith("user ")]
    return [("service", address_words(run.summary)), *rows]


def whole_table(body: Mapping[str, Any]) -> Table | None:
    """Return the run and each of its blocks: count, errors, rate and percentiles."""
    parts = [("all blocks", one) for one in (body.get("arms") or {}).values()]
    blocks = body.get("blocks") or []
    if len(blocks) > 1:
        parts += [(f"block {one['repeat'] + 1}", one) for one in blocks]
    rows = tuple(
        (
            named(name),
            Cell(number(one["requests"])),
            Cell(f"{number(one['errors'])} ({percent(one['error_share'])})"),
            Cell(number(one["goodput_per_s"])),
            *(
                Cell(milliseconds(one[f"{key}_ms"]), key in one["insufficient"])
                for key in _QUANTILES
            ),
            Cell(milliseconds(one["lag_ms_p99"])),
        )
        for name, one in parts
    )
    head = ("", "requests", "errors", "ok per s", *_QUANTILES, "sent late, p99")
    return Table("blocks-table", "Figures, warm-up left out", head, rows) if rows else None


def print_result(folder: Path, console: Console, page: Path) -> None:
    """Figures, operations, verdict, what was not measured; the last line is the page's path."""
    run = read_folder(folder)
    tables = [slo_table(run), whole_table(run.summary), stage_table(run), *operation_tables(run)]
    for table in tables:
        print_table(table, console)
    print_reasons(run.summary.get("verdicts") or {}, console)
    for note in slo_notes(run):
        console.print(note, markup=False, highlight=False)
    load = (run.summary.get("load") or {}).get("blocks") or ()
    if words := load_words(load):
        console.print(words, markup=False, highlight=False)
    console.print(verdict(run), style="bold", markup=False, highlight=False)
    if run.summary.get("insecure"):
        console.print("Certificates were not checked.", style="yellow")
    console.print(run.summary.get("not_measured") or "", markup=False, highlight=False)
    print_path(page, console)
