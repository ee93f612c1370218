"""The watchdog of machine faults: that it lives wherever it is started, and what its end ends."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from core.errors import EnvironmentMissing
from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.console import Narrator
from experiments.design import load_design
from experiments.paths import ROOT
from experiments.record.result import Findings, stopped_words
from experiments.run.kind import Kind, NoSection
from experiments.run.lifecycle import run_experiment
from experiments.testbed.guard import Stopped
from experiments.testbed.platforms import entry
from experiments.testbed.platforms.journal import MachineJournal
from experiments.testbed.testbed import Testbed
from experiments.tests.hostile import hostile

pytestmark = pytest.mark.usefixtures("own_runs")
SMALL = ROOT / "experiments" / "tests" / "designs" / "small"
_PATIENCE_S = 60.0


def test_it_is_ready_where_a_users_files_have_our_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile(tmp_path))
    journal = MachineJournal("local", "tst-watchdog", tmp_path / "journal")
    pid = journal.watch()
    assert journal.watch() == pid, "one is enough"
    os.kill(pid, signal.SIGKILL)


def test_without_one_no_fault_is_noted_and_its_last_words_are_told(tmp_path: Path) -> None:
    journal = MachineJournal("no-such-platform", "tst-watchdog", tmp_path / "journal")
    with pytest.raises(EnvironmentMissing) as refused:
        journal.write("machine.crash", "web-1")
    assert "no-such-platform" in refused.value.got
    assert journal.notes() == []


def test_what_ends_a_whole_session_leaves_it_until_the_run_has_ended(tmp_path: Path) -> None:
    journal = MachineJournal("local", "tst-watchdog", tmp_path / "journal")
    pid = journal.watch()
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGINT)
    assert journal.watch() == pid
    os.kill(pid, signal.SIGKILL)


class _Measuring(Kind[NoSection]):
    """Does as it is told, and has something to keep."""

    name = "measuring"
    summary = "a measurement"
    needs_fleet = False

    def __init__(self, then: Callable[[], None]) -> None:
        self.then = then

    def measure(self, testbed: Testbed, section: NoSection) -> None:
        assert section == NoSection()
        testbed.keep(lambda _: {"measured": 3})
        self.then()

    def analyse(self, folder: Path) -> Findings:
        manifest: Any = manifest_if_any(folder)
        return Findings({"measured": manifest["measured"]}, manifest["verdicts"])

    def write_page(self, folder: Path) -> Path:
        (folder / "report.html").write_text("measured")
        return folder / "report.html"


def test_its_end_ends_the_run_whose_data_are_kept(tmp_path: Path) -> None:
    def die() -> None:
        journal = MachineJournal("local", "tst-small", tmp_path / "journal")
        os.kill(journal.watch(), signal.SIGKILL)
        time.sleep(_PATIENCE_S)  # the signal ends it

    with pytest.raises(Stopped) as stopped:
        run_experiment(
            _Measuring(die), load_design(SMALL), NoSection(),
            results=tmp_path / "results",
            platform=entry("local").for_run("tst-small"), keep=False,
            command=["sparecraft", "run"], narrator=Narrator(Console(file=io.StringIO())),
        )  # fmt: skip
    assert (stopped.value.exit_code, stopped.value.stop.by) == (1, "watchdog")
    result = read_result(tmp_path / "results" / "tst-small" / "measuring" / "latest")
    assert (result["valid"], result["measuring"]) == (False, {"measured": 3})
    assert result["stopped"]["by"] == "watchdog"
    assert str(-signal.SIGKILL) in result["stopped"]["reason"]
    assert "its watchdog" in stopped_words(result)
