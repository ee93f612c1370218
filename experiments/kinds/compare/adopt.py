"""`sparecraft adopt`: a design that measures the promise of a run's plan.

The new design has the plan's fleet, and from the source run load, phases, interference, faults,
SLO, rates and seed. Its one arm is the plan's, its plan.json the prediction. Block k meets the
arrivals, pages and neighbours of the source's pair k. It is measured until the promise is kept or
broken, with looks after half of the blocks, three quarters and all, which are as many as the source
run had.

`in_place`, for `sparecraft run --close`, changes the fleet that is up to the planned one; its name,
ranges and ports stay. Its blocks first have the arrivals, neighbours and faults of each of the
source's pairs, then new ones, until there are half as many as the source measured or three minutes
of load are over. Then the first look follows; the last one is after twice as many blocks.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path

import polars as pl

from core.config_file import ConfigFile, check, parse_tfvars
from core.errors import InputError
from core.runfiles.manifest import against_run, spec_of
from experiments.design import Design, load_design
from experiments.design.checks import PAIRS_MIN, missing_of
from experiments.design.design_files import FOLDER, copy_design_files
from experiments.design.experiment import (
    Arm,
    Experiment,
    Load,
    Order,
    Phases,
    TierSettings,
)
from experiments.design.feasible import infeasible
from experiments.design.fleet import Fleet, fleet_problems
from experiments.design.prediction import PLANNED_ARM, Prediction, read_prediction
from experiments.design.roles import Roles, find_roles
from experiments.design.schedule import block_length_s
from experiments.design.text import experiment_text, fleet_text

NAME_LENGTH_MAX = 30  # of infra/stacks/*/variables.tf
KEPT_KEYS = (
    "experiment",
    "data_cidr",
    "control_cidr",
    "entry_port",
    "entry_ports",
    "influxdb_port",
    "grafana_port",
)
_SUFFIX = "-planned"
_MADE = "Made by `sparecraft adopt`"
_BLOCKS_MAX = 100  # repeats of a design
_NEW_UNTIL_S = 180.0  # of load, before the first look
_LOOKS = 3  # at the promise, the first after half of the blocks


def adopt(
    run_folder: Path,
    *,
    to: Path | None = None,
    plan_file: Path | None = None,
    in_place: bool = False,
) -> Design:
    """Write the design that a run's plan asks for, and return it as it is read back.

    Parameters: run_folder with manifest.json; to the new folder, by default EXPERIMENT-planned in
    the run's folder; plan_file instead of the run's own plan.json; in_place, for the fleet that the
    run left up.
    Raises: InputError for a run or plan that cannot be used, a run that is not valid, a fault that
    the planned fleet has no machine for, a folder that is somebody else's. Nothing is written then.
    """
    fleet, experiment, run, rate_from = _source(run_folder)
    _check_counts(run_folder, run)
    plan = plan_file or run_folder / "plan.json"
    prediction = read_prediction(plan)
    _check_run(plan, prediction, run, run_folder)
    own = run_folder / FOLDER
    planned = _planned_fleet(plan, prediction, fleet, find_roles(own))
    _check_faults(plan, planned, experiment)
    blocks = len(experiment.design.order) * experiment.design.repeats
    folder = to or run_folder.resolve() / planned.experiment
    if in_place:
        kept = {key: getattr(fleet, key) for key in KEPT_KEYS}
        planned, blocks = planned.model_copy(update=kept), _blocks_in_place(run_folder, experiment)
    asked = _planned_experiment(prediction, planned, experiment, blocks)
    _check_folder(folder)
    head = f"{_MADE} from the plan of run {run} of {fleet.experiment}"
    text = {
        "fleet.tfvars": fleet_text(planned, f"{head}: {prediction.usd_per_month:.2f} USD a month."),
        "experiment.toml": experiment_text(
            asked, f"{head}; plan.json is what it predicts.{rate_from}"
        ),
        "plan.json": plan.read_text(encoding="utf-8"),
    }
    return _write(folder, text, own, asked.load)


def _source(run_folder: Path) -> tuple[Fleet, Experiment, str, str]:
    """The run's spec, from its manifest; its name; in a line of its own, where the rate
    is from if the run's calibration found it: a plan is for a demand."""
    path = run_folder / "manifest.json"
    if not path.is_file():
        raise InputError(
            str(run_folder),
            expected="a run's folder with manifest.json in it",
            got="none",
            hint="`sparecraft list` shows the runs.",
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        stated = spec_of(manifest)
        fleet = stated["fleet"]
        spec = {key: value for key, value in stated.items() if key in Experiment.model_fields}
        run = str(manifest["run"])
        rate_from = ""
        if calibration := manifest.get("calibration"):
            spec["load"] = {**spec["load"], "rate_per_s": calibration["rate_per_s"]}
            del spec["load"]["utilisation"]
            phases = check(ConfigFile(path, spec["phases"]), Phases)
            spec["phases"] = phases.at(calibration["rate_per_s"]).model_dump()
            rate_from = (
                f"\nrate_per_s is what used {calibration['utilisation']:.0%} of the CPU of "
                f"{calibration['tier']} in that run, by its calibration."
            )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            str(path),
            expected="a run's manifest with its spec and fleet",
            got=f"{type(error).__name__}: {error}",
            hint="Run the design again with this version.",
        ) from error
    return (
        check(ConfigFile(path, fleet), Fleet),
        check(ConfigFile(path, spec), Experiment),
        run,
        rate_from,
    )


def _check_counts(run_folder: Path, run: str) -> None:
    against = against_run(run_folder)
    if against:
        raise InputError(
            str(run_folder),
            expected="a valid run, because a plan is only as good as its run",
            got=f"{run}, which is not ({against})",
            hint="Run the design again, and adopt the plan of that run.",
        )


def _check_run(plan: Path, prediction: Prediction, run: str, run_folder: Path) -> None:
    if prediction.source_run not in (None, run):
        raise InputError(
            str(plan),
            expected=f"a plan made from run {run}, whose load the new design takes over",
            got=f"one made from run {prediction.source_run}",
            hint=f"Plan anew: `sparecraft plan --from {run_folder} --json`.",
        )


def _planned_fleet(plan: Path, prediction: Prediction, source: Fleet, roles: Roles) -> Fleet:
    """The plan's fleet under a name and addresses of its own; arbiters as large as the source's."""
    parsed = parse_tfvars(prediction.tfvars, plan)
    tfvars = ConfigFile(plan, {"tfvars": parsed.values}).section("tfvars")
    fleet = check(tfvars, Fleet)
    if set(fleet.tiers) != set(source.tiers) or set(fleet.tiers) != set(prediction.tiers):
        raise InputError(
            f"{plan}: tfvars",
            expected=f"the tiers {', '.join(source.tiers)}, as the source run's fleet has",
            got=", ".join(fleet.tiers),
            hint="Adopt the plan from the run that it was made from.",
        )
    own = {"experiment": _planned_name(source.experiment), "grafana_image": source.grafana_image}
    planned = fleet.model_copy(
        update={
            **own,
            "entries": source.entries,
            "tiers": {
                name: tier.model_copy(update={"image": source.tiers[name].image})
                for name, tier in fleet.tiers.items()
            },
            "arbiters": {
                tier: arbiter.model_copy(update={"tokens": fleet.arbiters[tier].tokens})
                for tier, arbiter in source.arbiters.items()
                if tier in fleet.arbiters
            },
        }
    )
    tfvars.refuse_all(fleet_problems(planned, roles))
    return planned


def _planned_name(source: str) -> str:
    """Valid for Terraform, and another than the source's, also where that is a planned one."""
    numbered = re.fullmatch(rf"(.*){_SUFFIX}(?:-(\d+))?", source)
    if numbered is None:
        base, suffix = source, _SUFFIX
    else:
        base, suffix = numbered[1], f"{_SUFFIX}-{int(numbered[2] or 1) + 1}"
    return base[: NAME_LENGTH_MAX - len(suffix)].rstrip("-") + suffix


def _check_faults(plan: Path, planned: Fleet, experiment: Experiment) -> None:
    for number, fault in enumerate(experiment.faults, start=1):
        missing = missing_of(fault.select, planned)
        if missing is not None:
            expected, got = missing
            raise InputError(
                f"{plan}: fault {number} ({fault.kind}) on the planned fleet",
                expected=expected,
                got=got,
                hint="Run the source design with a selector that a smaller fleet satisfies too, "
                "such "
                "as { tier = NAME, count = 1 }, and adopt the plan of that run.",
            )


def _blocks_in_place(run_folder: Path, source: Experiment) -> int:
    """One for each pair that was measured, and new ones; the first look is after half of them."""
    measured = pl.read_parquet(run_folder / "requests.parquet", columns=["arm", "repeat"]).unique()
    pairs: list[int] = measured["arm"].value_counts()["count"].to_list()
    most = int(_NEW_UNTIL_S // block_length_s(source))
    return 2 * max(1, *pairs, min(measured.height // 2, most))


def _planned_experiment(
    prediction: Prediction, planned: Fleet, source: Experiment, blocks: int
) -> Experiment:
    arm = Arm(
        settings={
            tier: TierSettings(
                policy=prediction.policy,
                replicas=prediction.tiers[tier].replicas,
                tokens=arbiter.tokens,
            )
            for tier, arbiter in planned.arbiters.items()
        }
    )
    changes = {
        "kind": "compare",
        "arms": {PLANNED_ARM: arm},
        "slo": source.slo.model_copy(update={"preregistered": True}),  # the plan promises it
        "design": _until_decided(min(_BLOCKS_MAX, blocks), source.design.seed),
        "failover": None,
    }
    made = source.model_copy(update=changes)
    if not infeasible(made, planned):
        return made
    allowed = arm.model_copy(update={"allow_infeasible": True})  # as the limits of its plan did
    return made.model_copy(update={"arms": {PLANNED_ARM: allowed}})


def _until_decided(most: int, seed: int) -> Order:
    """Blocks until the promise is kept or broken, if there are enough for more than one look."""
    first = (most + 1) // 2
    if first < PAIRS_MIN:
        return Order(order="A", repeats=most, seed=seed)
    return Order(order="A", repeats=most, seed=seed, decide="p95", min_repeats=first, looks=_LOOKS)


def _check_folder(folder: Path) -> None:
    if not folder.exists():
        return
    made = folder / "experiment.toml"
    if made.is_file() and made.read_text(encoding="utf-8").startswith(f"# {_MADE}"):
        return
    raise InputError(
        str(folder),
        expected="a folder that does not exist yet, or one that `sparecraft adopt` made",
        got="another one",
        hint="Give another folder with --to.",
    )


def _write(folder: Path, text: dict[str, str], own: Path, load: Load) -> Design:
    """Check all files together beside their place, then move them there."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".adopt-") as beside:
            copy_design_files(own, load, Path(beside))
            for name, content in text.items():
                (Path(beside) / name).write_text(content, encoding="utf-8")
            load_design(Path(beside))
            folder.mkdir(exist_ok=True)
            for path in Path(beside).iterdir():
                if (folder / path.name).is_dir():
                    shutil.rmtree(folder / path.name)
                shutil.move(path, folder / path.name)
    except OSError as error:
        raise InputError(
            str(folder),
            expected="a folder that can be written",
            got=str(error.strerror),
            hint="Give another one with --to.",
        ) from error
    return load_design(folder)
