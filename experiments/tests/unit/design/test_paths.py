"""A word names a design; its seed and its addresses on the network."""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.commands.report import newest
from experiments.design import designs_available, load_design
from experiments.design.design import DESIGNS
from experiments.record.manifest import spec_json
from experiments.testbed.platforms.local.addresses import (
    PORTS,
    choose_addresses,
    networks_of,
    ports_of,
)
from experiments.tests.called import answer, refusal
from experiments.tests.spec_fixture import TOML, write

BUILT_IN = "mediawiki-noisy"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a design of its own, named as a built-in one."""
    folder = tmp_path / "mine" / BUILT_IN
    folder.mkdir(parents=True)
    write(folder)
    monkeypatch.chdir(folder.parent)
    return folder


@pytest.mark.parametrize("text", [f"./{BUILT_IN}", f"../mine/{BUILT_IN}", f"{BUILT_IN}/", "{}"])
def test_a_path_is_never_taken_for_a_built_in_design_s_name(here: Path, text: str) -> None:
    assert load_design(text.format(here)).directory == here.resolve()
    assert load_design(Path(BUILT_IN)).directory == here.resolve()


@pytest.mark.parametrize("text", [".", "./", "../mediawiki-noisy", "../../mine/mediawiki-noisy"])
def test_check_reads_the_folder_that_one_stands_in(
    here: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(here)
    assert answer("check", text)["experiment"] == load_design(here).fleet.experiment


@pytest.mark.parametrize("text", ["./none", "..", "/", "./mediawiki-policies"])
def test_a_path_without_a_design_is_refused(here: Path, text: str) -> None:
    del here
    with pytest.raises(InputError):
        load_design(text)
    assert refusal("check", text).exit_code == 2


def test_a_name_that_is_a_folder_here_too_is_refused_with_both(here: Path) -> None:
    with pytest.raises(InputError) as error:
        load_design(BUILT_IN)
    assert f"./{BUILT_IN}" in error.value.hint
    assert str(DESIGNS / BUILT_IN) in error.value.hint
    (here / "experiment.toml").unlink()  # a folder of something else is in nobody's way
    assert load_design(BUILT_IN).directory == (DESIGNS / BUILT_IN).resolve()


def test_where_the_designs_are_their_names_are_no_second_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(DESIGNS)
    assert load_design(BUILT_IN).directory == (DESIGNS / BUILT_IN).resolve()


def test_init_makes_no_design_that_a_built_in_one_would_hide(tmp_path: Path) -> None:
    name = designs_available()[0]
    assert refusal("init", str(tmp_path / name)).exit_code == 2
    assert os.listdir(tmp_path) == []


def test_report_looks_below_a_path_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "results" / "shop" / "R" / "report.html"
    page.parent.mkdir(parents=True)
    page.touch()
    monkeypatch.chdir(tmp_path)
    for text in ("shop", "results/shop", "./results/shop", "results/shop/R", str(page.parent)):
        assert newest(text, Path("results")).resolve() == page
    with pytest.raises(InputError):
        newest("./shop", Path("results"))


def _addresses(stated: dict[str, Any], current: dict[str, Any], *fleets: dict[str, Any]) -> Any:
    return choose_addresses(stated, current, further_entries=["side"], taken_ports=ports_of(fleets),
                  taken_networks=networks_of(fleets))  # fmt: skip


def test_a_fleet_gets_what_no_other_fleet_has() -> None:
    fleets: list[dict[str, Any]] = []
    for _ in range(16):
        fleets.append(_addresses({}, {}, *fleets))
    networks = [
        IPv4Network(fleet[name]) for fleet in fleets for name in ("data_cidr", "control_cidr")
    ]
    assert not any(a.overlaps(b) for a in networks for b in networks if a is not b)
    assert len(ports_of(fleets)) == 16 * (len(PORTS) + 1)
    data, control = (str(fleets[-1][name]) for name in ("data_cidr", "control_cidr"))
    assert data.removeprefix("198.18") == control.removeprefix("198.19")
    with pytest.raises(EnvironmentMissing) as error:
        _addresses({}, {}, *fleets)
    assert error.value.place == "address ranges of the fleet"


def test_what_is_stated_is_not_chosen_and_its_twin_follows() -> None:
    stated = {"entry_port": 18100, "control_cidr": "198.19.64.0/18"}
    addresses = _addresses(stated, {}, {"influxdb_port": PORTS["influxdb_port"]})
    assert addresses["data_cidr"] == "198.18.64.0/18"
    assert not addresses.keys() & stated.keys()
    assert addresses["influxdb_port"] > PORTS["influxdb_port"]
    cidrs = {"data_cidr": "198.18.0.0/16", "control_cidr": "198.19.0.0/16"}
    assert not _addresses(cidrs, {}).keys() & cidrs.keys()


def test_a_fleet_that_is_up_keeps_its_addresses() -> None:
    first = _addresses({}, {}, {"data_cidr": "198.18.0.0/20", "entry_port": PORTS["entry_port"]})
    assert first["data_cidr"] == "198.18.16.0/20"
    assert _addresses({}, first) == first


def test_a_port_that_somebody_listens_on_is_not_taken() -> None:
    port = _addresses({}, {})["entry_port"]
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        assert _addresses({}, {})["entry_port"] > port


def test_a_stated_port_is_not_chosen_for_something_else() -> None:
    addresses = _addresses({"entry_port": PORTS["influxdb_port"]}, {})
    assert addresses["influxdb_port"] != PORTS["influxdb_port"]


STATED = "seed = 20260101\n"
UNSTATED = TOML.replace(STATED, "")


def test_a_design_without_a_seed_has_another_each_time(tmp_path: Path) -> None:
    assert STATED in TOML
    folder = write(tmp_path, toml=UNSTATED)
    seeds = {load_design(folder).experiment.design.seed for _ in range(3)}
    assert len(seeds) > 1


def test_the_manifest_has_the_seed_that_was_drawn(tmp_path: Path) -> None:
    design = load_design(write(tmp_path, toml=UNSTATED))
    assert spec_json(design)["design"]["seed"] == design.experiment.design.seed
    assert not design.experiment.design.seed_is_stated


def test_a_seed_that_is_given_goes_before_the_designs(tmp_path: Path) -> None:
    for toml in (TOML, UNSTATED):
        order = load_design(write(tmp_path, toml=toml), seed=5).experiment.design
        assert (order.seed, order.seed_is_stated) == (5, True)
    assert load_design(write(tmp_path)).experiment.design.seed == 20260101


def test_check_and_a_dry_run_say_the_seed_and_whether_the_next_run_has_it(tmp_path: Path) -> None:
    folder = str(write(tmp_path, toml=UNSTATED))
    assert answer("check", folder)["seed"]["stated"] is False
    first_report = answer("run", folder, "--dry-run", "--seed", "5")
    assert first_report["seed"] == {"value": 5, "stated": True}
    second_report = answer("run", folder, "--dry-run", "--seed", "5")
    assert second_report["disturbances"] == first_report["disturbances"]
