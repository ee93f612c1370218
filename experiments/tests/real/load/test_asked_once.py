"""`sparecraft check --deep` without its fleet: each operation is asked once."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.commands.import_locustfile import make_locust_design
from experiments.design import load_design
from experiments.design.experiment import LOCUSTFILE, OPERATIONS
from experiments.run import deep_check
from experiments.run.deep_check import NAME_LENGTH_MAX, ask_once, small_name, smallest
from experiments.tests.locust_fixture import ORDINARY, answering
from experiments.tests.operations_fixture import BUY, LOG_IN, PAGE, SESSION, USERS, read
from experiments.tests.rest_shop import rest_shop
from experiments.tests.spec_fixture import design


def test_each_operation_is_asked_once_and_a_session_gone_through(tmp_path: Path) -> None:
    shop_design = read(tmp_path, PAGE, LOG_IN, BUY, SESSION, keys=USERS)
    with rest_shop() as shop:
        replies = ask_once(shop_design, {"web": (shop.url,)}, shop_design.workloads[OPERATIONS])
    assert [(reply.operation, reply.outcome, reply.status) for reply in replies] == [
        ("page", "bad_status", 404),
        ("log in", "ok", 200),
        ("buy", "ok", 201),
    ]
    assert (replies[0].begin, replies[0].reason, replies[0].bytes) == ("none", "status 404", 4)
    assert '"token": "t-ann"' in replies[1].begin
    assert [request.path for request in shop.asked] == ["/", "/login", "/cart"]


def test_steps_after_one_that_failed_are_not_asked(tmp_path: Path) -> None:
    shop_design = read(tmp_path, LOG_IN, BUY, SESSION, keys=USERS)
    with rest_shop() as shop:
        shop.gives_tokens = False
        replies = ask_once(shop_design, {"web": (shop.url,)}, shop_design.workloads[OPERATIONS])
    assert [(reply.outcome, reply.reason) for reply in replies] == [
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
    shop_design = load_design(tmp_path / "shop")
    with answering() as server:
        replies = ask_once(shop_design, {"web": (server.url,)}, shop_design.workloads[LOCUSTFILE])
    outcomes = {reply.operation: reply.outcome for reply in replies}
    assert outcomes["POST /first"] == outcomes["GET /missing"] == "ok"
    assert len(replies) == len(outcomes), "each request once"
    assert server.paths().count("/login") == 1


def test_the_smallest_fleet_is_one_machine_of_each_tier_with_a_name_of_its_own(
    tmp_path: Path,
) -> None:
    full_design = design(tmp_path / "whole")
    folder = tmp_path / "small"
    folder.mkdir()
    smallest_design = smallest(full_design, folder)
    assert {name: tier.nodes for name, tier in smallest_design.fleet.tiers.items()} == {
        "web": 1,
        "db": 1,
    }
    assert not any(tier.standby for tier in smallest_design.fleet.tiers.values())
    assert smallest_design.fleet.experiment not in ("", full_design.fleet.experiment)
    assert len(small_name("x" * NAME_LENGTH_MAX)) == NAME_LENGTH_MAX
    assert list(smallest_design.experiment.arms) == ["baseline"]
    assert load_design(folder).fleet == smallest_design.fleet, "its files are those of a design"


def test_what_the_smallest_fleet_needs_is_copied_beside_it(tmp_path: Path) -> None:
    shop_design = read(tmp_path / "whole", LOG_IN, BUY, SESSION, keys=USERS)
    folder = tmp_path / "small"
    folder.mkdir()
    smallest(shop_design, folder)
    assert (folder / "users.csv").read_text() == (tmp_path / "whole/users.csv").read_text()
