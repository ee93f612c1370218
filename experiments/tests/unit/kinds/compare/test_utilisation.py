"""Utilisation by arm: predicted before a run, measured in it, kept in a design made from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.runfiles.result import read_result
from experiments.commands.check import summary_of
from experiments.design import Design, load_design
from experiments.design.experiment import Load
from experiments.kinds.compare import KIND
from experiments.kinds.compare.adopt import adopt
from experiments.kinds.compare.folder import read_folder
from experiments.kinds.compare.page import write_page
from experiments.kinds.compare.utilisation import predicted_utilisation
from experiments.record.manifest import spec_json
from experiments.tests.adopt_fixture import source_run
from experiments.tests.report_fixture import FakeRun, fake_run
from experiments.tests.spec_fixture import TOML, design, write

CALIBRATION: dict[str, Any] = {
    "utilisation": 0.12, "tier": "web", "rate_per_s": 3.2, "ci_low": 2.9, "ci_high": 3.6,
    "confidence": 0.95, "pieces": 5, "requests": 64,
    "tiers": {
        "web": {"cores": 1.6, "cpu_s_per_copy": 0.06, "cpu_s": 0.06, "ci_low": 0.053,
                "ci_high": 0.067, "idle_cores": 0.01},
        "db": {"cores": 1.2, "cpu_s_per_copy": 0.004, "cpu_s": 0.004, "ci_low": 0.003,
               "ci_high": 0.005, "idle_cores": 0.01},
    },
    "arms": {"baseline": {"web": 0.12, "db": 0.01}, "replicated": {"web": 0.24, "db": 0.02}},
}  # fmt: skip
ASKED = TOML.replace("rate_per_s = 5  # pages", "utilisation = 0.12")
ON_WEB_AND_DB = 0.38 * 0.6 / 0.4  # what the made-up hosts use of their caps of 0.4 cores


def short_run() -> FakeRun:
    return fake_run(seed=4, measure_s=20.0, rate_per_s=4.0)


def asked(tmp_path: Path) -> Design:
    return load_design(write(tmp_path / "design", toml=ASKED))


def beside(results: Path, run: FakeRun, name: str = "20261120T093000Z") -> Path:
    """Writes a run of the design into its folder of results."""
    folder = results / "mediawiki-noisy" / name
    folder.mkdir(parents=True)
    run.manifest["run"] = name
    return run.write(folder)


def test_cpu_counts_while_no_neighbour_is_on_the_machine(tmp_path: Path) -> None:
    run = short_run()
    disturbed_cores = run.hosts.filter(pl.col("faults_active") > 0)["cpu_cores"]
    assert disturbed_cores.len() > 0
    assert disturbed_cores.min() / 0.4 > 1.2  # type: ignore[operator]
    utilisation = read_result(run.write(tmp_path))["compare"]["utilisation"]
    for arm in ("baseline", "replicated"):
        assert utilisation[arm]["web"]["measured"] == pytest.approx(ON_WEB_AND_DB)
        assert utilisation[arm]["web"]["samples"] > 10
        assert utilisation[arm]["web"]["foreseen"] is None
    assert "rate_per_s" not in KIND.levels(read_result(tmp_path)), "it was stated"
    page = write_page(tmp_path).read_text()
    assert 'id="calibration-table"' not in page
    assert 'id="utilisation-table"' in page


def test_what_was_foreseen_stands_beside_it_and_nights_watch_the_rate(tmp_path: Path) -> None:
    run = short_run()
    run.manifest["calibration"] = CALIBRATION
    result = read_result(run.write(tmp_path))
    body = result["compare"]
    assert body["calibration"] == CALIBRATION
    web = body["utilisation"]["replicated"]["web"]
    assert web["foreseen"] == 0.24
    assert web["measured"] == pytest.approx(ON_WEB_AND_DB - 0.01 / 4 / 0.4)  # less the idle cores
    assert KIND.levels(result)["rate_per_s"] == 3.2
    page = write_page(tmp_path).read_text()
    for identity in ("calibration-table", "utilisation-table"):
        assert f'id="{identity}"' in page


def test_without_an_earlier_run_an_asked_share_bounds_each_arms(tmp_path: Path) -> None:
    prediction: Any = predicted_utilisation(asked(tmp_path), tmp_path / "results")
    assert (prediction["at_most"], prediction["run"]) == (True, None)
    assert prediction["arms"]["baseline"] == {"web": 0.12, "db": 0.12}
    assert prediction["arms"]["replicated"] == pytest.approx({"web": 0.24, "db": 0.24})
    rate_design = design(tmp_path / "rate")
    assert predicted_utilisation(rate_design, tmp_path / "results")["arms"] == {}
    assert "utilisation" not in spec_json(rate_design)["load"], (
        "else no earlier run is of one design"
    )


def test_an_earlier_run_says_what_a_rate_will_use(tmp_path: Path) -> None:
    folder = beside(tmp_path / "results", short_run())
    offered = read_result(folder)["compare"]["arms"]["baseline"]["offered_per_s"]
    prediction: Any = predicted_utilisation(design(tmp_path / "design"), tmp_path / "results")
    assert (prediction["at_most"], prediction["run"]) == (False, folder.name)
    # The design has larger machines.
    share_at_5 = ON_WEB_AND_DB * (4 * 0.4) / offered * 5.0 / (4 * 0.6)
    assert prediction["arms"]["baseline"]["web"] == pytest.approx(share_at_5, rel=1e-6)
    assert prediction["arms"]["replicated"]["web"] == pytest.approx(2 * share_at_5, rel=1e-6)


def test_an_earlier_calibration_says_the_rate_of_an_asked_share(tmp_path: Path) -> None:
    run = short_run()
    run.manifest["calibration"] = CALIBRATION
    beside(tmp_path / "results", run)
    prediction: Any = predicted_utilisation(asked(tmp_path), tmp_path / "results")
    assert prediction["rate_per_s"] == pytest.approx(0.12 * 4 * 0.6 / 0.06)
    assert prediction["arms"]["baseline"]["web"] == pytest.approx(0.12)


def test_runs_that_are_not_valid_or_of_other_users_say_nothing(tmp_path: Path) -> None:
    searcher_run, invalid_run = short_run(), short_run()
    searcher_run.manifest["spec"]["load"]["user"] = "searcher"
    invalid_run.manifest["verdicts"]["injection"] = {"ok": False, "reasons": ["none was"]}
    beside(tmp_path / "results", searcher_run, "20261121T093000Z")
    beside(tmp_path / "results", invalid_run, "20261122T093000Z")
    assert predicted_utilisation(asked(tmp_path), tmp_path / "results")["run"] is None


def test_a_full_tier_is_warned_of_where_copies_fill_it(tmp_path: Path) -> None:
    beside(tmp_path / "results", short_run())
    summary: Any = summary_of(design(tmp_path / "design"), tmp_path / "results")
    arms = summary["utilisation"]["arms"]
    assert arms["baseline"]["web"] > 0.4
    busy_tiers = [note["tier"] for note in summary["notes"] if note["code"] == "busy-with-copies"]
    assert busy_tiers == [tier for tier, share in arms["replicated"].items() if share > 0.6] != []


def test_an_adopted_plan_keeps_the_measured_rate_and_says_where_it_is_from(tmp_path: Path) -> None:
    folder = source_run(tmp_path / "run", toml=ASKED)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["spec"]["load"]["utilisation"] == 0.12
    (folder / "manifest.json").write_text(json.dumps({**manifest, "calibration": CALIBRATION}))
    adopted = adopt(folder)
    load: Load = adopted.experiment.load
    assert (load.rate_per_s, load.utilisation) == (3.2, None)
    comment = (adopted.directory / "experiment.toml").read_text().splitlines()[1]
    assert comment.startswith("# rate_per_s")
    assert "web" in comment


def test_a_page_says_the_share_that_a_run_that_was_cut_short_asked(tmp_path: Path) -> None:
    run = short_run()
    load = run.manifest["spec"]["load"]
    del load["rate_per_s"]
    load["utilisation"] = 0.12
    folder = read_folder(run.write(tmp_path))
    assert folder.summary["calibration"] is None
    assert write_page(tmp_path).is_file()
