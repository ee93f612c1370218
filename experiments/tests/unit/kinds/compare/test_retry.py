"""Blocks that are measured again on a shared host, their number, and the ones that count."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from core.runfiles.events import read_events, without_discarded
from core.runfiles.requests import measured
from experiments import kinds
from experiments.cli import command
from experiments.console import Narrator
from experiments.design.schedule import Block
from experiments.kinds.compare import CompareKind
from experiments.kinds.compare.folder import read_folder
from experiments.kinds.compare.host import host_table, host_words
from experiments.kinds.compare.retry import measure_with_retries, spoiled_by
from experiments.record.metrics.frames import prepared
from experiments.record.metrics.performability import Ideal, user_metrics
from experiments.record.metrics.saturation import saturation
from experiments.record.metrics.verdicts import measurement_reasons
from experiments.testbed.host import HostBlock
from experiments.tests.report_fixture import event, fake_run

QUIET = HostBlock(0, "baseline", 0.5, 0.01, 20.0, 60)
STOLEN = dataclasses.replace(QUIET, stolen_share=0.12)
DISTURBED = dataclasses.replace(QUIET, others_share=0.31)


@pytest.fixture(scope="module")
def requests() -> pl.DataFrame:
    """One block."""
    return fake_run().requests.filter(repeat=0)


class _Host:
    """Runs no block; the host spoils those whose numbers, in order of running, are in `spoils`."""

    def __init__(self, requests: pl.DataFrame, spoils: set[int]) -> None:
        self._requests = requests
        self._spoils = spoils
        self.ran: list[Block] = []
        self.host: list[HostBlock] = []
        self.handles: list[Any] = []
        self.discarded: list[int] = []

    def run(self, block: Block, *_: Any) -> None:
        self.host.append(STOLEN if len(self.ran) in self._spoils else QUIET)
        self.handles.append(self)
        self.ran.append(block)

    def records(self) -> pl.DataFrame:
        return self._requests

    def set_aside(self, block: Block, why: str) -> None:
        assert "12% of the cores" in why
        self.discarded.append(block.repeat)


def _measured(host: _Host, count: int) -> str:
    asked_blocks = [Block(index, index // 2, "ab"[index % 2], index // 2) for index in range(count)]
    text = io.StringIO()
    runner: Any = host
    measured_blocks = list(
        measure_with_retries(runner, asked_blocks, Narrator(Console(file=text, width=200)))
    )
    assert measured_blocks == asked_blocks
    return text.getvalue()


@pytest.mark.parametrize(("spoils", "repeats"), [(set(), [0, 1, 2, 3]), ({1}, [0, 1, 2, 3, 4])])
def test_only_a_spoiled_block_comes_again_with_its_seed_and_a_number_of_its_own(
    requests: pl.DataFrame, spoils: set[int], repeats: list[int]
) -> None:
    host = _Host(requests, spoils)
    assert ("again" in _measured(host, 4)) is bool(spoils)
    assert [block.repeat for block in host.ran] == repeats
    ran = [(block.repeat, block.pair, block.arm, block.seed) for block in host.ran]
    assert ran[1] == (1, 0, "b", 0)
    assert ran[2] == ((2, 0, "b", 0) if spoils else (2, 1, "a", 1))
    assert host.discarded == list(spoils)


def test_the_tries_of_a_block_and_of_a_run_are_bounded(requests: pl.DataFrame) -> None:
    host = _Host(requests, set(range(100)))
    text = _measured(host, 8)
    assert len(host.ran) == 8 + 4  # at most half as many again
    assert host.discarded == [0, 1, 3, 4]  # three tries of the first block, three of the second
    assert text.count("that was the last try") == 8


def test_what_spoils_a_block_is_the_hosts_doing(requests: pl.DataFrame) -> None:
    def late(phase: str) -> pl.DataFrame:
        lag_ms = pl.when(pl.col("phase") == phase).then(900.0).otherwise("lag_ms")
        return requests.with_columns(lag_ms=lag_ms)

    assert spoiled_by(QUIET, requests) == ""
    assert spoiled_by(STOLEN, requests) == "other guests took 12% of the cores"
    assert spoiled_by(DISTURBED, requests) == "other work on this host took 31% of the cores"
    little_disturbed = dataclasses.replace(DISTURBED, others_share=0.08)
    assert spoiled_by(little_disturbed, requests) == ""
    assert spoiled_by(QUIET, late("warm-up")) == ""
    assert "requests left late" in spoiled_by(QUIET, late("measure"))
    dropped_requests = requests.with_columns(outcome=pl.lit("dropped"))
    refused_requests = requests.with_columns(lag_ms=pl.lit(0.5), outcome=pl.lit("connection_error"))
    for block in (dropped_requests, refused_requests):  # the fleet's doing
        assert spoiled_by(QUIET, block) == ""


@pytest.mark.parametrize(
    ("median_ms", "lag_ms", "late"),
    [(2.0, 0.9, False), (2.0, 1.1, True), (100.0, 4.9, False), (100.0, 5.1, True)],
)
def test_a_lag_is_late_above_1_ms_and_5_percent_for_a_block_and_a_run_alike(
    requests: pl.DataFrame, median_ms: float, lag_ms: float, late: bool
) -> None:
    def voids(block: pl.DataFrame) -> bool:
        figures = user_metrics(measured(prepared(block, 6000.0)), 60.0, Ideal(None, "none"))
        reasons = measurement_reasons({"baseline": figures}, None)
        assert all("lower rate_per_s" in reason for reason in reasons), "it says what to do"
        return reasons != []

    block = requests.with_columns(latency_ms=pl.lit(median_ms), lag_ms=pl.lit(lag_ms))
    assert voids(block) is late
    assert saturation(block, []).ok is not late
    assert (spoiled_by(QUIET, block) != "") is late


def test_the_help_names_the_kinds_that_measure_a_spoiled_block_again() -> None:
    [help_text] = [
        parameter.help for parameter in command("run").params if parameter.name == "quiet_wait_s"
    ]
    named_kinds = {name for name in kinds.names() if re.search(rf"\b{name}\b", help_text)}
    found_kinds = {name: kinds.find(name) for name in kinds.names()}
    retrying = {
        name
        for name, kind in found_kinds.items()
        if isinstance(kind, CompareKind) and kind.needs_fleet
    }
    assert named_kinds == retrying


def test_what_was_set_aside_is_in_no_figure(tmp_path: Path) -> None:
    run = fake_run()
    whole_run = read_folder(run.write(tmp_path / "whole"))
    run.events.append(
        event(80.0, "block", "baseline", "spoiled", arm="baseline", repeat=0, text="stolen")
    )
    run.requests = run.requests.filter(pl.col("repeat") != 0)
    run.manifest["host"]["blocks"] = [
        dataclasses.asdict(dataclasses.replace(QUIET, spoiled="stolen"))
    ]
    folder = run.write(tmp_path / "part")
    part_run = read_folder(folder)
    assert {window.repeat for window in part_run.windows} == {1, 2, 3}
    assert {window.repeat for window in whole_run.windows} == {0, 1, 2, 3}
    arm_windows = [
        window for window in whole_run.windows if window.repeat == 0 and window.what == "arm"
    ]
    in_window = pl.col("time_s").is_between(arm_windows[0].start_s, arm_windows[0].end_s)
    for name in ("arbiters", "hosts"):
        assert getattr(whole_run, name).filter(in_window).height > 0
        assert getattr(part_run, name).filter(in_window).height == 0
        assert getattr(part_run, name).height > 0
    fault_counts = [folder.summary["faults"]["injected"] for folder in (whole_run, part_run)]
    assert fault_counts[1] < fault_counts[0]
    table = host_table(part_run.manifest["host"]["blocks"])
    assert table is not None
    assert table.rows[0][-1].text == "set aside: stolen"
    events = read_events(folder / "events.jsonl")
    assert len(without_discarded(events)) < len(events)
    assert without_discarded(without_discarded(events)) == without_discarded(events)


COUNTED = {"busy_share": 0.2, "stolen_share": 0.001, "others_share": 0.06, "core_speed": 1.0}
SET_ASIDE = {
    "busy_share": 0.9, "stolen_share": 0.4, "others_share": 0.5, "core_speed": 0.3,
    "spoiled": "other work on this host took 50% of the cores",
}  # fmt: skip


def test_blocks_that_were_set_aside_say_nothing_of_the_host_under_those_that_count() -> None:
    blocks: list[dict[str, Any]] = [COUNTED, SET_ASIDE]
    assert host_words(blocks) == host_words([COUNTED]) != ""
    assert host_words([SET_ASIDE]) == ""
