"""The page of a run on an endpoint, and its summary on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
    latency_cells,
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
        blocks=block_table(body),
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
    """Return the service's URL, and the address to which its name was resolved."""
    target, address = body.get("target") or "", body.get("address") or ""
    text = target if address in target else f"{target} at {address}"
    return f"{text}, certificate not checked" if body.get("insecure") else text


def _spec_table(run: RunFolder) -> list[tuple[str, str]]:
    slo = dict(run.spec.get("slo") or {})
    slo.pop("availability", None)  # not measured; the default is there if none was asked for
    without_availability = replace(run, manifest={**run.manifest, "spec": {**run.spec, "slo": slo}})
    rows = [
        row
        for row in spec_rows(without_availability)
        if row[0] in _SPEC_ROWS or row[0].startswith("user ")
    ]
    return [("service", address_words(run.summary)), *rows]


def block_table(body: Mapping[str, Any]) -> Table | None:
    parts = [("all blocks", figures) for figures in (body.get("arms") or {}).values()]
    blocks = body.get("blocks") or []
    if len(blocks) > 1:
        parts += [(f"block {figures['repeat'] + 1}", figures) for figures in blocks]
    rows = tuple(
        (
            named(name),
            Cell(number(figures["requests"])),
            Cell(f"{number(figures['errors'])} ({percent(figures['error_share'])})"),
            Cell(number(figures["goodput_per_s"])),
            *latency_cells(figures, *_QUANTILES),
            Cell(milliseconds(figures["lag_ms_p99"])),
        )
        for name, figures in parts
    )
    head = ("", "requests", "errors", "ok per s", *_QUANTILES, "sent late, p99")
    return Table("blocks-table", "Figures, warm-up left out", head, rows) if rows else None


def print_result(_: Mapping[str, Any], console: Console, page: Path) -> None:
    """Print figures, operations, verdict and what was not measured; the page's path comes last."""
    run = read_folder(page.parent)
    tables = [slo_table(run), block_table(run.summary), stage_table(run), *operation_tables(run)]
    for table in tables:
        print_table(table, console)
    print_reasons(run.summary.get("verdicts") or {}, console)
    for note in slo_notes(run):
        console.print(note, markup=False, highlight=False)
    load = (run.summary.get("load") or {}).get("blocks") or ()
    if sentence := load_words(load):
        console.print(sentence, markup=False, highlight=False)
    console.print(verdict(run), style="bold", markup=False, highlight=False)
    if run.summary.get("insecure"):
        console.print("Certificates were not checked.", style="yellow")
    console.print(run.summary.get("not_measured") or "", markup=False, highlight=False)
    print_path(page, console)
