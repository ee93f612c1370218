"""Dry runs, and what a new design begins as."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from core.errors import InputError
from experiments.cli import app
from experiments.commands.init import make_design
from experiments.design.contracts import KINDS
from experiments.design.interference import episodes
from experiments.design.schedule import block_length_s, blocks
from experiments.tests.called import call
from experiments.tests.spec_fixture import design, write


def told(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.output))


def test_a_run_that_cannot_be_closed_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    folder = str(write(tmp_path))
    assert told("run", folder, "--dry-run", "--close")["closes"] is True
    for words in ([folder, "--platform", "ec2"], [folder, "--platform", "hosts"], ["press-load"]):
        done = CliRunner().invoke(app, ["run", *words, "--close"])
        assert isinstance(done.exception, InputError), done.output
        assert done.exception.place == "--close"
    attached = CliRunner().invoke(app, ["run", folder, "--close", "--attach", "fleet.json"])
    assert isinstance(attached.exception, InputError), attached.output
    assert attached.exception.place == "--attach"


@pytest.fixture
def without_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Only shells on PATH, which read scripts; an empty folder to be in."""
    here, shells = tmp_path / "here", tmp_path / "shells"
    for folder in (here, shells):
        folder.mkdir()
    for name in ("sh", "bash"):
        (shells / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(shells))
    monkeypatch.chdir(here)
    return here


def test_a_dry_run_says_what_check_says_and_touches_nothing(
    without_programs: Path, tmp_path: Path
) -> None:
    folder = str(write(tmp_path))
    found = told("run", folder, "--dry-run")
    assert (found.pop("dry_run"), found.pop("closes")) == (True, False)
    checked = told("check", folder)
    assert checked.pop("valid") is True
    assert found == checked
    assert list(without_programs.iterdir()) == []


def test_each_fault_is_named_with_its_machines_commands_and_undo(tmp_path: Path) -> None:
    found = told("check", str(write(tmp_path)))["disturbances"]
    faults = {one["kind"]: one for one in found if one["what"] == "fault"}
    count = len(blocks(design(tmp_path).experiment))
    crash, limp = faults["process.crash"], faults["net.limp"]
    assert crash["machines"] == {"web-1": {"times": count, "seconds": 15.0 * count}}
    assert crash["at_s"] == 15 + 10
    assert limp["machines"] == {"db-2": {"times": count, "seconds": 40.0 * count}}  # sticky
    assert "NIC/10;" in limp["commands"]
    assert all(one["commands"] and one["undo"] for one in found)
    assert not any("{" in one["commands"] + one["undo"] for one in found)


def test_neighbours_are_counted_as_they_are_drawn(tmp_path: Path) -> None:
    read = design(tmp_path)
    asked, length_s = read.experiment, block_length_s(read.experiment)
    drawn = [
        episode
        for block in blocks(asked)
        for episode in episodes(asked.interference, read.fleet, length_s, block.seed)
        if episode.kind == "interference.cpu"
    ]
    found = told("check", str(tmp_path))["disturbances"]
    (cpu,) = (one for one in found if one["kind"] == "interference.cpu")
    assert sum(one["times"] for one in cpu["machines"].values()) == len(drawn)
    seconds = sum(one["seconds"] for one in cpu["machines"].values())
    assert seconds == pytest.approx(sum(one.duration_s for one in drawn), abs=1.0)


def test_a_quiet_dry_run_disturbs_only_by_faults(tmp_path: Path) -> None:
    found = told("run", str(write(tmp_path)), "--dry-run", "--interference", "none")
    assert {one["what"] for one in found["disturbances"]} == {"fault"}
    assert found["at_once"] == {"web": 1, "db": 1}


def test_crashes_of_failover_may_come_to_all_machines_of_a_tier() -> None:
    found = told("run", "schemes-pf", "--dry-run")
    (crash,) = found["disturbances"]
    assert crash["kind"] == "machine.crash"
    assert found["at_once"] == {"web": len(crash["machines"]), "db": 0}


def test_what_a_kind_strikes_together_is_counted_together() -> None:
    at_once = told("run", "failover-faults", "--dry-run")["at_once"]
    assert at_once == {"lots": 2, "manager": 1, "names": 1, "database": 1}
    assert told("run", "press-faults", "--dry-run")["at_once"] == {"web": 4}


def test_a_load_of_unknown_length_has_no_price_of_its_own() -> None:
    assert told("run", "redis-capacity", "--dry-run")["cost"]["usd_of_load"] is None
    known = told("run", "mediawiki-noisy", "--dry-run")
    expected = known["cost"]["usd_per_hour"] * known["load_s"] / 3600
    assert known["cost"]["usd_of_load"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_it_runs_and_how_that_is_undone(kind: str) -> None:
    one = KINDS[kind]
    for text in (one.commands, one.undo):
        assert text
        assert "{" not in one.render(text, {})


def test_what_a_person_reads_has_commands_and_undo(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", str(write(tmp_path)), "--dry-run"])
    assert done.exit_code == 0
    words = done.output.split()
    assert words.count("commands") == words.count("undo") > 2
    assert done.output.rstrip().endswith("Nothing was touched.")


def test_a_new_design_has_its_own_name_and_passes_the_check(tmp_path: Path) -> None:
    folder = tmp_path / "flower-shop"
    made = call("init", str(folder))
    assert made.exit_code == 0, made.output
    assert 'experiment = "flower-shop"' in (folder / "fleet.tfvars").read_text()
    checked = call("check", str(folder))
    assert checked.exit_code == 0, checked.output


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "precious.txt").write_text("mine")
    with pytest.raises(InputError) as refused:
        make_design(folder)
    assert refused.value.place == str(folder)
    assert [path.name for path in folder.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize("name", ["My-Shop", "1shop", "shop-", "a" * 31, "shop.d", "shop_x"])
def test_a_name_that_no_fleet_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as refused:
        make_design(tmp_path / name)
    assert refused.value.got == repr(name)
    assert list(tmp_path.iterdir()) == []
