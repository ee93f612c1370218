"""The summary on a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from experiments.metrics import summarize
from experiments.report import print_summary
from experiments.tests.report_fixture import FakeRun, fake_run


@pytest.fixture(scope="module")
def run() -> FakeRun:
    return fake_run(seed=4, measure_s=30.0)


def printed(summary: object, report: Path | None, width: int = 100) -> str:
    """What a terminal of that width shows."""
    out = io.StringIO()
    print_summary(summary, Console(file=out, width=width), report)  # type: ignore[arg-type]
    return out.getvalue()


def test_it_shows_both_arms_and_ends_with_the_whole_path(run: FakeRun) -> None:
    summary = summarize(
        run.requests, run.events, run.manifest, fingerprint_clean=True, plan=run.plan
    )
    path = Path("/somewhere/[red]/" + "long-" * 30 + "/report.html")
    text = printed(summary, path)
    assert text.endswith(f"Report: {path}\n")
    for word in ("baseline", "spare", "p99", "95 % interval", "$106.29", "valid: yes"):
        assert word in text


def test_doubtful_percentiles_carry_a_question_mark(run: FakeRun) -> None:
    summary = summarize(run.requests, run.events, run.manifest, fingerprint_clean=True)
    p99 = next(line for line in printed(summary, None).splitlines() if " p99 " in line)
    assert "?" in p99


def test_reasons_against_the_run_are_printed(run: FakeRun) -> None:
    summary = summarize(run.requests, [], run.manifest, fingerprint_clean=None)
    text = printed(summary, None)
    assert "valid: no" in text
    assert "fingerprints were not checked" in text


def test_an_empty_summary_prints_without_failing() -> None:
    assert printed({}, Path("r.html")).endswith("Report: r.html\n")
