"""Campaigns of bit flips: limits, a campaign that is continued, and repeated injections."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from core.runfiles.result import read_result
from experiments.design import load_design
from experiments.kinds.bitflips import KIND
from experiments.kinds.bitflips.build import Built
from experiments.kinds.bitflips.inject import Limits, run_golden
from experiments.kinds.bitflips.measure import INJECTIONS_FILE
from experiments.kinds.bitflips.replay import replay
from experiments.run.lifecycle import Outcome, run_experiment
from experiments.testbed.platforms import entry
from experiments.tests.harden_fixture import built, injected, need_compiler, trouble
from experiments.tests.quiet import NOBODY

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("own_runs")]

LIMITS = Limits(cpu_s=1, wall_s=120.0, memory_bytes=1 << 30, output_bytes=8 << 20)


def test_a_program_that_never_ends_is_stopped_and_called_a_hang(tmp_path: Path) -> None:
    need_compiler()
    program: Built = built(trouble("endless"), "native", tmp_path)
    golden = run_golden(program, LIMITS, tmp_path)
    lines = injected(program, golden, LIMITS, tmp_path, seed=1, count=20)
    assert "hang" in (line["outcome"] for line in lines)


DESIGN = """
kind = "bitflips"
[bitflips]
programs = ["linear_regression"]
variants = ["native", "ilr"]
injections = {injections}
workers = 1
price_rounds = 1
price_repeats = 1
[arms.kernels]
[design]
order = "A"
repeats = 1
seed = 3
"""
FLEET = """
experiment = "tst-bitflips"
scheme = "cloud"
tiers = {
  store = { role = "redis", nodes = 1, cpus = 1, memory_mb = 384, nic_mbps = 100, disk_mbps = 80 }
}
"""


def carried_out(tmp_path: Path, injections: int) -> Outcome:
    folder = tmp_path / "design"
    folder.mkdir(exist_ok=True)
    (folder / "fleet.tfvars").write_text(FLEET)
    (folder / "experiment.toml").write_text(DESIGN.format(injections=injections))
    design = load_design(folder)
    section = design.section(KIND.Section, KIND.name)
    return run_experiment(
        KIND, design, section, results=tmp_path / "results",
        platform=entry("local").for_run("tst-bitflips"), keep=False,
        command=["sparecraft", "run"], narrator=NOBODY,
    )  # fmt: skip


def test_a_campaign_is_gone_on_with_and_each_of_its_injections_can_be_done_again(
    tmp_path: Path,
) -> None:
    need_compiler()
    first = carried_out(tmp_path, injections=4)
    assert first.passed
    journals = tmp_path / "results" / "tst-bitflips" / "journals"
    journal_contents = {path: path.read_bytes() for path in journals.iterdir()}
    assert len(journal_contents) == 2
    second = carried_out(tmp_path, injections=8)
    assert all(path.read_bytes().startswith(content) for path, content in journal_contents.items())
    injections = pl.read_parquet(second.folder / INJECTIONS_FILE)
    assert injections.height == 2 * 8
    line = injections.row(11, named=True)
    assert replay(second.folder, line["program"], line["variant"], line["number"]) == line
    result = read_result(second.folder)["bitflips"]
    assert [row["injections"] for row in result["pooled"]] == [8, 8]
    assert "silent" in (second.folder / "report.html").read_text()
