"""`sparecraft check --deep` without its fleet: each operation is asked once."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.commands.import_locustfile import make_locust_design
from experiments.design import load_design
from experiments.design.experiment import LOCUSTFILE, OPERATIONS
from experiments.run import deep_check
from experiments.run.deep_check import NAME_LENGTH_MAX, asked_once, small_name, smallest
from experiments.tests.locust_fixture import ORDINARY, answering
from experiments.tests.operations_fixture import BUY, LOG_IN, PAGE, SESSION, USERS, read
from experiments.tests.rest_shop import rest_shop
from experiments.tests.spec_fixture import design


def test_each_operation_is_asked_once_and_a_session_gone_through(tmp_path: Path) -> None:
    found = read(tmp_path, PAGE, LOG_IN, BUY, SESSION, keys=USERS)
    with rest_shop() as shop:
        asked = asked_once(found, {"web": (shop.url,)}, found.workloads[OPERATIONS])
    assert [(one.operation, one.outcome, one.status) for one in asked] == [
        ("page", "bad_status", 404),
        ("log in", "ok", 200),
        ("buy", "ok", 201),
    ]
    assert (asked[0].begin, asked[0].reason, asked[0].bytes) == ("none", "status 404", 4)
    assert '"token": "t-ann"' in asked[1].begin
    assert [one.path for one in shop.asked] == ["/", "/login", "/cart"]


def test_steps_after_one_that_failed_are_not_asked(tmp_path: Path) -> None:
    found = read(tmp_path, LOG_IN, BUY, SESSION, keys=USERS)
    with rest_shop() as shop:
        shop.gives_tokens = False
        asked = asked_once(found, {"web": (shop.url,)}, found.workloads[OPERATIONS])
    assert [(one.outcome, one.reason) for one in asked] == [
        ("bad_content", "no token"),
        ("unreached", ""),
    ]
    assert len(shop.asked) == 1


def test_a_user_of_each_class_of_a_locust_file_does_some_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deep_check, "_FILE_GAP_S", 0.1)
    file = tmp_path / "users.py"
    file.write_text(ORDINARY)
    make_locust_design(file, tmp_path / "shop")
    found = load_design(tmp_path / "shop")
    with answering() as server:
        asked = asked_once(found, {"web": (server.url,)}, found.workloads[LOCUSTFILE])
    outcomes = {one.operation: one.outcome for one in asked}
    assert outcomes["POST /first"] == outcomes["GET /missing"] == "ok"
    assert len(asked) == len(outcomes), "each request once"
    assert server.paths().count("/login") == 1


def test_the_smallest_fleet_is_one_machine_of_each_tier_with_a_name_of_its_own(
    tmp_path: Path,
) -> None:
    whole = design(tmp_path / "whole")
    folder = tmp_path / "small"
    folder.mkdir()
    small = smallest(whole, folder)
    assert {name: tier.nodes for name, tier in small.fleet.tiers.items()} == {"web": 1, "db": 1}
    assert not any(tier.standby for tier in small.fleet.tiers.values())
    assert small.fleet.experiment not in ("", whole.fleet.experiment)
    assert len(small_name("x" * NAME_LENGTH_MAX)) == NAME_LENGTH_MAX
    assert list(small.experiment.arms) == ["baseline"]
    assert load_design(folder).fleet == small.fleet, "its files are those of a design"


def test_what_the_smallest_fleet_needs_is_copied_beside_it(tmp_path: Path) -> None:
    found = read(tmp_path / "whole", LOG_IN, BUY, SESSION, keys=USERS)
    folder = tmp_path / "small"
    folder.mkdir()
    smallest(found, folder)
    assert (folder / "users.csv").read_text() == (tmp_path / "whole/users.csv").read_text()
