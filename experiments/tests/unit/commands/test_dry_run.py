"""Dry runs, and what a new design begins as."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.errors import InputError
from experiments.commands.init import make_design
from experiments.design.contracts import KINDS
from experiments.design.interference import episodes
from experiments.design.schedule import block_length_s, blocks
from experiments.tests.called import answer, call, refusal
from experiments.tests.spec_fixture import design, write


def test_a_run_that_cannot_be_closed_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    folder = str(write(tmp_path))
    assert answer("run", folder, "--dry-run", "--close")["closes"] is True
    for arguments in (
        [folder, "--platform", "ec2"],
        [folder, "--platform", "hosts"],
        ["press-load"],
    ):
        error = refusal("run", *arguments, "--close")
        assert (error.place, error.exit_code) == ("--close", 2)
    for option in (["--next-cheaper"], ["--close-minutes", "10"]):
        assert refusal("run", folder, *option).place == option[0]
    error = refusal("run", folder, "--close", "--attach", "fleet.json")
    assert (error.place, error.exit_code) == ("--attach", 2)


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
    report = answer("run", folder, "--dry-run")
    assert (report.pop("dry_run"), report.pop("closes")) == (True, False)
    check_report = answer("check", folder)
    assert check_report.pop("valid") is True
    assert report == check_report
    assert list(without_programs.iterdir()) == []


def test_each_fault_is_named_with_its_machines_commands_and_undo(tmp_path: Path) -> None:
    disturbances = answer("check", str(write(tmp_path)))["disturbances"]
    faults = {
        disturbance["kind"]: disturbance
        for disturbance in disturbances
        if disturbance["what"] == "fault"
    }
    count = len(blocks(design(tmp_path).experiment))
    crash, limp = faults["process.crash"], faults["net.limp"]
    assert crash["machines"] == {"web-1": {"times": count, "seconds": 15.0 * count}}
    assert crash["at_s"] == 15 + 10
    assert limp["machines"] == {"db-2": {"times": count, "seconds": 40.0 * count}}  # sticky
    assert "NIC/10;" in limp["commands"]
    assert all(disturbance["commands"] and disturbance["undo"] for disturbance in disturbances)
    assert not any(
        "{" in disturbance["commands"] + disturbance["undo"] for disturbance in disturbances
    )


def test_neighbours_are_counted_as_they_are_drawn(tmp_path: Path) -> None:
    read = design(tmp_path)
    experiment, length_s = read.experiment, block_length_s(read.experiment)
    cpu_episodes = [
        episode
        for block in blocks(experiment)
        for episode in episodes(experiment.interference, read.fleet, length_s, block.seed)
        if episode.kind == "interference.cpu"
    ]
    disturbances = answer("check", str(tmp_path))["disturbances"]
    (cpu,) = (
        disturbance for disturbance in disturbances if disturbance["kind"] == "interference.cpu"
    )
    assert sum(counts["times"] for counts in cpu["machines"].values()) == len(cpu_episodes)
    seconds = sum(counts["seconds"] for counts in cpu["machines"].values())
    assert seconds == pytest.approx(sum(episode.duration_s for episode in cpu_episodes), abs=1.0)


def test_a_quiet_dry_run_disturbs_only_by_faults(tmp_path: Path) -> None:
    report = answer("run", str(write(tmp_path)), "--dry-run", "--interference", "none")
    assert {disturbance["what"] for disturbance in report["disturbances"]} == {"fault"}
    assert report["at_once"] == {"web": 1, "db": 1}


def test_crashes_of_failover_may_come_to_all_machines_of_a_tier() -> None:
    report = answer("run", "schemes-pf", "--dry-run")
    (crash,) = report["disturbances"]
    assert crash["kind"] == "machine.crash"
    assert report["at_once"] == {"web": len(crash["machines"]), "db": 0}


def test_what_a_kind_strikes_together_is_counted_together() -> None:
    at_once = answer("run", "failover-faults", "--dry-run")["at_once"]
    assert at_once == {"lots": 2, "manager": 1, "names": 1, "database": 1}
    assert answer("run", "press-faults", "--dry-run")["at_once"] == {"web": 4}


def test_a_load_of_unknown_length_has_no_price_of_its_own() -> None:
    assert answer("run", "redis-capacity", "--dry-run")["cost"]["usd_of_load"] is None
    report = answer("run", "mediawiki-noisy", "--dry-run")
    expected = report["cost"]["usd_per_hour"] * report["load_s"] / 3600
    assert report["cost"]["usd_of_load"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_it_runs_and_how_that_is_undone(kind: str) -> None:
    contract = KINDS[kind]
    for text in (contract.commands, contract.undo):
        assert text
        assert "{" not in contract.render(text, {})


def test_what_a_person_reads_has_commands_and_undo(tmp_path: Path) -> None:
    result = call("run", str(write(tmp_path)), "--dry-run")
    assert result.exit_code == 0
    words = result.output.split()
    assert words.count("commands") == words.count("undo") > 2
    assert result.output.rstrip().endswith("Nothing was touched.")


def test_a_new_design_has_its_own_name_and_passes_the_check(tmp_path: Path) -> None:
    folder = tmp_path / "flower-shop"
    init_result = call("init", str(folder))
    assert init_result.exit_code == 0, init_result.output
    assert 'experiment = "flower-shop"' in (folder / "fleet.tfvars").read_text()
    check_result = call("check", str(folder))
    assert check_result.exit_code == 0, check_result.output


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "precious.txt").write_text("mine")
    with pytest.raises(InputError) as error:
        make_design(folder)
    assert error.value.place == str(folder)
    assert [path.name for path in folder.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize("name", ["My-Shop", "1shop", "shop-", "a" * 31, "shop.d", "shop_x"])
def test_a_name_that_no_fleet_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as error:
        make_design(tmp_path / name)
    assert error.value.got == repr(name)
    assert list(tmp_path.iterdir()) == []
