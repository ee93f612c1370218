"""Arms that each differ from the one before in one thing: what each step brought, at what work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.kinds.compare.folder import RunFolder, read_folder
from experiments.kinds.compare.headline import headline, is_a_chain
from experiments.kinds.compare.page import write_report
from experiments.kinds.compare.steps import (
    closing_lines,
    main_sentence,
    requests_to_servers,
    steps_table,
)
from experiments.kinds.compare.verdict import verdict
from experiments.record.metrics.summary import summarize_run
from experiments.tests.report_fixture import fake_run

pytestmark = pytest.mark.usefixtures("few_draws")


def settings(policy: str, web: int, **more: Any) -> dict[str, Any]:
    return {"settings": {"web": {"policy": policy, "replicas": web, **more},
                         "db": {"policy": policy, "replicas": 1}}}  # fmt: skip


CHAIN = {
    "baseline": settings("round-robin", 1),
    "replicated": settings("tad", 1, tokens=3),
    "copied": settings("tad", 2, tokens=3),
}


def three_arms(folder: Path, arms: dict[str, Any]) -> Path:
    """A run whose third arm is the second one's requests, twice as fast."""
    run = fake_run(seed=4, measure_s=20.0, rate_per_s=6.0)
    second = run.requests.filter(pl.col("arm") == "replicated")
    latency_ms = pl.col("latency_ms") / 2.0
    third = second.with_columns(
        pl.lit("copied").alias("arm"),
        done_s=pl.col("intended_s") + latency_ms / 1000.0,
        latency_ms=latency_ms,
    )
    run.requests = pl.concat([run.requests, third])
    run.manifest["spec"]["arms"] = arms
    run.hosts = run.hosts.head(0)
    return run.write(folder)


def test_each_neighbour_is_compared_that_differs_in_one_thing(tmp_path: Path) -> None:
    body = summarize_run(three_arms(tmp_path, CHAIN)).body
    first, second = body["steps"]
    assert [(one["base"], one["arm"], one["thing"]) for one in (first, second)] == [
        ("baseline", "replicated", "choice"), ("replicated", "copied", "copies"),
    ]  # fmt: skip
    assert first["factors"] == body["comparison"]["replicated"]
    assert second["factors"]["p95"]["factor"] == pytest.approx(2.0)
    assert is_a_chain(body)


def test_arms_that_differ_in_two_things_are_no_step(tmp_path: Path) -> None:
    both = {**CHAIN, "copied": settings("hedge", 2)}
    body = summarize_run(three_arms(tmp_path, both)).body
    assert [one["arm"] for one in body["steps"]] == ["replicated"]
    assert not is_a_chain(body)


def test_the_page_begins_with_what_each_step_brought(tmp_path: Path) -> None:
    folder = three_arms(tmp_path, CHAIN)
    page, run = write_report(folder).read_text(), read_folder(folder)
    said = main_sentence(run)
    assert said.index("(replicated)") < said.index("(copied)")
    assert closing_lines(run) == [verdict(run)]
    assert 'id="steps-table"' in page
    assert 'id="gain-table"' not in page


def test_a_step_is_undecided_where_its_interval_contains_1() -> None:
    run = made({"p95": (9.71, 5.27, 17.9), "p99": (2.4, 0.9, 6.0)})
    said = main_sentence(run)
    assert "p95 9.71 × lower (5.27 to 17.9)" in said
    assert "p99 undecided (0.900 to 6.00)" in said
    worse = main_sentence(made({"p95": (0.5, 0.25, 0.8), "p99": (2.4, 0.9, 6.0)}))
    assert "p95 2.00 × higher (1.25 to 4.00)" in worse


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
    """A valid run of three arms whose two steps have these factors, with twice the work at last."""
    found = {
        name: {"factor": times, "ci_low": low, "ci_high": high, "insufficient": False}
        for name, (times, low, high) in factors.items()
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
                    "db": {"received": 1000 * r, "replicas_sent": 1000 * r},
                    "web": {"received": 100, "replicas_sent": 100 * r},
                }
                for arm, r in zip(arms, (1, 1, 2), strict=True)
            },
            "steps": [
                {"base": "baseline", "arm": "chosen", "thing": "choice", "factors": found},
                {"base": "chosen", "arm": "copied", "thing": "copies", "factors": found},
            ],
        },
        arms=list(arms),
    )
