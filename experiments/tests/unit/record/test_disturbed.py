"""A run on a host that others took is disturbed: neither valid nor not, and no fleet is blamed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from core.runfiles.manifest import against, against_run
from core.runfiles.result import Result
from experiments.commands.compare import column
from experiments.commands.list import _display_row, _row
from experiments.design.experiment import Interference
from experiments.kinds.compare import page
from experiments.kinds.compare.folder import read_folder
from experiments.kinds.compare.retry import spoiled_by
from experiments.kinds.compare.terminal import _valid
from experiments.kinds.compare.verdict import verdict
from experiments.nightly.history import Run, Start, missed
from experiments.nightly.rows import NightRun, lines_of
from experiments.nightly.tables import answer
from experiments.record.disturbed import OTHERS_SHARE_MAX, STOLEN_SHARE_MAX, disturbance
from experiments.record.records import REQUESTS, write_json
from experiments.record.result import Findings, passed, result_of, validity
from experiments.run.block import BlockRun
from experiments.testbed.host import HostBlock
from experiments.tests.manifest_fixture import VERDICTS
from experiments.tests.nightly_fixture import T0
from experiments.tests.report_fixture import fake_run

SLO = {"asked": {"p95_ms": 300.0}, "arm": "b", "met": False, "reasons": ["p95: 9 of 100"],
       "arms": {"a": {"met": True, "limits": {"p95_ms": True}, "reasons": []},
                "b": {"met": False, "limits": {"p95_ms": False}, "reasons": ["p95: 9 of 100"]}},
       }  # fmt: skip


def block(others: float | None = 0.05, stolen: float = 0.0, **more: Any) -> dict[str, Any]:
    return {**vars(HostBlock(0, "b", 0.9, stolen, 20.0, 9, others_share=others)), **more}


def judged(*blocks: dict[str, Any], verdicts: Any = VERDICTS, **manifest: Any) -> Result:
    manifest = {"experiment": "shop", "run": "R", "host": {"blocks": list(blocks)}, **manifest}
    return result_of("dice", manifest, Findings({}, verdicts, slo=SLO))


def test_a_run_whose_host_others_took_is_disturbed_and_its_slo_undecided() -> None:
    result = judged(block(), block(others=0.735))
    assert result["disturbed"] == {"blocks": 1, "of": 2, "others_share": 0.735, "stolen_share": 0.0}
    assert (result["valid"], validity(result), passed(result)) == (False, "disturbed", False)
    slo = result["slo"]
    assert [slo["met"], *(arm["met"] for arm in slo["arms"].values())] == [None, None, None]
    measurement = result["verdicts"]["measurement"]
    assert (measurement["ok"], measurement["disturbed"]) == (False, True)
    assert slo["reasons"] == measurement["reasons"]  # what the fleet reached is no reason any more


def test_a_run_on_a_quiet_host_is_judged_as_ever() -> None:
    result = judged(block(), block(others=OTHERS_SHARE_MAX, stolen=STOLEN_SHARE_MAX))
    assert (result["disturbed"], validity(result)) == (None, "yes")
    assert (result["slo"]["met"], result["slo"]["verdict"]) == (SLO["met"], "missed")


def test_a_block_that_was_set_aside_disturbs_no_run() -> None:
    assert judged(block(), block(others=0.9, spoiled="others took it"))["disturbed"] is None


@pytest.mark.parametrize("others", [None, 0.0, OTHERS_SHARE_MAX, OTHERS_SHARE_MAX + 1e-6, 0.8])
@pytest.mark.parametrize("stolen", [0.0, STOLEN_SHARE_MAX, STOLEN_SHARE_MAX + 1e-6])
def test_the_rule_is_that_of_blocks_that_are_set_aside(others: float | None, stolen: float) -> None:
    host = HostBlock(0, "b", 0.9, stolen, 20.0, 9, others_share=others)
    aside = spoiled_by(host, pl.DataFrame(schema=REQUESTS))
    assert bool(aside) is (disturbance([vars(host)]) is not None)


@pytest.mark.parametrize(
    ("manifest", "name", "word"),
    [
        ({}, "measurement", "disturbed"),  # a late generator may be the host's doing
        ({}, "injection", "no"),
        ({}, "revert", "no"),
        ({"stopped": {"by": "halt"}}, "cleanup", "no"),
    ],
)
def test_what_the_host_did_excuses_no_fault_that_was_not_as_asked(
    manifest: dict[str, Any], name: str, word: str
) -> None:
    spoilt = {**VERDICTS, name: {"ok": False, "reasons": ["why"]}}
    assert validity(judged(block(others=0.5), verdicts=spoilt, **manifest)) == word


def test_list_and_compare_tell_it_from_yes_and_no() -> None:
    result = judged(block(others=0.735))
    row = _row(Path("results/shop/R"), result)
    assert (row["valid"], row["disturbed"], row["slo_met"]) == (False, True, None)
    assert _display_row(row)["valid"] == "disturbed"
    cells = column(Path("run"), result)
    assert (cells["valid"], cells["taken by others"], cells["SLO met"]) == (False, 0.735, None)
    assert column(Path("run"), judged(block()))["taken by others"] is None


def disturbed_run(folder: Path) -> Path:
    run = fake_run(seed=4, measure_s=12.0, warm_up_s=2.0)
    for block_row in run.manifest["host"]["blocks"]:
        block_row["others_share"] = 0.735
    return run.write(folder)


def test_page_and_terminal_of_a_disturbed_run_blame_no_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for figures in ("all_figures", "fronts", "rate_figure"):  # seconds, and they judge nothing
        monkeypatch.setattr(page, figures, lambda _run: [])
    run = read_folder(disturbed_run(tmp_path / "run"))
    values = page.page_values(run)
    assert values["validity"] == "disturbed"
    assert values["headline"] == verdict(run)
    assert "74% of the cores" in values["headline"]
    assert [chip.answer for chip in values["verdicts"]][:2] == ["disturbed", "yes"]
    assert "disturbed" in _valid(run.summary)
    assert values["first"][0].rows[0][1].mood != "good"


def test_a_disturbed_night_is_no_point_of_a_series(tmp_path: Path) -> None:
    folder = disturbed_run(tmp_path / "shop" / "R")
    start = Start(night=3, number=2, at=T0, entry="wiki", design="mediawiki-noisy", digest="d1",
                  note="", experiment="mediawiki-noisy", seed=9)  # fmt: skip
    lines = lines_of(NightRun(start, 1, 7.5), folder, tmp_path, T0)
    assert {(line.valid, line.disturbed, line.slo_met) for line in lines} == {(False, True, None)}
    assert answer(lines[0]) == "run disturbed"
    assert missed(lines) == []
    older = json.loads(lines[0].model_dump_json(by_alias=True))
    del older["disturbed"]
    assert Run.model_validate_json(json.dumps(older)).disturbed is False


def test_the_planner_hears_of_it_from_result_or_manifest(tmp_path: Path) -> None:
    assert against_run(tmp_path) == ""
    write_json(tmp_path / "manifest.json", {"verdicts": {"revert": {"ok": False, "reasons": []}}})
    assert against_run(tmp_path) == "revert: failed"
    result = judged(block(others=0.735))
    write_json(tmp_path / "result.json", result)
    assert (
        against_run(tmp_path) == against(result) == result["verdicts"]["measurement"]["reasons"][0]
    )
    write_json(tmp_path / "result.json", judged(block()))
    assert against_run(tmp_path) == ""


def test_what_a_block_tells_while_it_runs_is_undecided_too() -> None:
    verdicts: list[tuple[str, bool | None]] = []
    runner: Any = object.__new__(BlockRun)
    slo = SimpleNamespace(model_dump=lambda **_: {"max_error_share": 1.0})
    experiment = SimpleNamespace(slo=slo, interference=Interference(pattern="none"))
    runner.design = SimpleNamespace(experiment=experiment)
    runner.recorder = SimpleNamespace(verdict=lambda _, arm, met, __: verdicts.append((arm, met)))
    runner._measured_requests = {}
    quiet = HostBlock(0, "a", 0.9, 0.0, 20.0, 9, others_share=0.0)
    runner.host = [quiet, replace(quiet, arm="b", others_share=0.5)]
    requests = fake_run(seed=4, measure_s=12.0, warm_up_s=2.0).requests
    for arm in ("a", "b"):
        block = type("B", (), {"arm": arm})()
        runner._judge(block, requests.with_columns(arm=pl.lit(arm)))
    assert verdicts == [("a", True), ("b", None)]
