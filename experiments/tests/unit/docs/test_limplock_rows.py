"""Limplock's rows as they stand: which run counts, and that the front page says so."""

from __future__ import annotations

import re

import pytest

from docs.limplock import DATA, dosed, made, short, standing, table, with_part
from experiments.kinds.limplock.row import rows
from experiments.paths import ROOT

KNOWN = rows()


def run(when: str, *lines: str) -> str:
    said = ", ".join(lines)
    return f'[[runs]]\nwhen = {when}\ncommit = "abc"\nrows = [{said}]\n'


def line(row: str, operation: str, *, part: str = "", more: str = "") -> str:
    said = f'["{operation}", "no", "insufficient"]'
    return f'{{ row = "{row}", part = "{part}", age = "today", said = {said}{more} }}'


def test_the_newest_run_of_a_row_counts_though_an_older_one_said_yes() -> None:
    newer = run("2026-11-28T03:09:00Z", line("B1", "insufficient"))
    older = run("2026-11-24T08:59:00Z", line("B1", "yes"))
    for text in (newer + older, older + newer):
        found = standing(text, KNOWN)["B1", "today"]
        assert found.verdicts == ("insufficient", "no", "insufficient")
        assert found.when.day == 28


def test_parts_of_a_row_are_one_row() -> None:
    text = run("2026-11-27T03:17:00Z", line("F9", "insufficient", part="source"),
               line("F9", "yes", part="destination"))  # fmt: skip
    assert standing(text, KNOWN)["F9", "today"].verdicts == ("yes", "no", "insufficient")


def test_what_a_run_could_not_fill_is_under_dosed_whatever_it_said() -> None:
    assert dosed(KNOWN["Z5"], ["no", "yes", "insufficient"], 30.0, 62.0) == (
        "under-dosed", "yes", "under-dosed",
    )  # fmt: skip
    assert dosed(KNOWN["Z5"], ["no", "no", "no"], 120.0, 62.0) == ("no", "no", "no")
    assert dosed(KNOWN["F8"], ["no", "no", "no"], 2.0, 6.0) == ("no", "under-dosed", "under-dosed")
    with pytest.raises(ValueError, match="Z5"):
        dosed(KNOWN["Z5"], ["no", "no", "no"], None, None)


def test_the_pages_have_the_counts_of_the_runs_that_count() -> None:
    counts = short(standing(DATA.read_text(encoding="utf-8"), KNOWN), KNOWN)
    locked_up = re.sub(r"/[\d/]+", "", counts)
    assert locked_up in (ROOT / "README.md").read_text(encoding="utf-8")
    assert counts in (ROOT / "docs/results/README.md").read_text(encoding="utf-8")


def test_the_table_has_every_row_of_the_paper_with_its_slowdown() -> None:
    found = standing(DATA.read_text(encoding="utf-8"), KNOWN)
    cells = [row.split(" | ") for row in table(found, KNOWN).splitlines()[2:]]
    assert len(cells) == 28
    slower = {one[0].split()[1]: one[2] for one in cells if one[2]}
    assert slower == {"F4": "233 ×", "F8": "309 ×", "H4": "172 ×", "Z5": "30 ×", "C1": "2 ×",
                      "B4": "620 ×"}  # fmt: skip


def test_the_page_is_what_is_made_of_its_data() -> None:
    assert made() == (ROOT / "docs/results/limplock.md").read_text(encoding="utf-8")


def test_a_part_is_put_between_its_marks_and_nowhere_else() -> None:
    assert with_part("a <!-- x -->old<!-- /x --> b", "x", "new") == "a <!-- x -->new<!-- /x --> b"
    with pytest.raises(ValueError, match="x"):
        with_part("no marks", "x", "new")
