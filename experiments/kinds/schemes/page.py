"""The page of a run whose machines fail: a comparison's, with a section on fail-over."""

from __future__ import annotations

from pathlib import Path

from experiments.kinds.compare import page as compare
from experiments.kinds.compare.folder import read_folder
from experiments.kinds.schemes.figures import failover_figure, strength_figure
from experiments.kinds.schemes.tables import scheme_words, strength_sentence
from experiments.report.shell import render_page, save_page


def write_page(folder: Path) -> Path:
    """Write report.html and return its path; what is missing is a note on it."""
    run = read_folder(folder)
    values = compare.page_values(run)
    found = run.summary.get("strength")
    if not found:
        return compare.write_report(folder)
    if len(run.arms) == 1 and run.summary["valid"]:
        values["said"][0] = strength_sentence(found)
    values["schemes"] = {
        **scheme_words(run),
        "members": strength_figure(run),
        "failovers": failover_figure(run),
    }
    folders = [Path(__file__).parent, compare.FOLDER]
    return save_page(folder, render_page("schemes.html.j2", folders, **values))
