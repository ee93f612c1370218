"""The page of a run whose machines fail: a comparison's, with a section on fail-over."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.kinds.compare import page as compare
from experiments.kinds.compare import terminal
from experiments.kinds.compare.folder import read_folder
from experiments.kinds.schemes.figures import failover_figure, strength_figure
from experiments.kinds.schemes.tables import section_values, strength_sentence, strength_table
from experiments.report.shell import render_page, save_page
from experiments.report.terminal import print_table


def write_page(folder: Path) -> Path:
    """Write report.html and return its path; the page has a note for each missing part."""
    run = read_folder(folder)
    values = compare.page_values(run)
    strength = run.summary.get("strength")
    if not strength:
        return compare.write_page(folder)
    if len(run.arms) == 1 and run.summary["valid"]:
        values["said"][0] = strength_sentence(strength)
    values["schemes"] = {
        **section_values(run),
        "members": strength_figure(run),
        "failovers": failover_figure(run),
    }
    folders = [Path(__file__).parent, compare.FOLDER]
    return save_page(folder, render_page("schemes.html.j2", folders, **values))


def print_result(result: Mapping[str, Any], console: Console, page: Path) -> None:
    """Print time at full strength, then the summary of a comparison."""
    print_table(strength_table(result), console)
    terminal.print_result(result, console, page)
