"""Designs that hold sPARE's figures against the fleet: arms as in the paper, one thing apart."""

from __future__ import annotations

from itertools import pairwise

import pytest

from experiments import kinds
from experiments.design import load_design
from experiments.design.experiment import Arm
from experiments.design.feasible import infeasible
from experiments.kinds.tune.section import TuneSection


def differences(arm: Arm, next_arm: Arm) -> set[tuple[str, str]]:
    """Differences by tier without tokens: they are the policy's."""
    return {
        (tier, key)
        for tier in ("web", "db")
        for key in ("policy", "replicas", "look_ahead")
        if getattr(arm.of(tier), key) != getattr(next_arm.of(tier), key)
    }


CHOICE = {("web", "policy"), ("db", "policy")}


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("mediawiki-simple", [{("web", "replicas")}, CHOICE, CHOICE]),
        ("mediawiki-arbiters", [{("db", "policy")}, {("web", "policy")}, {("db", "policy")}]),
        (
            "mediawiki-look-ahead",
            [
                {("web", "look_ahead"), ("db", "look_ahead")},
                {("web", "replicas")},
                {("web", "look_ahead"), ("db", "look_ahead")},
            ],
        ),
    ],
)
def test_each_arm_differs_from_the_one_before_it_in_one_thing(
    name: str, steps: list[set[tuple[str, str]]]
) -> None:
    design = load_design(name)
    arms = design.experiment.arms.values()
    assert [differences(*pair) for pair in pairwise(arms)] == steps
    assert infeasible(design.experiment, design.fleet) == []
    assert design.experiment.interference.pattern == "both"


def test_simple_copies_pages_at_the_first_tier_alone_and_chooses_servers_in_turn() -> None:
    simple = load_design("mediawiki-simple").experiment.arms["simple"]
    assert [simple.of(tier).policy for tier in ("web", "db")] == ["round-robin"] * 2
    assert (simple.of("web").replicas, simple.of("db").replicas) == (2, 1)


def test_the_replicator_has_the_paper_s_policy_and_a_budget_for_a_p99() -> None:
    design = load_design("mediawiki-replicator")
    section = kinds.section_of(kinds.find("tune"), design)
    assert isinstance(section, TuneSection)
    adapted_design = kinds.find("tune").adapted(design, section)
    assert list(adapted_design.experiment.arms) == ["1,1", "1,2", "1,3", "2,1"]
    assert {arm.of("web").policy for arm in adapted_design.experiment.arms.values()} == {
        "tad-paper"
    }
    requests_per_arm = section.requests_max / 2
    assert requests_per_arm - int(0.99 * requests_per_arm) >= 10, "samples beyond the p99 of each r"
