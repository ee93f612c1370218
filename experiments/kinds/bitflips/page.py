"""The page of a bit-flips run, and its summary on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.kinds.bitflips import tables
from experiments.kinds.bitflips.analysis import speed_of
from experiments.kinds.bitflips.figures import outcome_figure
from experiments.record.result import flat
from experiments.report.shell import render_run, save_page
from experiments.report.terminal import print_path, print_reasons, print_table
from experiments.report.text import percent

_QUESTIONS = {"measurement": "All injections?", "cleanup": "Cleaned up?"}


def write_page(folder: Path) -> Path:
    manifest, result = manifest_if_any(folder), flat(read_result(folder))
    programs = list(dict.fromkeys(row["program"] for row in result["rows"]))
    html = render_run(
        Path(__file__).with_name("bitflips.html.j2"),
        result,
        manifest,
        headline(result),
        _QUESTIONS,
        pooled=outcome_figure("pooled", "All programs", result["pooled"]),
        pooled_table=tables.outcome_table("pooled-table", "All programs", result["pooled"]),
        paper=tables.paper_table(result),
        programs=[
            outcome_figure(
                f"program-{index}",
                program,
                [row for row in result["rows"] if row["program"] == program],
            )
            for index, program in enumerate(programs)
        ],
        every=tables.outcome_table("every", "Each program", result["rows"]),
        silent=[
            table
            for variant, origins in result["silent"].items()
            if (table := tables.silent_table(variant, origins)) is not None
        ],
        wrong_answers=tables.answers_table(result.get("answers", [])),
        price=tables.price_table(result["price"]) if result["price"] else None,
        rates=tables.rate_table(result["price"]),
        transactions=tables.transactions_table(result["price"]),
        no_transactions="tx" in result["asked"]["variants"],
    )
    return save_page(folder, html)


def headline(result: Mapping[str, Any]) -> str:
    """Silent corruptions and the price, a sentence for each variant."""
    sentences = []
    for row in result["pooled"]:
        reach = tables.bounds(row["intervals"]["silent"])
        sentence = f"{row['variant']}: {percent(row['shares']['silent'])} silent ({reach})"
        speed = speed_of(result["price"], row["variant"])
        if speed is not None and row["variant"] != "native":
            sentence += f", {percent(speed)} of native's speed"
        sentences.append(f"{sentence}.")
    return " ".join(sentences)


def print_result(result: Mapping[str, Any], console: Console, page: Path) -> None:
    print_table(tables.outcome_table("pooled", "All programs", result["pooled"]), console)
    print_table(tables.paper_table(result), console)
    print_reasons(result["verdicts"], console)
    print_path(page, console)
