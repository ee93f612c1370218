"""Checks of arms against sPARE's limits: copies that meet on one server, and too much work.

Two copies of a page that the first tier sends to different servers may meet on a server of a later
tier, and then the page waits for the slowest one. `tune` and `plan` keep to the same limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.config_file import Problem
from experiments.design.experiment import Arm, Experiment
from experiments.design.fleet import MACHINES_MAX, Fleet
from experiments.design.utilisation import copies_of
from optimizer.replication import COLLISION_MAX, collision_probability

Rule = Literal["collision", "stability"]
Utilisation = Mapping[str, Mapping[str, float]]  # by arm and tier, with the arm's own copies

_EXPECTED: Mapping[Rule, str] = {
    "collision": "copies that mostly stay apart (sPARE Eq. 1 and 2)",
    "stability": "less work than the nodes can do (sPARE Eq. 4)",
}
UTILISATION_MAX = 1.0  # sPARE Eq. 4, strictly below


@dataclass(frozen=True)
class Infeasible:
    """An arm's tier that breaks a limit; `allowed` if the arm has `allow_infeasible`."""

    arm: str
    tier: str
    rule: Rule
    value: float
    limit: float
    allowed: bool
    what: str
    hint: str


def infeasible(
    experiment: Experiment, fleet: Fleet, utilisation: Utilisation | None = None
) -> list[Infeasible]:
    """Return all violations of a limit, arm by arm, tiers from the front.

    Parameters: utilisation, lambda r T / (M V), if a calibration or an earlier run measured it.
    Source: sPARE Eq. 1 and 2 (collision), Eq. 4 (stability). Eq. 5 and 6 need the time that a
    token is held, which only arbiters under load know: `tune` and `plan` check these.
    """
    return [
        violation
        for name, arm in experiment.arms.items()
        for violation in _find_in_arm(name, arm, fleet, (utilisation or {}).get(name, {}))
    ]


def feasibility_problems(
    experiment: Experiment, fleet: Fleet, utilisation: Utilisation | None = None
) -> Iterator[Problem]:
    """Yield the violations as problems of experiment.toml, except those that an arm allows."""
    for violation in infeasible(experiment, fleet, utilisation):
        if not violation.allowed:
            key = ("arms", violation.arm, "settings", violation.tier, "replicas")
            yield Problem(key, _EXPECTED[violation.rule], violation.what, violation.hint)


def infeasible_words(record: Mapping[str, Any]) -> str:
    """Return a sentence for a violation, given as in `result.json`."""
    return (
        f"{record['arm']} is not feasible by sPARE's limits: {record['what']}; it says so itself."
    )


def _find_in_arm(
    name: str, arm: Arm, fleet: Fleet, utilisation: Mapping[str, float]
) -> Iterator[Infeasible]:
    def make_violation(
        tier: str, rule: Rule, value: float, limit: float, description: str, hint: str
    ) -> Infeasible:
        hint = f"{hint}, or say allow_infeasible = true under [arms.{name}]."
        return Infeasible(name, tier, rule, value, limit, arm.allow_infeasible, description, hint)

    copies = copies_of(arm.replicas, fleet)
    for tier in fleet.arbiter_order:
        nodes, replicas = fleet.tiers[tier].nodes, arm.of(tier).replicas
        above = round(copies[tier] / replicas)  # a_{1,j-1} of sPARE Eq. 2
        probability = collision_probability(nodes, above, replicas)
        if probability > COLLISION_MAX:
            description = (
                f"{above} x {replicas} copies of one request on the {nodes} nodes of {tier} meet "
                f"on one with probability {probability:.3g} (at most {COLLISION_MAX:g})"
            )
            node_hint = _node_hint(tier, above, replicas)
            hint = f"Let {tier} or the tiers before it have fewer replicas{node_hint}"
            yield make_violation(tier, "collision", probability, COLLISION_MAX, description, hint)
        share = utilisation.get(tier)
        if share is not None and share >= UTILISATION_MAX:
            description = f"{tier} is asked for {share:.0%} of what its nodes can do (below 100 %)"
            hint = "Lower the load or the replicas, or give it more nodes or cpus"
            yield make_violation(tier, "stability", share, UTILISATION_MAX, description, hint)


def _node_hint(tier: str, above: int, replicas: int) -> str:
    """Return the hint with the number of nodes that is enough; "" if none is."""
    for nodes in range(above * replicas, MACHINES_MAX + 1):
        if collision_probability(nodes, above, replicas) <= COLLISION_MAX:
            return f", or give {tier} {nodes} nodes"
    return ""
