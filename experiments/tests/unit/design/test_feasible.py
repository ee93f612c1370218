"""Arms against sPARE's limits: what is refused, what an arm may allow, and what is judged later."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from experiments.design import load_design
from experiments.design.feasible import infeasible
from experiments.design.text import experiment_text
from experiments.record.manifest import infeasible_json
from experiments.tests.spec_fixture import TFVARS, TOML, design, write
from optimizer.replication import COLLISION_MAX

DB = 'db = { policy = "tad", replicas = 1, tokens = 12 }'
COPIED = TOML.replace(DB, DB.replace("replicas = 1", "replicas = 2"))
ALLOWED = COPIED.replace(
    "[arms.replicated.settings]",
    "[arms.replicated]\nallow_infeasible = true\n[arms.replicated.settings]",
)


def test_copies_that_must_meet_on_a_server_are_refused_with_what_would_help(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        load_design(write(tmp_path, toml=COPIED))
    assert refused.value.place.endswith("arms.replicated.settings.db.replicas")
    assert "probability 1 " in refused.value.got
    assert "give db 8 nodes" in refused.value.hint  # of 7: 1 - 10 / 21, of 8: 1 - 15 / 28
    assert "[arms.replicated]" in refused.value.hint


def test_an_arm_may_allow_it_and_the_manifest_says_so(tmp_path: Path) -> None:
    read = load_design(write(tmp_path, toml=ALLOWED))
    [one] = infeasible_json(read)
    assert (one["arm"], one["tier"], one["rule"], one["value"], one["limit"], one["allowed"]) == (
        "replicated", "db", "collision", 1.0, COLLISION_MAX, True,
    )  # fmt: skip
    again = write(tmp_path, toml=experiment_text(read.experiment, "again"))
    assert load_design(again).experiment == read.experiment


def test_the_limit_itself_may_be_reached(tmp_path: Path) -> None:
    two = TFVARS.replace("nodes = 3", "nodes = 2")
    read = load_design(write(tmp_path, tfvars=two))
    assert infeasible(read.experiment, read.fleet) == []  # two copies on two servers: 1 / 2


def test_a_tier_before_which_nothing_is_copied_has_no_collisions(tmp_path: Path) -> None:
    toml = COPIED.replace("replicas = 2, tokens = 1 ", "replicas = 1, tokens = 1 ")
    read = load_design(write(tmp_path, toml=toml))
    assert infeasible(read.experiment, read.fleet) == []


@pytest.mark.parametrize(("used", "rules"), [(0.999, []), (1.0, ["stability"])])
def test_stability_is_judged_where_the_utilisation_is_known(
    tmp_path: Path, used: float, rules: list[str]
) -> None:
    read = design(tmp_path)
    found = infeasible(read.experiment, read.fleet, {"replicated": {"web": used, "db": 0.2}})
    assert [one.rule for one in found] == rules
    assert all((one.arm, one.tier, one.value) == ("replicated", "web", used) for one in found)
