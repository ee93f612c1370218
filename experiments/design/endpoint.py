"""Designs of kind endpoint: load on a service that somebody else runs, without a fleet.

Such a design is an experiment.toml with [load], [phases] and [slo], and no fleet.tfvars. Any other
design with a load becomes one (`sparecraft run DESIGN --target URL`): its load, phases and SLO are
kept, and parts that need agents or arbiters are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.config_file import ConfigFile, Problem
from core.errors import InputError
from core.json_object import JsonObject
from experiments.design.experiment import Arm, Experiment, Order
from experiments.design.guard import Guard
from experiments.design.roles import Role, Roles

if TYPE_CHECKING:
    from experiments.design.design import Design

KIND = "endpoint"
ARM = "target"  # the one arm, tier and role of such a design
REPEATS_MAX = 100
ERROR_SHARE_MAX = 0.5  # ends the run, unless the design has a guard of its own
REQUESTS_MAX = 1_000_000  # of a run
LOAD_S_MAX = 3600.0
RATE_PER_S_MAX = 2000.0
_UNKNOWN = 0.5  # availability: an endpoint does not show it
_NO_MACHINE = {"role": ARM, "nodes": 1, "cpus": 0.1, "memory_mb": 64, "nic_mbps": 1, "disk_mbps": 1}


def is_endpoint(toml: ConfigFile, directory: Path) -> bool:
    """True for a design of this kind, or one without a kind that has neither a fleet nor arms."""
    if (kind := toml.values.get("kind")) is not None:
        return bool(kind == KIND)
    return "arms" not in toml.values and not (directory / "fleet.tfvars").exists()


def add_defaults(toml: ConfigFile) -> ConfigFile:
    """Return the file with the default tables of an endpoint added."""
    values: JsonObject = {"kind": KIND, "arms": {ARM: {}}, **toml.values}
    defaults: dict[str, JsonObject] = {
        "design": {"order": "A", "repeats": 1},
        "guard": {"error_share_max": ERROR_SHARE_MAX, "requests_min": 10},
    }
    for table, keys in defaults.items():
        table_stated = values.setdefault(table, {})
        if isinstance(table_stated, dict) and "unguarded" not in table_stated:
            values[table] = {**keys, **values[table]}
    if isinstance(values.get("slo"), dict):
        values["slo"] = {"availability": _UNKNOWN, **values["slo"]}
    return toml.having(values)


def fleet_of(directory: Path) -> ConfigFile:
    """Return the file of a fleet of one machine. It stands for the service, and is never made."""
    name = re.sub(r"[^a-z0-9]+", "-", directory.name.lower()).strip("-")[:30].strip("-")
    name = name if name[:1].isalpha() else f"endpoint-{name}"[:30].strip("-")
    values = {"experiment": name, "scheme": "on-prem", "tiers": {ARM: dict(_NO_MACHINE)}}
    return ConfigFile(directory / "fleet.tfvars", values)


def add_role(roles: Roles) -> Roles:
    """Return the roles with that of the service added."""
    role = Role(summary="A service that somebody else runs", protocol="http", port=80)
    return {**roles, ARM: role}


def endpoint_problems(experiment: Experiment) -> Iterator[Problem]:
    """Yield the parts that an endpoint cannot have, and load beyond its limits."""
    if experiment.kind != KIND:
        if experiment.load.target is not None:
            expected = f"no target in kind {experiment.kind}, which asks its own fleet"
            hint = "Take it out; `--target URL` on the command line asks a service."
            yield Problem(("load", "target"), expected, experiment.load.target, hint)
        return
    disturbances = {
        "interference": experiment.interference.pattern != "none",
        "faults": bool(experiment.faults),
        "failover": experiment.failover is not None,
    }
    for table, is_stated in disturbances.items():
        if is_stated:
            yield Problem((table,), "none: nothing is disturbed without agents", "some")
    for name, arm in experiment.arms.items():
        if arm.settings or name != ARM:
            yield Problem(("arms", name), f"no arms: there are no arbiters, only {ARM}", name)
    yield from _bound_problems(experiment)


def _bound_problems(experiment: Experiment) -> Iterator[Problem]:
    phases, order = experiment.phases, experiment.design
    blocks = len(order.order) * order.repeats
    length_s = phases.settle + blocks * (phases.warm_up + phases.measure)
    if length_s > LOAD_S_MAX:
        expected = f"at most {LOAD_S_MAX:g} s of load in all blocks of an endpoint's run"
        yield Problem(("phases", "measure"), expected, f"{length_s:g} s")
    if experiment.load.rate_per_s is None:
        return
    rate_per_s = experiment.load.most_per_s
    if rate_per_s > RATE_PER_S_MAX:
        expected = f"at most {RATE_PER_S_MAX:g} to an endpoint at any time"
        yield Problem(("load", "rate_per_s"), expected, f"{rate_per_s:g}")
    if rate_per_s * length_s > REQUESTS_MAX:
        expected = f"at most {REQUESTS_MAX:,} requests in an endpoint's run"
        yield Problem(("load", "rate_per_s"), expected, f"about {rate_per_s * length_s:,.0f}")


def as_endpoint(design: Design) -> Design:
    """Return a design with the same load, phases and SLO, for an endpoint. Raises InputError for a
    design without a load, or with a load on several entries.
    """
    original = design.experiment
    if original.kind == KIND:
        return design
    if "load" not in original.model_fields_set or design.source is None:
        raise InputError(
            "--target",
            expected="a design with a [load]",
            got=f"{design.name}, of kind {original.kind}, which asks by itself",
            hint="Write one with [load], [phases] and [slo].",
        )
    if len(design.fleet.entry_tiers) > 1:
        raise InputError(
            "--target",
            expected="a design whose load asks one entry tier",
            got=", ".join(design.fleet.entry_tiers),
            hint="Write a design of its own for each.",
        )
    repeats = original.design.order.count("A") * original.design.repeats
    order = Order(order="A", repeats=min(repeats, REPEATS_MAX), seed=original.design.seed)
    guard = original.guard
    if not guard.looks_at_requests:
        guard = Guard(error_share_max=ERROR_SHARE_MAX, requests_min=10)
    experiment = original.undisturbed(kind=KIND, arms={ARM: Arm()}, guard=guard, design=order)
    design.source.refuse_all(endpoint_problems(experiment))
    return replace(design, experiment=experiment, prediction=None)


def left_out(experiment: Experiment) -> str:
    """Return a text of the parts of a design that an endpoint cannot have; "" if there are none."""
    parts = {
        "arms": len(experiment.arms) > 1,
        "interference": experiment.interference.pattern != "none",
        "faults": bool(experiment.faults),
        "fail-over": experiment.failover is not None,
    }
    return ", ".join(name for name, is_stated in parts.items() if is_stated)
