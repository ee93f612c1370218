"""From a run's plan to the design that puts it to the test: `sparecraft adopt`.

The new design has the plan's fleet, and of the source run everything that the plan was made for:
load, phases, interference, faults, SLO, rates and seed. Its one arm is the plan's, its plan.json
the prediction. It has as many blocks as the source run had: block k meets the arrivals, pages and
neighbours of the source's pair k, and the one arm gets as many requests as all arms of the source.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from experiments.errors import InputError
from experiments.spec import (
    PLANNED_ARM,
    ROLES,
    Arm,
    Design,
    Experiment,
    Fleet,
    Order,
    Prediction,
    load_design,
    read_prediction,
)
from experiments.spec.design import missing_of
from experiments.spec.source import Source, check, parse_tfvars
from experiments.spec.text import experiment_text, fleet_text

NAME_LENGTH_MAX = 30  # of infra/stacks/*/variables.tf
_SUFFIX = "-planned"
_MADE = "Made by `sparecraft adopt`"
_FILES = ("fleet.tfvars", "experiment.toml", "plan.json")
_PORTS = ("entry_port", "influxdb_port")
_PORT_STEPS = (10, 20, 30, -10, -20, -30)
_BLOCKS_MAX = 100  # repeats of a design


def adopt(run_folder: Path, *, to: Path | None = None, plan_file: Path | None = None) -> Design:
    """Write the design that a run's plan asks for, and return it as it is read back.

    Parameters: run_folder with manifest.json; to the new folder, by default EXPERIMENT-planned in
    the run's folder; plan_file instead of the run's own plan.json.
    Raises: InputError for a run or plan that cannot be used, a fault that the planned fleet has no
    machine for, a folder that is somebody else's. Nothing is written then.
    """
    fleet, experiment, run = _source(run_folder)
    plan = plan_file or run_folder / "plan.json"
    prediction = read_prediction(plan)
    _check_run(plan, prediction, run, run_folder)
    planned = _planned_fleet(plan, prediction, fleet)
    _check_faults(plan, planned, experiment)
    asked = _planned_experiment(plan, planned, experiment)
    folder = to or run_folder.resolve() / planned.experiment
    _check_folder(folder)
    head = f"{_MADE} from the plan of run {run} of {fleet.experiment}"
    text = {
        "fleet.tfvars": fleet_text(planned, f"{head}: {prediction.usd_per_month:.2f} USD a month."),
        "experiment.toml": experiment_text(asked, f"{head}; plan.json is what it predicts."),
        "plan.json": plan.read_text(encoding="utf-8"),
    }
    return _write(folder, text)


def _source(run_folder: Path) -> tuple[Fleet, Experiment, str]:
    """What the run was asked for, from its manifest, and its name."""
    path = run_folder / "manifest.json"
    if not path.is_file():
        raise InputError(
            str(run_folder),
            expected="a run's folder with manifest.json in it",
            came="none",
            do="`sparecraft list` shows the runs.",
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        spec = dict(manifest["spec"])
        fleet = spec.pop("fleet")
        run = str(manifest["run"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            str(path),
            expected="a run's manifest with its spec and fleet",
            came=f"{type(error).__name__}: {error}",
            do="Run the design again with this version.",
        ) from error
    return check(Source(path, fleet, {}), Fleet), check(Source(path, spec, {}), Experiment), run


def _check_run(plan: Path, prediction: Prediction, run: str, run_folder: Path) -> None:
    if prediction.source_run not in (None, run):
        raise InputError(
            str(plan),
            expected=f"a plan made from run {run}, whose load the new design takes over",
            came=f"one made from run {prediction.source_run}",
            do=f"Plan anew: `sparecraft plan --from {run_folder} --json`.",
        )


def _planned_fleet(plan: Path, prediction: Prediction, source: Fleet) -> Fleet:
    """The plan's fleet under a name and addresses of its own; arbiters as large as the source's."""
    parsed = parse_tfvars(prediction.tfvars, plan)
    _check_roles(plan, parsed.values)
    fleet = check(Source(plan, parsed.values, {}), Fleet)
    if set(fleet.tiers) != set(source.tiers) or set(fleet.tiers) != set(prediction.tiers):
        raise InputError(
            f"{plan}: tfvars",
            expected=f"the tiers {', '.join(source.tiers)}, as the source run's fleet has",
            came=", ".join(fleet.tiers),
            do="Adopt the plan from the run that it was made from.",
        )
    arbiters = {
        tier: arbiter.model_copy(
            update=source.arbiters[tier].model_dump(include={"cpus", "memory_mb"})
        )
        for tier, arbiter in fleet.arbiters.items()
    }
    changes: dict[str, Any] = {"experiment": _planned_name(source.experiment), "arbiters": arbiters}
    changes |= {"grafana_image": source.grafana_image, **_own_addresses(source)}
    return fleet.model_copy(update=changes)


def _check_roles(plan: Path, values: dict[str, Any]) -> None:
    tiers = values.get("tiers")
    for name, tier in tiers.items() if isinstance(tiers, dict) else ():
        role = tier.get("role") if isinstance(tier, dict) else None
        if role not in ROLES:
            raise InputError(
                f"{plan}: tfvars: tiers.{name}.role",
                expected=f"a role that infra/roles has an image for: {', '.join(ROLES)}",
                came=repr(role),
                do="A fleet with that role cannot be made; plan for tiers of these roles.",
            )


def _planned_name(source: str) -> str:
    """Valid for Terraform, and another than the source's, also where that is a planned one."""
    numbered = re.fullmatch(rf"(.*){_SUFFIX}(?:-(\d+))?", source)
    if numbered is None:
        base, suffix = source, _SUFFIX
    else:
        base, suffix = numbered[1], f"{_SUFFIX}-{int(numbered[2] or 1) + 1}"
    return base[: NAME_LENGTH_MAX - len(suffix)].rstrip("-") + suffix


def _own_addresses(source: Fleet) -> dict[str, Any]:
    """Ranges and ports beside those that the source states; none where it states none."""
    default = Fleet.model_fields
    found: dict[str, Any] = {}
    for key in ("data_cidr", "control_cidr"):
        stated = getattr(source, key)
        if stated != default[key].default:
            found[key] = _network_beside(stated, default[key].default)
    stated_ports = {key: getattr(source, key) for key in _PORTS}
    if any(port != default[key].default for key, port in stated_ports.items()):
        taken = {*stated_ports.values(), *(default[key].default for key in _PORTS)}
        for step in _PORT_STEPS:
            moved = {key: port + step for key, port in stated_ports.items()}
            if not taken & set(moved.values()) and all(0 < p < 65536 for p in moved.values()):
                return found | moved
    return found


def _network_beside(stated: str, default: str) -> str:
    """Another network of the same size in the same /16; the stated one where that is all of it."""
    taken = ipaddress.IPv4Network(stated)
    whole = taken.supernet(new_prefix=16) if taken.prefixlen > 16 else taken
    for other in reversed(list(whole.subnets(new_prefix=taken.prefixlen))):
        if not other.overlaps(taken) and not other.overlaps(ipaddress.IPv4Network(default)):
            return str(other)
    return stated


def _check_faults(plan: Path, planned: Fleet, experiment: Experiment) -> None:
    for number, fault in enumerate(experiment.faults, start=1):
        missing = missing_of(fault.select, planned)
        if missing is not None:
            expected, came = missing
            raise InputError(
                f"{plan}: fault {number} ({fault.kind}) on the planned fleet",
                expected=expected,
                came=came,
                do="Run the source design with a selector that a smaller fleet satisfies too, such "
                "as { tier = NAME, count = 1 }, and adopt the plan of that run.",
            )


def _planned_experiment(plan: Path, planned: Fleet, source: Experiment) -> Experiment:
    policies = {arbiter.policy for arbiter in planned.arbiters.values()}
    if len(policies) != 1:
        raise InputError(
            f"{plan}: tfvars: arbiters",
            expected="one policy for all tiers, as an arm has one",
            came=", ".join(sorted(policies)),
            do="Plan with one policy.",
        )
    arm = Arm(
        policy=policies.pop(),
        replicas={tier: arbiter.replicas for tier, arbiter in planned.arbiters.items()},
        tokens={tier: arbiter.tokens for tier, arbiter in planned.arbiters.items()},
    )
    blocks = min(_BLOCKS_MAX, len(source.design.order) * source.design.repeats)
    order = Order(order="A", repeats=blocks, seed=source.design.seed)
    changes = {"arms": {PLANNED_ARM: arm}, "design": order, "failover": None}
    return source.model_copy(update=changes)


def _check_folder(folder: Path) -> None:
    if not folder.exists():
        return
    made = folder / "experiment.toml"
    if made.is_file() and made.read_text(encoding="utf-8").startswith(f"# {_MADE}"):
        return
    raise InputError(
        str(folder),
        expected="a folder that is not there yet, or one that `sparecraft adopt` made",
        came="another one",
        do="Give another folder with --to.",
    )


def _write(folder: Path, text: dict[str, str]) -> Design:
    """Check all files together beside their place, then move them there."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".adopt-") as beside:
            for name in _FILES:
                (Path(beside) / name).write_text(text[name], encoding="utf-8")
            load_design(Path(beside))
            folder.mkdir(exist_ok=True)
            for name in _FILES:
                shutil.move(Path(beside) / name, folder / name)
    except OSError as error:
        raise InputError(
            str(folder),
            expected="a folder that can be written",
            came=str(error.strerror),
            do="Give another one with --to.",
        ) from error
    return load_design(folder)
