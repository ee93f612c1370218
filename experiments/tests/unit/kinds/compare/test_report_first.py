"""The first screen of a comparison's report: verdict, SLO, gain, cost, this run among others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.kinds.compare.cost import cost_sentence, cost_table, work_words
from experiments.kinds.compare.folder import RunFolder, read_folder
from experiments.kinds.compare.summary import (
    compare_with_previous,
    previous_factors,
    summary_lines,
)
from experiments.kinds.compare.tables import comparison_table, simulated_table
from experiments.kinds.compare.verdict import gain, gain_table, slo_notes, slo_table, verdict
from experiments.record.cost import tier_machines
from experiments.record.records import write_json
from experiments.tests.report_fixture import FakeRun, fake_run

SLO = {"p95_ms": 500.0, "p99_ms": 1000.0, "max_error_share": 0.01, "preregistered": False}


def tier(policy: str, replicas: int, **settings: Any) -> dict[str, Any]:
    return {"policy": policy, "replicas": replicas, **settings}


def judged(
    settings: dict[str, dict[str, Any]], met: list[bool | None], **summary: Any
) -> RunFolder:
    """A run of these arms' settings, of which each met its SLO or not."""
    answers: dict[str, Any] = {
        arm: {"met": answer, "reasons": []} for arm, answer in zip(settings, met, strict=True)
    }
    return RunFolder(
        Path("results"),
        manifest={
            "spec": {"arms": {arm: {"settings": setting} for arm, setting in settings.items()}}
        },
        summary={"valid": True, "slo": {"asked": SLO, "arms": answers}, **summary},
        arms=list(settings),
    )


COPIES = {"baseline": {"web": tier("tad", 1)}, "replicated": {"web": tier("tad", 2)}}
BOTH = {"baseline": {"web": tier("round-robin", 1)}, "replicated": {"web": tier("tad", 2)}}
POLICIES = {"baseline": {"db": tier("round-robin", 1)}, "chosen": {"db": tier("tad", 1)},
            "spilling": {"db": tier("tad", 1, WORK_MEM="64kB")}}  # fmt: skip
UNEVEN = {"baseline": {"web": tier("tad", 1), "db": tier("tad", 1)},
          "replicated": {"web": tier("tad", 1), "db": tier("tad", 2)}}  # fmt: skip
MANY = {f"arm-{r}": {"web": tier("tad", r)} for r in range(1, 6)}


@pytest.mark.parametrize(
    ("arms", "met", "said"),
    [
        (COPIES, [False, True], "Two copies of each read met the SLO; one copy did not."),
        (UNEVEN, [False, True], "Two copies of each read met the SLO; one copy did not."),
        (COPIES, [True, True], "Both one copy and two copies of each read met the SLO."),
        (BOTH, [False, False], "Neither one copy with round-robin nor two copies of each read "
                               "with tad met the SLO."),
        (COPIES, [None, True], "Two copies of each read met the SLO; for one copy it is "
                               "undecided."),
        (POLICIES, [False, True, True], "Both tad (chosen) and tad (spilling) met the "
                                        "SLO; round-robin did not."),
        ({"tad": {"web": tier("tad", 2)}}, [False], "Two copies of each read with tad did not "
                                                    "meet the SLO."),
        (MANY, [False, True, True, None, False], "2 of 5 arms met the SLO; the baseline, "
         "one copy, did not; for 1 it is undecided."),
    ],
)  # fmt: skip
def test_the_verdict_is_made_of_settings_and_slo(
    arms: dict[str, dict[str, Any]], met: list[bool | None], said: str
) -> None:
    assert verdict(judged(arms, met)) == said


def test_a_verdict_says_what_it_rests_on() -> None:
    wide_interval = {"p95": {"factor": 1.4, "ci_low": 0.4, "ci_high": 4.3}}
    assert "interval contains 1" in verdict(
        judged(COPIES, [False, True], improvement=wide_interval)
    )
    narrow_interval = {"p95": {"factor": 2.0, "ci_low": 1.4, "ci_high": 2.9}}
    assert "contains 1" not in verdict(judged(COPIES, [False, True], improvement=narrow_interval))
    stop = {"by": "halt", "reason": "too hot", "at_s": 12.0, "undone_after_s": 0.2}
    sentence = verdict(judged(COPIES, [True, True], valid=False, stopped=stop))
    assert sentence.startswith("Stopped by `sparecraft halt` after 12 s: too hot; ")
    assert (
        summary_lines(judged(COPIES, [True, True], valid=False, improvement=narrow_interval)) == []
    )
    assert summary_lines(judged(COPIES, [True, True], improvement=narrow_interval))[0].startswith(
        "With replicated"
    )
    reasons = {"measurement": {"ok": False, "reasons": ["the generator sent late"]}}
    run = judged(COPIES, [False, True], valid=False, verdicts=reasons)
    assert verdict(run) == (
        "This run is not valid: nothing may be concluded from it (the generator sent late)."
    )
    assert verdict(judged({}, [])) == "No SLO was asked for."
    assert verdict(RunFolder(Path("results"))) == "There is no result, so there is no verdict."


@pytest.fixture(scope="module")
def run() -> FakeRun:
    fake = fake_run(seed=4, measure_s=20.0, rate_per_s=4.0)
    fake.arbiters, fake.hosts = fake.arbiters.head(0), fake.hosts.head(0)
    return fake


@pytest.fixture
def folder(run: FakeRun, tmp_path: Path) -> Path:
    return run.write(tmp_path / "results" / "mediawiki-noisy" / "20261120T093000Z")


def test_each_limit_stands_beside_what_each_arm_reached(folder: Path) -> None:
    run_folder = read_folder(folder)
    table = slo_table(run_folder)
    assert table is not None
    assert table.head == ("arm", "p95 ≤ 500 ms", "p99 ≤ 1,000 ms", "errors ≤ 5 %")
    assert table.caption == "SLO, set after the first run; availability of 99.9 % is the plan's"
    limits = run_folder.summary["slo"]["arms"]["baseline"]["limits"]
    assert set(limits) == {"p95_ms", "p99_ms", "max_error_share"}
    moods = {True: "good", False: "bad", None: "unknown"}
    assert [cell.mood for cell in table.rows[0][1:]] == [moods[met] for met in limits.values()]
    assert table.rows[1][0].about == "tad, r = (2, 2)"


def test_a_run_that_is_not_valid_shows_neither_ticks_nor_colours(folder: Path) -> None:
    run_folder = read_folder(folder)
    run_folder.summary["improvement"]["p95"] |= {"factor": 2.0, "ci_low": 1.5, "ci_high": 2.7}
    run_folder.summary["comparison"] = {"replicated": run_folder.summary["improvement"]}

    def moods() -> set[str]:
        tables = [slo_table(run_folder), gain_table(run_folder), comparison_table(run_folder)]
        cells = [cell for table in tables if table for row in table.rows for cell in row]
        return {cell.mood for cell in cells} | {
            mark for cell in cells for mark in "✓✗" if mark in cell.text
        }

    run_folder.summary["valid"] = True
    assert {"good", "✓"} <= moods()
    run_folder.summary["valid"] = False
    assert moods() == {"", "void"}


def test_a_limit_that_the_figure_keeps_says_why_it_is_missed_or_undecided(folder: Path) -> None:
    run_folder = read_folder(folder)
    arm = run_folder.summary["slo"]["arms"]["replicated"]
    arm |= {"limits": {"p95_ms": False, "p99_ms": None}, "reasons": ["p95: 9 failed", "p99: few"]}
    run_folder.summary["arms"]["replicated"] |= {"p95_ms": 499.0, "p99_ms": 1001.0}
    assert slo_notes(run_folder) == ["replicated, p95: 9 failed."]


def test_gains_begin_with_p95_and_have_the_median(folder: Path) -> None:
    run_folder = read_folder(folder)
    table = gain_table(run_folder)
    assert table is not None
    assert [row[0].text for row in table.rows] == ["p95", "p50", "mean", "p99"]
    assert "requests per arm, 2 pairs, " in table.caption
    assert table.caption.endswith(" beyond p99")
    sentence = gain(run_folder)
    assert "With replicated, " in sentence
    for entry in run_folder.summary["improvement"].values():
        entry["pairs"] = 1
    assert gain(run_folder) != sentence  # what varies between pairs is not in its interval
    for entry in run_folder.summary["improvement"].values():
        entry["pairs"] = 2
    entries = run_folder.summary["improvement"]
    entries["p99_9"] = {**entries["p99"], "samples_beyond": 12, "insufficient": False}
    table = gain_table(run_folder)
    assert table is not None
    assert table.rows[-1][0].text == "p99.9"
    assert table.caption.endswith(", 12 beyond p99.9")


def test_cost_is_that_of_both_fleets_and_what_lies_between(folder: Path) -> None:
    table = cost_table(read_folder(folder))
    assert table is not None
    measured_row, planned_row, difference_row = table.rows
    assert [row[0].about for row in (measured_row, planned_row)] == [
        "4 web, 3 db", "4 web, 1 web standby, 2 db",
    ]  # fmt: skip
    costs_usd = [
        float(row[2].text.removesuffix(" USD"))
        for row in (measured_row, planned_row, difference_row)
    ]
    assert costs_usd[1] == 106.29
    assert costs_usd[2] == pytest.approx(costs_usd[1] - costs_usd[0], abs=0.01)
    assert costs_usd[0] > 0.0


def test_a_difference_of_costs_is_that_of_what_is_shown(folder: Path) -> None:
    run_folder = read_folder(folder)
    machines = run_folder.manifest["fleet"]["machines"]
    count = len(tier_machines(run_folder.spec, run_folder.manifest))
    run_folder.plan |= {"scheme": "cloud", "region": "eu-west-1"}
    for planned_usd, hour, month in (
        (2.31, "-0.0035 USD", "-2.61 USD"),  # 0.0032 less 0.0067, though it is 0.00358
        (4.92, "0.0000 USD", "0.00 USD"),
        (8.0, "+0.0043 USD", "+3.08 USD"),
    ):
        for machine in machines:
            machine["usd_per_hour"] = 4.92 / 730 / count
        run_folder.plan["usd_per_month"] = planned_usd
        table = cost_table(run_folder)
        assert table is not None
        assert [cell.text for cell in table.rows[0][1:]] == ["0.0067 USD", "4.92 USD"]
        assert [cell.text for cell in table.rows[2][1:]] == [hour, month]


@pytest.mark.parametrize(
    ("own", "standby", "memory_mb", "fleets", "costs"),
    [(None, False, 10**9, ["measured fleet", "planned fleet"], ["–", "–"]),
     (0.02, True, 512, ["measured fleet, own prices", "planned fleet, book's prices"],
      ["0.1200 USD", "87.60 USD"])],
    ids=["no price", "a machine's own price goes first, and its standby is off"],
)  # fmt: skip
def test_a_fleet_costs_what_its_machines_say_or_the_book(
    folder: Path, own: float | None, standby: bool, memory_mb: int, fleets: list[str],
    costs: list[str],
) -> None:  # fmt: skip
    run_folder = read_folder(folder)
    run_folder.manifest["spec"]["fleet"]["tiers"]["web"]["memory_mb"] = memory_mb
    machines = run_folder.manifest["fleet"]["machines"]
    for machine in machines if own else ():
        machine["usd_per_hour"] = own
    machines[0]["standby"] = standby
    table = cost_table(run_folder)
    assert table is not None
    assert [row[0].text for row in table.rows[:2]] == fleets
    assert [cell.text for cell in table.rows[0][1:]] == costs


def test_prices_of_hosts_are_said_beside_those_of_the_book(folder: Path) -> None:
    run_folder = read_folder(folder)
    for machine in run_folder.manifest["fleet"]["machines"]:
        machine["usd_per_hour"] = 0.1
    assert cost_sentence(run_folder) == (
        "The measured fleet costs 511.00 USD a month at its machines' own prices, the one planned "
        "from this run 106.29 USD at those of the book."
    )


def test_the_cost_of_an_undecided_plan_says_so(folder: Path) -> None:
    run_folder = read_folder(folder)
    run_folder.plan["simulation"] = {"verdict": "undecided"}
    assert cost_sentence(run_folder).endswith("106.29 USD if its undecided plan holds.")
    table = cost_table(run_folder)
    assert table is not None
    assert table.rows[1][0].text == "planned fleet, undecided"


def beside(run: FakeRun, folder: Path, day: str, **spec: Any) -> Path:
    """Writes another run of the design, made on another day; returns its folder."""
    other_run = fake_run(seed=9, measure_s=20.0, rate_per_s=4.0)
    other_run.arbiters, other_run.hosts = run.arbiters, run.hosts
    other_run.manifest["started_at"] = f"2026-11-{day}T09:30:00+00:00"
    other_run.manifest["spec"] |= {**run.manifest["spec"], **spec}
    return other_run.write(folder.parent / f"202611{day}T093000Z")


def test_a_run_is_seen_among_the_earlier_ones_of_the_same_design(
    run: FakeRun, folder: Path
) -> None:
    run_folder = read_folder(folder)
    assert "no earlier valid run" in compare_with_previous(run_folder, "replicated")
    earlier = beside(run, folder, "18")
    beside(run, folder, "19", interference={"pattern": "none"})
    beside(run, folder, "25")
    (folder.parent / "latest").symlink_to(earlier.name)
    (folder.parent / "20261117T093000Z").mkdir()
    factors = previous_factors(run_folder, "replicated")
    assert len(factors) == 1
    assert "one earlier run had a p95 factor of" in compare_with_previous(run_folder, "replicated")
    beside(run, folder, "16")
    assert "2 earlier runs had p95 factors from" in compare_with_previous(run_folder, "replicated")
    assert compare_with_previous(run_folder, None) == ""
    torn_run = beside(run, folder, "15")
    (torn_run / "result.json").write_text("{")
    write_json(torn_run / "manifest.json", {})
    assert len(previous_factors(run_folder, "replicated")) == 2


def test_the_arm_that_was_fitted_has_its_row_too() -> None:
    run = judged(COPIES, [False, True], arms={"baseline": {"requests": 90}})
    run.simulated = {
        "fitted_arm": "baseline", "work_s": 0.04, "speed": 0.25,
        "fitted": {"p50": [0.1, 0.1], "p95": [0.4, 0.524]},
        "predicted": {"replicated": {"requests": 80, "p50": [0.2, 0.17], "p95": [0.4, 0.5]}},
    }  # fmt: skip
    table = simulated_table(run)
    assert table is not None
    assert [row[0].text for row in table.rows] == ["baseline (fitted)", "replicated"]
    assert table.rows[0][-1].text == "+31 %"


@pytest.mark.parametrize(("sent", "said"), [(750, 0), (751, 1), (1_496, 1)])
def test_work_of_replicas_is_said_where_there_are_replicas(sent: int, said: int) -> None:
    """One of tens of thousands of requests was sent again after a crash: that is no replica."""
    tiers = {"web": {"received": 750, "replicas_sent": sent, "wasted_s": 0.1},
             "db": {"received": 0, "replicas_sent": 0, "wasted_s": 0.0}}  # fmt: skip
    run = judged(COPIES, [True, True], replication={"replicated": tiers})
    assert len(work_words(run)) == said
    resent_once = {"web": {"received": 24_000, "replicas_sent": 24_001, "wasted_s": 0.1}}
    assert work_words(judged(COPIES, [True, True], replication={"replicated": resent_once})) == []
