"""The watchdog of machine faults: it starts in any folder, and its end ends the run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing
from experiments.record.result import stopped_words
from experiments.testbed.platforms.journal import MachineJournal
from experiments.tests.counting import Counting, stopped
from experiments.tests.hostile import hostile

pytestmark = pytest.mark.usefixtures("own_runs")
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


def test_its_end_ends_the_run_whose_data_are_kept(tmp_path: Path) -> None:
    def die() -> None:
        journal = MachineJournal("local", "tst-small", tmp_path / "journal")
        os.kill(journal.watch(), signal.SIGKILL)
        time.sleep(_PATIENCE_S)  # the signal ends it

    error, result = stopped(Counting(die), tmp_path / "results")
    assert (error.exit_code, error.stop.by) == (1, "watchdog")
    assert (result["valid"], result["counting"]) == (False, {"counted": 3})
    assert result["stopped"]["by"] == "watchdog"
    assert str(-signal.SIGKILL) in result["stopped"]["reason"]
    assert "its watchdog" in stopped_words(result)
