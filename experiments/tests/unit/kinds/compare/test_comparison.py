"""Runs of more than two arms: figures, table and page."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from experiments.kinds.compare.figures import all_figures
from experiments.kinds.compare.folder import RunFolder, read_folder
from experiments.kinds.compare.page import write_report
from experiments.record.metrics.summary import summarize_run
from experiments.tests.report_fixture import FakeRun, fake_run


def with_a_third_arm(run: FakeRun) -> FakeRun:
    """`replicated` once more, twice as fast: its factors are known from those of `replicated`."""
    replicated = run.requests.filter(pl.col("arm") == "replicated")
    latency_ms = pl.col("latency_ms") / 2.0
    done_s = pl.col("intended_s") + latency_ms / 1000.0
    twice = replicated.with_columns(
        pl.lit("twice").alias("arm"), done_s=done_s, latency_ms=latency_ms
    )
    run.requests = pl.concat([run.requests, twice])
    arms = run.manifest["spec"]["arms"]
    web = arms["replicated"]["settings"]["web"]
    arms["twice"] = {"settings": {"web": {**web, "policy": "hedge"}}}
    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = with_a_third_arm(fake_run(seed=4, measure_s=20.0, rate_per_s=6.0))
    run.hosts = run.hosts.head(0)
    return run.write(tmp_path_factory.mktemp("three"))


def test_every_arm_is_compared_with_the_baseline(folder: Path) -> None:
    summary = summarize_run(folder).body
    assert list(summary["comparison"]) == ["replicated", "twice"]
    for name, entry in summary["comparison"]["replicated"].items():
        assert entry["factor"] == summary["improvement"][name]["factor"]
        assert summary["comparison"]["twice"][name]["factor"] == pytest.approx(2 * entry["factor"])


def test_two_arms_have_no_comparison_beside_their_improvement(tmp_path: Path) -> None:
    folder = fake_run(seed=4, measure_s=20.0, rate_per_s=4.0).write(tmp_path)
    assert summarize_run(folder).body["comparison"] == {}
    assert "comparison-table" not in write_report(folder).read_text()


def test_the_page_shows_every_arm_with_its_policy_and_what_it_sent_twice(folder: Path) -> None:
    page = write_report(folder).read_text()
    table = page[page.index('id="comparison-table"') :]
    table = table[: table.index("</table>")]
    for text in ("baseline", "replicated", "twice", "hedge", "2, "):
        assert text in table
    assert '<figure id="comparison"' in page
    assert "With twice, " in page
    assert "the best p95 of 3 arms" in page
    assert "improvement-table" not in page


def test_the_figure_of_two_of_many_arms_says_which_they_are(folder: Path) -> None:
    """A page has it where an older result has no `comparison`."""
    run = read_folder(folder)
    improvement = run.summary["improvement"]
    three = RunFolder(folder, summary={"improvement": improvement}, arms=run.arms)
    assert "Left of 1 replicated is slower." in all_figures(three)["improvement"].caption
    two = RunFolder(folder, summary={"improvement": improvement}, arms=run.arms[:2])
    assert "Left of 1 the other arm is slower." in all_figures(two)["improvement"].caption
