"""Runs of more than two arms: figures, table and page; what each step of a chain brought."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.kinds.compare.folder import RunFolder, read_folder
from experiments.kinds.compare.headline import headline, is_a_chain
from experiments.kinds.compare.page import write_page
from experiments.kinds.compare.steps import (
    closing_lines,
    main_sentence,
    requests_to_servers,
    steps_table,
)
from experiments.kinds.compare.verdict import verdict
from experiments.record.metrics.summary import summarize_run
from experiments.tests.report_fixture import fake_run


def settings(policy: str, web: int, **web_settings: Any) -> dict[str, Any]:
    return {"settings": {"web": {"policy": policy, "replicas": web, **web_settings},
                         "db": {"policy": policy, "replicas": 1}}}  # fmt: skip


CHAIN = {"baseline": settings("round-robin", 1), "replicated": settings("tad", 1, tokens=3),
         "copied": settings("tad", 2, tokens=3)}  # fmt: skip


def three_arms(folder: Path, last_settings: dict[str, Any]) -> Path:
    """A run; its third arm has these settings and the second one's requests at half the latency."""
    run = fake_run(seed=4, measure_s=20.0, rate_per_s=6.0)
    second_requests = run.requests.filter(pl.col("arm") == "replicated")
    latency_ms = pl.col("latency_ms") / 2.0
    third_requests = second_requests.with_columns(
        pl.lit("copied").alias("arm"),
        done_s=pl.col("intended_s") + latency_ms / 1000.0,
        latency_ms=latency_ms,
    )
    run.requests = pl.concat([run.requests, third_requests])
    run.manifest["spec"]["arms"] = {**CHAIN, "copied": last_settings}
    run.hosts = run.hosts.head(0)
    return run.write(folder)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_arms(tmp_path_factory.mktemp("chain"), CHAIN["copied"])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A third arm that differs from the second one in two things."""
    return three_arms(tmp_path_factory.mktemp("both"), settings("hedge", 2))


def test_every_arm_is_compared_with_the_baseline(chain: Path) -> None:
    summary = summarize_run(chain).body
    assert list(summary["comparison"]) == ["replicated", "copied"]
    for name, entry in summary["comparison"]["replicated"].items():
        assert entry["factor"] == summary["improvement"][name]["factor"]
        copied_entry = summary["comparison"]["copied"][name]
        assert copied_entry["factor"] == pytest.approx(2 * entry["factor"])


def test_two_arms_have_no_comparison_beside_their_improvement(tmp_path: Path) -> None:
    folder = fake_run(seed=4, measure_s=20.0, rate_per_s=4.0).write(tmp_path)
    assert summarize_run(folder).body["comparison"] == {}
    assert "comparison-table" not in write_page(folder).read_text()


def test_the_page_shows_every_arm_with_its_policy_and_what_it_sent_twice(both: Path) -> None:
    page = write_page(both).read_text()
    table = page[page.index('id="comparison-table"') :]
    table = table[: table.index("</table>")]
    for text in ("baseline", "replicated", "copied", "hedge", "2, "):
        assert text in table
    assert '<figure id="comparison"' in page
    assert "With copied, " in page
    assert "the best p95 of 3 arms" in page
    assert "improvement-table" not in page


def test_each_neighbour_is_compared_that_differs_in_one_thing(chain: Path, both: Path) -> None:
    body = summarize_run(chain).body
    first_step, second_step = body["steps"]
    assert [(step["base"], step["arm"], step["thing"]) for step in (first_step, second_step)] == [
        ("baseline", "replicated", "choice"), ("replicated", "copied", "copies"),
    ]  # fmt: skip
    assert first_step["factors"] == body["comparison"]["replicated"]
    assert second_step["factors"]["p95"]["factor"] == pytest.approx(2.0)
    assert is_a_chain(body)
    body = summarize_run(both).body
    assert [step["arm"] for step in body["steps"]] == ["replicated"]
    assert not is_a_chain(body)


def test_the_page_begins_with_what_each_step_brought(chain: Path) -> None:
    page, run = write_page(chain).read_text(), read_folder(chain)
    sentence = main_sentence(run)
    assert sentence.index("(replicated)") < sentence.index("(copied)")
    assert closing_lines(run) == [verdict(run)]
    assert 'id="steps-table"' in page
    assert 'id="gain-table"' not in page


def test_a_step_is_undecided_where_its_interval_contains_1() -> None:
    run = made({"p95": (9.71, 5.27, 17.9), "p99": (2.4, 0.9, 6.0)})
    sentence = main_sentence(run)
    assert "p95 9.71 × lower (5.27 to 17.9)" in sentence
    assert "p99 undecided (0.900 to 6.00)" in sentence
    slower_sentence = main_sentence(made({"p95": (0.5, 0.25, 0.8), "p99": (2.4, 0.9, 6.0)}))
    assert "p95 2.00 × higher (1.25 to 4.00)" in slower_sentence


def test_a_percentile_with_too_few_requests_beyond_it_says_nothing_of_a_step() -> None:
    run = made({"p95": (9.71, 5.27, 17.9), "p99": (4.12, 1.12, 15.1)})
    for step in run.summary["steps"]:
        step["factors"]["p99"] = {**step["factors"]["p99"], "insufficient": True}
    assert "4.12" not in main_sentence(run)
    table = steps_table(run)
    assert table is not None
    by_name = {row[0].text: row[1] for row in table.rows}
    assert (by_name["p95"].mood, by_name["p99"].mood) == ("good", "")
    assert by_name["p99"].doubtful


def test_a_step_has_its_work_beside_it() -> None:
    run = made({"p95": (2.0, 1.5, 3.0)})
    assert requests_to_servers(run, "copied") == {"web": 2.0, "db": 20.0}
    table = steps_table(run)
    assert table is not None
    assert [cell.text for cell in table.rows[-1][1:]] == ["1.00 ×", "2.00 ×"]


def test_a_chain_speaks_of_its_first_step_and_not_of_the_best_arm() -> None:
    body = made({"p95": (2.0, 1.5, 3.0)}).summary
    body["improvement"] = {"p95": {"factor": 2.0}}
    body["comparison"] = {"chosen": body["improvement"], "copied": {"p95": {"factor": 9.0}}}
    assert headline("baseline", "chosen", body)[1] == "chosen"
    assert headline("baseline", "chosen", {**body, "steps": []})[1] == "copied"


def test_a_run_that_is_not_valid_says_nothing_of_steps() -> None:
    run = made({"p95": (2.0, 1.5, 3.0)})
    run.summary |= {"valid": False, "verdicts": {"measurement": {"ok": False, "reasons": []}}}
    assert main_sentence(run) == verdict(run)


def made(factors: dict[str, tuple[float, float, float]]) -> RunFolder:
    """A valid run of three arms; both steps have these factors, the last doubles the work."""
    entries = {
        name: {"factor": factor, "ci_low": low, "ci_high": high, "insufficient": False}
        for name, (factor, low, high) in factors.items()
    }
    arms = ("baseline", "chosen", "copied")
    return RunFolder(
        Path("results"),
        manifest={"spec": {"fleet": {"tiers": {"web": {"calls": ["db"]}, "db": {}}}}},
        summary={
            "valid": True,
            "slo": None,
            "arms": {arm: {"requests": 100} for arm in arms},
            "replication": {
                arm: {
                    "db": {"received": 1000 * copies, "replicas_sent": 1000 * copies},
                    "web": {"received": 100, "replicas_sent": 100 * copies},
                }
                for arm, copies in zip(arms, (1, 1, 2), strict=True)
            },
            "steps": [
                {"base": "baseline", "arm": "chosen", "thing": "choice", "factors": entries},
                {"base": "chosen", "arm": "copied", "thing": "copies", "factors": entries},
            ],
        },
        arms=list(arms),
    )
