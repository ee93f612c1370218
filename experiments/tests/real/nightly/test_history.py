"""The history of nights on a full disk: only whole lines are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import DiskFull
from experiments.nightly.history import FILE, Writer, read_history
from experiments.tests.disks import fill
from experiments.tests.nightly_fixture import made_up_run


def test_a_full_disk_leaves_only_whole_lines(small_disk: Path) -> None:
    writer = Writer(small_disk)
    writer.append(*made_up_run(1))
    filler = fill(small_disk)
    runs = [run for night in range(2, 40) for run in made_up_run(night)]
    with pytest.raises(DiskFull):
        writer.append(*runs)
    assert (small_disk / FILE).read_bytes().endswith(b"\n")
    filler.unlink()
    writer.append(*made_up_run(2))
    history = read_history(small_disk)
    assert [run.night for run in history.runs] == [1, 1, 2, 2]
    assert history.notes == ()
