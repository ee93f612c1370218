"""The bench page says in words what was held against what, for all that bench files hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from experiments.nightly.bench import bench_tables
from experiments.paths import ROOT

RUNS = ROOT / "bench" / "runs"


def test_every_ratio_of_every_bench_file_stands_there_in_words(tmp_path: Path) -> None:
    for file in RUNS.glob("*.json"):
        folder = tmp_path / file.stem
        folder.mkdir()
        shutil.copy(file, folder)
        tables = bench_tables(folder)
        assert tables
        shown = [cell.text for table in tables for row in table.rows for cell in row]
        assert not [text for text in shown if "_" in text or "ratio" in text], file.name
        assert not [table.identity for table in tables if " " not in table.caption]


def test_figures_have_a_unit_and_sizes_are_in_order() -> None:
    http = next(one for one in bench_tables(RUNS) if one.identity == "bench-http")
    sizes = [int(row[0].text.split(",")[0]) for row in http.rows]
    assert sizes == sorted(sizes)
    assert len(http.rows) % 3 == 0
    assert len(http.rows) >= 3 * 8
    assert all(
        cell.text.endswith(" ×") or cell.text == "–" for row in http.rows for cell in row[1:]
    )


def test_what_nobody_wrote_words_for_is_not_lost_and_torn_files_are(tmp_path: Path) -> None:
    assert bench_tables(tmp_path) == []
    (tmp_path / "20260101T000000Z.json").write_text('{"http": {"1"')
    (tmp_path / "notes.json").write_text("{}")
    body = {"smtp": {"8": {"ratio_new": 2.0}}, "http": {"1": {"ratio": 1.5}}}
    (tmp_path / "20260102T030405Z.json").write_text(json.dumps(body))
    http, others = bench_tables(tmp_path)
    assert (others.identity, others.caption) == ("bench-smtp", "smtp")
    assert http.head[1:] == ("2026-01-02 03:04",)
    assert [cell.text for cell in others.rows[0]] == ["8, new", "2.00 ×"]
