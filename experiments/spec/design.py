"""A design: a folder with `fleet.tfvars` and `experiment.toml` that agree with each other.

A design that `sparecraft adopt` made from a plan has that `plan.json` too: the prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.errors import InputError
from experiments.spec.experiment import ROLES_OF_USER, Experiment, Selector
from experiments.spec.failover import check_failover
from experiments.spec.fleet import Fleet
from experiments.spec.prediction import PLANNED_ARM, Prediction, read_prediction
from experiments.spec.source import Source, check, read_tfvars, read_toml

DESIGNS = Path(__file__).resolve().parents[1] / "designs"


@dataclass(frozen=True)
class Design:
    """What a user asks for: a fleet, an experiment on it, and where both are written."""

    name: str
    fleet: Fleet
    experiment: Experiment
    directory: Path
    prediction: Prediction | None = None

    def select(self, selector: Selector) -> tuple[str, ...]:
        """Names of the selected machines, the same in every arm."""
        if selector.machine is not None:
            return (selector.machine,)
        assert selector.tier is not None  # a Selector has one or the other
        nodes = self.fleet.nodes_of(selector.tier)
        return nodes[: selector.count] if selector.count is not None else nodes


def designs_available(root: Path = DESIGNS) -> tuple[str, ...]:
    """Names of the designs that come with Sparecraft."""
    return tuple(sorted(path.parent.name for path in root.glob("*/experiment.toml")))


def load_design(name_or_path: str | Path, root: Path = DESIGNS) -> Design:
    """Read and check a design, given its name or its folder.

    Raises InputError with file, line and key, what was expected and what came.
    """
    directory = _find(name_or_path, root)
    tfvars = read_tfvars(directory / "fleet.tfvars")
    toml = read_toml(directory / "experiment.toml")
    fleet = check(tfvars, Fleet)
    experiment = check(toml, Experiment)
    _check_user(toml, fleet, experiment)
    _check_arms(toml, fleet, experiment)
    _check_faults(toml, fleet, experiment)
    if experiment.failover is not None:
        check_failover(toml, fleet, experiment.failover)
    prediction = _prediction(toml, fleet, experiment)
    return Design(directory.name, fleet, experiment, directory, prediction)


def _find(name_or_path: str | Path, root: Path) -> Path:
    for candidate in (root / name_or_path, Path(name_or_path)):
        if candidate.is_dir():
            return candidate.resolve()
    raise InputError(
        f"design {name_or_path}",
        expected=f"a folder, or one of {', '.join(designs_available(root)) or '(none there yet)'}",
        came="no such design",
        do="Name one of these, or give the path of your own.",
    )


def _check_user(toml: Source, fleet: Fleet, experiment: Experiment) -> None:
    tier = fleet.entry_tier
    role = fleet.tiers[tier].role
    for place, workload in enumerate(experiment.workloads):
        user = workload.user
        if role not in ROLES_OF_USER[user]:
            fitting = [name for name, roles in ROLES_OF_USER.items() if role in roles]
            where = ("load", "user") if place == 0 else ("capacity", "also", place - 1, "user")
            raise toml.error(
                *where,
                expected=f"a user of the entry tier {tier}, role {role}: {', '.join(fitting)}",
                came=user,
            )
    nodes = fleet.tiers[tier].nodes
    if experiment.capacity is not None and nodes != 1:
        raise toml.error(
            "capacity",
            expected=f"one node in the entry tier {tier}: it is one node's capacity",
            came=str(nodes),
        )


def _check_arms(toml: Source, fleet: Fleet, experiment: Experiment) -> None:
    tiers = ", ".join(fleet.tiers)
    for name, arm in experiment.arms.items():
        for table in ("replicas", "tokens"):
            for tier in getattr(arm, table):
                if tier not in fleet.tiers:
                    raise toml.error(
                        *("arms", name, table, tier),
                        expected=f"one of the tiers {tiers}",
                        came=f"the unknown tier {tier}",
                    )
        for tier, spec in fleet.tiers.items():
            replicas = arm.replicas.get(tier)
            if replicas is None or replicas > spec.nodes:
                raise toml.error(
                    *("arms", name, "replicas", tier),
                    expected=f"from 1 replica to the tier's {spec.nodes} nodes",
                    came="nothing" if replicas is None else str(replicas),
                )


def missing_of(select: Selector, fleet: Fleet) -> tuple[str, str] | None:
    """What a selector expects of a fleet, and what it names that is not there; None if all is."""
    if select.machine is not None and select.machine not in fleet.machine_names:
        return f"one of the machines {', '.join(fleet.machine_names)}", select.machine
    if select.tier is not None and select.tier not in fleet.tiers:
        return f"one of the tiers {', '.join(fleet.tiers)}", f"the unknown tier {select.tier}"
    if select.tier is not None and (select.count or 1) > fleet.tiers[select.tier].nodes:
        return f"at most the tier's {fleet.tiers[select.tier].nodes} nodes", (
            f"count = {select.count}"
        )
    return None


def _check_faults(toml: Source, fleet: Fleet, experiment: Experiment) -> None:
    for index, fault in enumerate(experiment.faults):
        missing = missing_of(fault.select, fleet)
        if missing is not None:
            expected, came = missing
            raise toml.error("faults", index, "select", expected=expected, came=came)


def _prediction(toml: Source, fleet: Fleet, experiment: Experiment) -> Prediction | None:
    path = toml.path.parent / "plan.json"
    if not path.is_file():
        return None
    prediction = read_prediction(path)
    if set(prediction.tiers) != set(fleet.tiers):
        raise InputError(
            str(path),
            expected=f"a plan of the fleet's tiers {', '.join(fleet.tiers)}",
            came=f"one of {', '.join(prediction.tiers)}",
            do="Take plan.json out, or adopt the plan anew.",
        )
    if PLANNED_ARM not in experiment.arms:
        raise toml.error(
            "arms",
            expected=f"an arm {PLANNED_ARM}, which the prediction of plan.json is of",
            came=", ".join(experiment.arms),
            do=f"Name that arm {PLANNED_ARM}, or take plan.json out.",
        )
    return prediction
