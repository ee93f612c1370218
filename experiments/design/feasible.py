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
    """An arm's tier that breaks a limit; `allowed` where the arm says `allow_infeasible`."""

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
    """All that breaks a limit, arm by arm, tiers from the front.

    Parameters: utilisation, lambda r T / (M V), where a calibration or an earlier run knows it.
    Source: sPARE Eq. 1 and 2 (collision), Eq. 4 (stability). Eq. 5 and 6 need the time that a
    token is held, which only arbiters under load know: `tune` and `plan` keep to these.
    """
    return [
        one
        for name, arm in experiment.arms.items()
        for one in _of_arm(name, arm, fleet, (utilisation or {}).get(name, {}))
    ]


def feasibility_problems(
    experiment: Experiment, fleet: Fleet, utilisation: Utilisation | None = None
) -> Iterator[Problem]:
    """Yield the same as problems of experiment.toml, but for what an arm allows."""
    for one in infeasible(experiment, fleet, utilisation):
        if not one.allowed:
            key = ("arms", one.arm, "settings", one.tier, "replicas")
            yield Problem(key, _EXPECTED[one.rule], one.what, one.hint)


def infeasible_words(one: Mapping[str, Any]) -> str:
    """One of them in a sentence, as `result.json` has it."""
    return f"{one['arm']} is not feasible by sPARE's limits: {one['what']}; it says so itself."


def _of_arm(
    name: str, arm: Arm, fleet: Fleet, utilisation: Mapping[str, float]
) -> Iterator[Infeasible]:
    def infeasible(
        tier: str, rule: Rule, value: float, limit: float, what: str, hint: str
    ) -> Infeasible:
        hint = f"{hint}, or say allow_infeasible = true under [arms.{name}]."
        return Infeasible(name, tier, rule, value, limit, arm.allow_infeasible, what, hint)

    copies = copies_of(arm.replicas, fleet)
    for tier in fleet.arbiter_order:
        nodes, replicas = fleet.tiers[tier].nodes, arm.of(tier).replicas
        above = round(copies[tier] / replicas)  # a_{1,j-1} of sPARE Eq. 2
        met = collision_probability(nodes, above, replicas)
        if met > COLLISION_MAX:
            what = (
                f"{above} x {replicas} copies of one request on the {nodes} nodes of {tier} meet "
                f"on one with probability {met:.3g} (at most {COLLISION_MAX:g})"
            )
            more = _more(tier, above, replicas)
            hint = f"Let {tier} or the tiers before it have fewer replicas{more}"
            yield infeasible(tier, "collision", met, COLLISION_MAX, what, hint)
        used = utilisation.get(tier)
        if used is not None and used >= UTILISATION_MAX:
            what = f"{tier} is asked for {used:.0%} of what its nodes can do (below 100 %)"
            hint = "Lower the load or the replicas, or give it more nodes or cpus"
            yield infeasible(tier, "stability", used, UTILISATION_MAX, what, hint)


def _more(tier: str, above: int, replicas: int) -> str:
    """Number of nodes that would do."""
    for nodes in range(above * replicas, MACHINES_MAX + 1):
        if collision_probability(nodes, above, replicas) <= COLLISION_MAX:
            return f", or give {tier} {nodes} nodes"
    return ""
