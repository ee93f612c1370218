"""Bit flips: a seed draws them, a journal keeps them, a run resumes from it; Wilson's intervals."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from experiments.kinds.bitflips.analysis import planner_outcomes, price_rows, row_of, wilson
from experiments.kinds.bitflips.build import Built
from experiments.kinds.bitflips.figures import outcome_figure
from experiments.kinds.bitflips.inject import OUTCOMES, Golden, draw_flip, outcome_of
from experiments.kinds.bitflips.measure import Journal, journal_name
from experiments.kinds.bitflips.record import FlipReport
from experiments.kinds.bitflips.section import BitflipsSection
from experiments.kinds.bitflips.service_run import RunEnd
from experiments.kinds.bitflips.tables import transactions_table


def told(*, fired: bool = True, corrected: int = 0) -> FlipReport:
    return FlipReport(0, fired, corrected, 3, 7, "master", 32, "f", "add")


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [
        (0, 0, 0.0, 1.0),
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
    ],
)
def test_wilson_gives_the_published_intervals(hits: int, of: int, low: float, high: float) -> None:
    assert wilson(hits, of) == pytest.approx((low, high), abs=1e-4)


def test_a_draw_is_the_seeds_alone_and_uniform() -> None:
    draws = [draw_flip(5, "p", "ilr", number, 10) for number in range(2000)]
    assert draws == [draw_flip(5, "p", "ilr", number, 10) for number in range(2000)]
    assert draws != [draw_flip(6, "p", "ilr", number, 10) for number in range(2000)]
    counts = Counter(index for index, _ in draws)
    assert set(counts) == set(range(10))
    assert max(counts.values()) < 2 * min(counts.values())


@pytest.mark.parametrize(
    ("status", "output", "what", "outcome"),
    [(0, b"right", told(), "correct"), (0, b"right", told(corrected=1), "corrected"),
     (0, b"wrong", told(), "silent"), (0, b"wrong", told(corrected=1), "silent"),
     (97, b"", told(), "detected"), (1, b"right", told(), "crash"), (-11, b"", told(), "crash"),
     (-24, b"", told(), "hang"), (None, b"", told(), "hang"),
     (0, b"right", told(fired=False), "missed")],
)  # fmt: skip
def test_an_outcome_is_told_by_status_and_output(
    status: int | None, output: bytes, what: FlipReport, outcome: str
) -> None:
    assert outcome_of(RunEnd(status, output, what), Golden(b"right", 10, 0.0)) == outcome


def test_for_the_planner_a_stop_is_a_crash_and_the_rest_is_masked() -> None:
    outcomes = [*OUTCOMES, "missed", "silent", "correct"]
    lines: Any = [{"outcome": outcome, "stream": "master"} for outcome in outcomes]
    row = row_of("p", "ilr", lines)
    assert (row["injections"], row["missed"]) == (8, 1)
    assert {name: share["p"] for name, share in planner_outcomes(row).items()} == {
        "corrupt": 2 / 8, "crash": 3 / 8, "retry": 1 / 8,
    }  # fmt: skip


def test_a_line_that_was_cut_short_is_left_out_and_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"number": 0}\n{"number": 1}\n{"num')
    journal = Journal(path)
    assert [line["number"] for line in journal.lines()] == [0, 1]
    journal.append({"number": 2})  # type: ignore[typeddict-item]
    journal.close()
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == [0, 1, 2]


def test_a_journal_is_of_one_program_seed_and_set_of_limits(tmp_path: Path) -> None:
    executable = tmp_path / "p"
    executable.write_bytes(b"program")
    program = Built("p", "native", executable, executable)

    def name(seed: int = 1, output: bytes = b"right", **limits: Any) -> str:
        section = BitflipsSection(programs=("p",), **limits)
        return journal_name(program, Golden(output, 10, 0.1), seed, section)

    assert name() == name(injections=9, workers=1, price_rounds=1), "these decide no outcome"
    other_names = [name(2), name(output=b"other"), name(bits=2), name(cpu_s=2), name(wall_s=9.0),
                   name(memory_mb=64), name(output_mb=1)]  # fmt: skip
    assert len({name(), *other_names}) == 1 + len(other_names)


def test_transactions_of_all_repeats_are_shown_as_aborts_of_a_million() -> None:
    prices: Any = [
        {"program": "kmeans", "variant": "tx", "repeat": repeat, "cpu_s": 1.0,
         "transactions": {"begun": 500_000, "difference": 0, "conflict": 3, "capacity": 0,
                          "other": 40}}
        for repeat in range(2)
    ] + [{"program": "kmeans", "variant": "ilr", "repeat": 0, "cpu_s": 1.0}]  # fmt: skip
    rows = price_rows(prices)
    assert [row["transactions"] for row in rows] == [
        {"begun": 1_000_000, "difference": 0, "conflict": 6, "capacity": 0, "other": 80}, None,
    ]  # fmt: skip
    table = transactions_table(rows)
    assert table is not None
    assert [cell.text for cell in table.rows[0]] == ["kmeans", "tx", "1,000,000", "6", "0", "0",
                                                     "80"]  # fmt: skip
    assert transactions_table(rows[1:]) is None


def test_a_figure_says_which_program_it_is_of() -> None:
    line: Any = {"outcome": "silent", "stream": "master"}
    rows: Any = [row_of("kmeans", variant, [line]) for variant in ("native", "ilr")]
    figure = outcome_figure("program-0", "kmeans", rows)
    assert figure.caption.startswith("kmeans")
