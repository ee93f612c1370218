"""Checks of an experiment against its fleet, the fleet's roles and itself; all problems at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from core.config_file import Problem
from experiments.design.contracts import (
    COMPARE_OFF,
    MACHINE_KINDS,
    PEERS,
    POLICIES,
    PROTOCOLS,
    SPOKEN,
)
from experiments.design.experiment import (
    NOBODY,
    Arm,
    Experiment,
    Fault,
    Selector,
    TierSettings,
)
from experiments.design.failover import failover_problems
from experiments.design.feasible import feasibility_problems
from experiments.design.fleet import Fleet, replicas_max
from experiments.design.injections import peers_of, selected
from experiments.design.roles import Roles
from experiments.design.workloads import MODULE, Population, Workload, population_of

_NAMES_SHOWN = 10
PAIRS_MIN = 4  # with fewer blocks an interval knows too little of their variation


def experiment_problems(
    experiment: Experiment, fleet: Fleet, roles: Roles, workloads: Mapping[str, Workload]
) -> Iterator[Problem]:
    """Yield the conflicts of a well-formed experiment with this fleet."""
    yield from _user_problems(experiment, fleet, roles, workloads)
    arms = [
        problem
        for name, arm in experiment.arms.items()
        for problem in _arm_problems(name, arm, fleet, roles)
    ]
    yield from arms or feasibility_problems(experiment, fleet)
    yield from _fault_problems(experiment, fleet)
    yield from _order_problems(experiment)
    yield from _phase_problems(experiment)
    yield from _stage_problems(experiment)
    if experiment.failover is not None:
        yield from failover_problems(fleet, experiment.failover)


def _user_problems(
    experiment: Experiment, fleet: Fleet, roles: Roles, workloads: Mapping[str, Workload]
) -> Iterator[Problem]:
    if experiment.load.user == NOBODY and "load" not in experiment.model_fields_set:
        return
    entry_roles = {fleet.tiers[tier].role for tier in fleet.entry_tiers}
    fitting = [user for user, workload in workloads.items() if entry_roles & set(workload.roles)]
    user = experiment.load.user
    if user not in fitting:
        yield Problem(
            ("load", "user"),
            f"a user of an entry tier's role ({', '.join(sorted(entry_roles))}): "
            f"{', '.join(fitting) or '(none)'}",
            user,
            "Name one of these, or let the design bring it in workload.py.",
        )
        return
    protocols = {roles[role].protocol for role in entry_roles & set(workloads[user].roles)}
    own_sender = workloads[user].client or workloads[user].locustfile
    secure = experiment.load.tls_name is not None
    if own_sender is None and not secure and not protocols <= set(SPOKEN):
        expected = f"a protocol that the load speaks ({', '.join(SPOKEN)}), or a client in {MODULE}"
        yield Problem(("load", "user"), expected, f"{user}, by {', '.join(sorted(protocols))}")
    population = population_of(workloads[user])
    yield from _slo_problems(experiment, workloads[user], population)
    entries_named = {operation.entry for operation in (*population.operations, *population.writes)}
    for entry in sorted(entries_named - {"", *fleet.entry_tiers}):
        expected = f"operations on the entry tiers {', '.join(fleet.entry_tiers)}"
        yield Problem(("load", "user"), expected, f"{user}, which asks {entry}")


def _slo_problems(
    experiment: Experiment, workload: Workload, population: Population
) -> Iterator[Problem]:
    """Yield the limits of operations and sessions that the load does not have. The requests of a
    Locust file get their names from its tasks, so their limits are not checked.
    """
    names_by_table = {
        "operations": [
            operation.name for operation in (*population.operations, *population.writes)
        ],
        "sessions": [session.name for session in population.sessions],
    }
    for table, names in names_by_table.items():
        if table == "operations" and workload.locustfile is not None:
            continue
        for name in getattr(experiment.slo, table):
            if name not in names:
                known = ", ".join(names[:_NAMES_SHOWN]) or "(none)"
                more = ", ..." if len(names) > _NAMES_SHOWN else ""
                expected = f"one of the load's {table}: {known}{more}"
                yield Problem(("slo", table, name), expected, repr(name))


def _arm_problems(name: str, arm: Arm, fleet: Fleet, roles: Roles) -> Iterator[Problem]:
    for tier, settings in arm.settings.items():
        key = ("arms", name, "settings", tier)
        if tier not in fleet.tiers:
            expected = f"one of the tiers {', '.join(fleet.tiers)}"
            yield Problem(key, expected, f"the unknown tier {tier}")
            continue
        for problem in (
            *_arbiter_problems(tier, settings, fleet, roles),
            *_setting_problems(tier, settings, fleet, roles),
        ):
            yield Problem((*key, *problem.key), problem.expected, problem.got, problem.hint)


def _arbiter_problems(
    tier: str, settings: TierSettings, fleet: Fleet, roles: Roles
) -> Iterator[Problem]:
    spec = fleet.tiers[tier]
    if tier not in fleet.arbiters:
        for key in sorted(settings.model_fields_set & set(TierSettings.model_fields)):
            expected = f"no {key}: the tier has no arbiter"
            yield Problem((key,), expected, "it", f"Add arbiters.{tier} to fleet.tfvars.")
        return
    most = replicas_max(fleet, tier, roles)
    if settings.replicas > most:
        protocol = roles[spec.role].protocol
        expected = f"at most {most}, for {spec.nodes} nodes behind {protocol}"
        yield Problem(("replicas",), expected, str(settings.replicas))
    if settings.look_ahead is not None and not POLICIES[settings.policy].takes("look_ahead"):
        takers = " or ".join(
            name for name, policy in POLICIES.items() if policy.takes("look_ahead")
        )
        yield Problem(("look_ahead",), f"the policy {takers} beside it", settings.policy)
    if settings.compare == COMPARE_OFF:
        return
    if not PROTOCOLS[roles[spec.role].protocol].compares:
        protocols = ", ".join(name for name, protocol in PROTOCOLS.items() if protocol.compares)
        expected = f"{COMPARE_OFF}: only replies of {protocols} are compared"
        yield Problem(("compare",), expected, f"{settings.compare}, of {spec.role}")
    elif settings.replicas == 1:
        expected = f"{COMPARE_OFF}, or replicas of 2 or more: one reply is compared with nothing"
        yield Problem(("compare",), expected, f"{settings.compare} with replicas = 1")


def _setting_problems(
    tier: str, settings: TierSettings, fleet: Fleet, roles: Roles
) -> Iterator[Problem]:
    role = fleet.tiers[tier].role
    known = roles[role].settings
    for name, value in settings.role.items():
        if name not in known:
            keys = ", ".join([*TierSettings.model_fields, *known])
            yield Problem((name,), f"one of the keys {keys}", f"the unknown key {name}")
        elif not known[name].takes(value):
            yield Problem((name,), known[name].expected, repr(value))


def missing_of(select: Selector, fleet: Fleet) -> tuple[str, str] | None:
    """Return a demand of a selector that the fleet does not meet, and the text of the mismatch;
    None if the fleet meets all.
    """
    if select.machine is not None and select.machine not in fleet.machine_names:
        return f"one of the machines {', '.join(fleet.machine_names)}", select.machine
    if select.tier is None:
        return None
    if select.tier not in fleet.tiers:
        return f"one of the tiers {', '.join(fleet.tiers)}", f"the unknown tier {select.tier}"
    nodes = fleet.tiers[select.tier].nodes
    if (select.count or 1) > nodes:
        return f"at most the tier's {nodes} nodes", f"count = {select.count}"
    if select.place == "others" and nodes == 1:
        return "a tier of two nodes or more, whose first has others beside it", "one node"
    return None


def _fault_problems(experiment: Experiment, fleet: Fleet) -> Iterator[Problem]:
    measure_s = experiment.phases.measure
    for index, fault in enumerate(experiment.faults):
        missing = missing_of(fault.select, fleet)
        if missing is not None:
            yield Problem(("faults", index, "select"), *missing)
        end_s = fault.at_s + (fault.for_s or 0.0)
        if fault.at_s >= measure_s or end_s > measure_s:
            yield Problem(
                ("faults", index, "at_s"),
                f"a fault within the measurement ({measure_s} s)",
                f"one from {fault.at_s} s to {end_s} s",
                "Let it begin or end earlier, or measure for longer.",
            )
        if PEERS in fault.parameters:
            yield from _peer_problems(index, fault, fleet)
        if experiment.failover is not None and fault.kind in MACHINE_KINDS:
            yield Problem(
                ("faults", index, "kind"),
                "no machine faults beside [failover], whose controller powers machines on",
                fault.kind,
                "Let failover.crash_mean_s make the crashes, or take [failover] out.",
            )


def _peer_problems(index: int, fault: Fault, fleet: Fleet) -> Iterator[Problem]:
    key = ("faults", index, "parameters", PEERS)
    text = fault.parameters[PEERS]
    known = (*fleet.tiers, *fleet.machine_names)
    unknown = [name.strip() for name in text.split(",") if name.strip() not in known]
    if unknown:
        yield Problem(
            key, f"tiers or machines of {', '.join(known)}", ", ".join(map(repr, unknown))
        )
        return
    if missing_of(fault.select, fleet) is not None:
        return
    for machine in selected(fault.select, fleet):
        if not peers_of(text, machine, fleet):
            yield Problem(
                key, f"machines other than {machine}, which is cut off itself", repr(text)
            )


def _order_problems(experiment: Experiment) -> Iterator[Problem]:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(experiment.arms)]
    order = experiment.design.order
    counts = {order.count(letter) for letter in letters}
    if set(order) != set(letters) or len(counts) != 1:
        yield Problem(
            ("design", "order"),
            f"each of {', '.join(letters)} (the arms {', '.join(experiment.arms)}) equally often",
            repr(order),
        )
    if experiment.design.decide is not None:
        yield from _decide_problems(experiment)


def _phase_problems(experiment: Experiment) -> Iterator[Problem]:
    if experiment.phases.requests is not None and experiment.load.utilisation is None:
        hint = "At a stated rate, state how long to measure."
        expected = "none without `[load] utilisation`, which leaves the rate to a calibration"
        yield Problem(("phases", "requests"), expected, f"{experiment.phases.requests}", hint)


def _stage_problems(experiment: Experiment) -> Iterator[Problem]:
    stages, measure_s = experiment.load.stages, experiment.phases.measure
    if not stages:
        return
    length_s = sum(stage.duration for stage in stages)
    if not math.isclose(length_s, measure_s, abs_tol=1e-6):
        expected = f"durations of together {measure_s:g} s, as [phases] measure"
        yield Problem(("load", "stages"), expected, f"{length_s:g} s")
    if not any(stage.target for stage in stages):
        yield Problem(("load", "stages"), "a target above 0", "none")


def _decide_problems(experiment: Experiment) -> Iterator[Problem]:
    design, phases = experiment.design, experiment.phases
    if len(experiment.arms) == 1 and not experiment.slo.preregistered:
        expected = (
            "two arms or more, or an SLO with preregistered = true: else there is nothing to decide"
        )
        yield Problem(("design", "decide"), expected, "one arm")
    pairs = design.order.count("A") * design.repeats_first
    if pairs < PAIRS_MIN:
        expected = f"at least {PAIRS_MIN} blocks of each arm before the first look"
        yield Problem(("design", "min_repeats"), expected, str(pairs), "Raise min_repeats.")
    least_s = len(design.order) * design.repeats_first * (phases.warm_up + phases.measure)
    if design.budget_s is not None and design.budget_s < least_s:
        expected = f"at least {least_s:g} s, which the blocks before the first look take"
        yield Problem(("design", "budget_s"), expected, f"{design.budget_s:g}")
