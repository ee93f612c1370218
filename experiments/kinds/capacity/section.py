"""`[capacity]`: the workloads for one node, and the growth of the steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from core.config_file import Strict
from experiments.design import Check, Design
from experiments.design.experiment import Experiment, Rate, User


class Workload(Strict):
    """A further workload on the same node."""

    user: User
    """Name of the workload."""
    rate_per_s: Rate
    """Rate of the first step."""
    p95_ms: Annotated[float, Field(gt=0)]
    """Limit of p95."""


@dataclass(frozen=True)
class Question:
    """A search for NodT of one workload on one arm. `name` is its key in the result: the
    workload's name, followed by the arm's where there are several arms."""

    name: str
    arm: str
    workload: Workload
    against: str = ""
    """The question of the same workload on the first arm; "" for that one itself."""


class CapacitySection(Strict):
    """The load is raised step by step until p95 passes its limit (PCRAFT V.B).

    The first workload is the load's own user, from the load's rate on, with the SLO's p95; `also`
    adds others on the same node. Each step has `factor` times the rate of the one before, and lasts
    as long as `measure` says, or until `requests_min` requests can be expected. Each arm, such as a
    variant of the node's program, gets each workload; sweeps take arms in turn.
    """

    factor: Annotated[float, Field(ge=1.05, le=4.0)] = 1.3
    """Rate of a step over the rate of the step before."""
    steps_max: Annotated[int, Field(ge=3, le=40)] = 16
    """Largest number of steps."""
    requests_min: Annotated[int, Field(ge=1, le=100_000)] = 70
    """Least expected requests of a step."""
    also: Annotated[tuple[Workload, ...], Field(strict=False, max_length=8)] = ()
    """Other workloads on the same node."""

    def workloads(self, experiment: Experiment) -> tuple[Workload, ...]:
        load = experiment.load
        main = Workload(user=load.user, rate_per_s=load.sent_per_s, p95_ms=experiment.slo.p95_ms)
        return (main, *self.also)

    def questions(self, experiment: Experiment) -> tuple[Question, ...]:
        first, *others = experiment.arms
        workloads = self.workloads(experiment)
        if not others:
            return tuple(Question(workload.user, first, workload) for workload in workloads)
        return tuple(
            Question(
                f"{workload.user}-{arm}",
                arm,
                workload,
                f"{workload.user}-{first}" if arm != first else "",
            )
            for arm in experiment.arms
            for workload in workloads
        )

    def check(self, design: Design) -> None:
        experiment, tier = design.experiment, design.fleet.entry_tier
        nodes = design.fleet.tiers[tier].nodes
        role = design.fleet.tiers[tier].role
        able = {name for name, workload in design.workloads.items() if role in workload.roles}
        users = [workload.user for workload in self.workloads(experiment)]
        names = [question.name for question in self.questions(experiment)]
        checks: Iterable[Check] = (
            ("arms", len(set(names)) != len(names), "workload-arm to name one pair each",
             ", ".join(names)),
            ("faults", bool(experiment.faults), "no faults", f"{len(experiment.faults)} faults"),
            ("interference", experiment.interference.pattern != "none", "no neighbours",
             experiment.interference.pattern),
            ("capacity", nodes != 1, f"one node in the entry tier {tier}", f"{nodes} nodes"),
            ("capacity.also", len(set(users)) != len(users), "each user once", ", ".join(users)),
            ("capacity.also", not set(users) <= able, f"users that can ask {role}",
             ", ".join(users)),
        )  # fmt: skip
        design.refuse(checks, "What one node can carry is measured undisturbed.")
