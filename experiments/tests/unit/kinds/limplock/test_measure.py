"""Files and looks of a run of rows: files on a full disk, the tiers that a store calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from core.errors import DiskFull
from experiments.design import Design, load_design
from experiments.kinds.limplock.clients import process
from experiments.kinds.limplock.clients.process import Clients, Lane, OperationTime, Task, command
from experiments.kinds.limplock.measure import blocks
from experiments.kinds.limplock.measure.blocks import Rows
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import (
    ASKED_FILE,
    PROBE,
    WHITEBOX_FILE,
    Window,
    read_windows,
)
from experiments.tests.disks import fill, mounted

WINDOW = Window("new", "Z3", "leader", "10", 0, "a", "b", {}, 1.0, 5.0, 3.0, True, {}, False, 0)


class Written(Rows):
    """Rows without a fleet; `kept` holds the functions that write their files."""

    def __init__(self, design: Design, section: LimplockSection, machines: Any = ()) -> None:
        self.kept: list[Any] = []
        fleet = SimpleNamespace(inventory=SimpleNamespace(started=machines))
        clock = SimpleNamespace(monotonic=1700.0)
        testbed: Any = SimpleNamespace(
            design=design, fleet=fleet, clock=clock, keep=self.kept.append
        )
        super().__init__(testbed, section)

    def measured(self, probes: int) -> None:
        lane = Lane(Task("a", "get", "a", 0, 1, 1), 0)
        lane.did += [OperationTime(float(k), k + 0.5, "ok") for k in range(probes)]
        self._windows.append(WINDOW)
        self._lanes.append((PROBE, lane))


def test_a_disk_that_is_full_leaves_the_files_of_a_run_whole(small_disk: Path) -> None:
    rows = Written(load_design("limplock-zookeeper"), LimplockSection(rows=("Z3",)))
    [write] = rows.kept
    assert write(small_disk) is None
    rows.measured(5)
    assert write(small_disk) == {}
    filler = fill(small_disk)
    rows.measured(1000)
    with pytest.raises(DiskFull) as error:
        write(small_disk)
    assert error.value.exit_code == 3
    assert "limplock.json" in error.value.hint
    assert read_windows(small_disk)[1] == (WINDOW,)
    assert pl.read_parquet(small_disk / ASKED_FILE).height == 5
    assert pl.read_parquet(small_disk / WHITEBOX_FILE).height == 0
    assert not [path for path in small_disk.iterdir() if path.name.startswith(".")]
    filler.unlink()
    assert write(small_disk) == {}
    assert read_windows(small_disk)[1] == (WINDOW, WINDOW)
    assert pl.read_parquet(small_disk / ASKED_FILE).height == 1005


def test_a_client_that_finds_the_disk_full_is_not_started(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = load_design("limplock-zookeeper").roles["zookeeper"]
    monkeypatch.setattr(process, "_compile", lambda *_: small_disk)
    monkeypatch.setattr(process, "_program", lambda name: name)
    names = {f"198.18.0.{k}": f"ensemble-{k}" for k in (1, 2, 3)}
    arguments = (role, "new", ("ZooKeeperClient.java",), "ZooKeeperClient")
    command(*arguments, names, small_disk)
    assert "198.18.0.3 ensemble-3\n" in (small_disk / "hosts").read_text()
    fill(small_disk)
    hosts_before = (small_disk / "hosts").read_text()
    with pytest.raises(DiskFull):
        command(*arguments, {**names, "198.18.0.4": "ensemble-4"}, small_disk)
    assert (small_disk / "hosts").read_text() == hosts_before


@pytest.fixture
def no_room(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "none", files=1) as directory:
        (directory / "one").touch()
        yield directory


def test_a_client_without_room_for_its_log_is_a_full_disk(no_room: Path) -> None:
    with pytest.raises(DiskFull):
        Clients([sys.executable, "-c", "print('ready')"], no_room / "log")


def machine(tier: str, role: str, number: int) -> Any:
    return SimpleNamespace(
        name=f"{tier}-{number}", tier=tier, role=role, address=f"198.18.0.{number}",
        agent_url=f"https://198.19.0.{number}:7070",
    )  # fmt: skip


def test_the_tiers_that_a_store_calls_are_looked_at_too() -> None:
    design = load_design("limplock-hadoop")
    machines = [machine("jobs", "hadoop", k) for k in range(1, 6)]
    machines += [machine("files", "hdfs", k) for k in range(11, 14)]
    rows = Written(design, LimplockSection(rows=("H1",)), machines)
    [called] = rows._called_systems("new", "hadoop")
    assert list(called.nodes) == ["files-11", "files-12", "files-13"]
    assert called.settings["GENERATION"] == "new"
    ensemble_rows = Written(load_design("limplock-zookeeper"), LimplockSection(rows=("Z3",)))
    assert ensemble_rows._called_systems("new", "zookeeper") == []


def test_how_a_repeat_left_services_is_told_to_the_next_one_of_its_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cold_starts: list[bool] = []

    class Leaves:
        """A repeat that measures nothing, and leaves services cold."""

        windows, closing, lanes, cold = (WINDOW,), (WINDOW,), (), True

        def __init__(self, *_: Any, cold: bool, closes: bool) -> None:
            assert closes
            cold_starts.append(cold)

        def measure(self) -> None:
            """Nothing."""

    monkeypatch.setattr(blocks, "Repeat", Leaves)
    section = LimplockSection(rows=("Z3",))
    rows, unused = Written(load_design("limplock-zookeeper"), section), cast(Any, None)
    for _ in range(2):
        rows._measure_row(unused, section.chosen_rows()[0], "leader", unused, unused, unused, ())
    assert cold_starts == [False, True]


def test_second_0_is_kept_as_the_clients_clock_has_it(tmp_path: Path) -> None:
    rows = Written(load_design("limplock-zookeeper"), LimplockSection(rows=("Z3",)))
    rows.measured(1)
    assert rows.kept[0](tmp_path) == {}
    assert read_windows(tmp_path)[0].monotonic_s == 1700.0
