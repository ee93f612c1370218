"""`sparecraft adopt`: a design that measures the promise of a run's plan.

The new design has the plan's fleet. Load, phases, interference, faults, SLO, rates and seed are
those of the source run. Its one arm is the plan's, and its plan.json is the prediction. Block k
meets the arrivals, pages and neighbours of the source's pair k. The run lasts until the promise is
kept or broken. It looks after half of the blocks, after three quarters and after all; there are as
many blocks as the source run had.

`in_place`, for `sparecraft run --close`, changes the running fleet to the planned one; its name,
ranges and ports stay. The first blocks have the arrivals, neighbours and faults of the source's
pairs. New blocks follow until there are half as many blocks as the source measured or three minutes
of load are over. Then comes the first look; the last look is after twice as many blocks, or after
the blocks of `load_s`.
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
from experiments.design.fleet import Fleet, fleet_problems, planned_tiers
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
_BLOCKS_MAX = 100  # largest number of repeats of a design
_NEW_UNTIL_S = 180.0  # load before the first look, with new blocks
_LOOKS = 3  # looks at the promise; the first is after half of the blocks
_LOOKS_MAX = 6  # with more time


def adopt(
    run_folder: Path,
    *,
    to: Path | None = None,
    plan_file: Path | None = None,
    in_place: bool = False,
    load_s: float | None = None,
) -> Design:
    """Write the design that a run's plan asks for, and return it as it is read back.

    Parameters: run_folder with manifest.json; to, the new folder, by default EXPERIMENT-planned in
    the run's folder; plan_file instead of the run's own plan.json; in_place, for the fleet that the
    run left up; load_s, with in_place: the longest time of load.
    Raises: InputError for a run or plan that cannot be used, a run that is not valid, a fault for
    which the planned fleet has no machine, and a folder that `adopt` did not make. Nothing is
    written then.
    """
    fleet, experiment, run, rate_from = _read_source(run_folder)
    _check_valid(run_folder, run)
    plan = plan_file or run_folder / "plan.json"
    prediction = read_prediction(plan)
    _check_run(plan, prediction, run, run_folder)
    design_files = run_folder / FOLDER
    planned = _planned_fleet(plan, prediction, fleet, find_roles(design_files))
    _check_faults(plan, planned, experiment)
    blocks = len(experiment.design.order) * experiment.design.repeats
    first = (blocks + 1) // 2
    folder = to or run_folder.resolve() / planned.experiment
    if in_place:
        identity = {key: getattr(fleet, key) for key in KEPT_KEYS}
        planned = planned.model_copy(update=identity)
        first = _blocks_to_first_look(run_folder, experiment)
        blocks = 2 * first if load_s is None else int(load_s // block_length_s(experiment))
    order = _order_until_decided(first, max(first, blocks), experiment.design.seed)
    planned_experiment = _planned_experiment(prediction, planned, experiment, order)
    _check_folder(folder)
    head = f"{_MADE} from the plan of run {run} of {fleet.experiment}"
    text = {
        "fleet.tfvars": fleet_text(planned, f"{head}: {prediction.usd_per_month:.2f} USD a month."),
        "experiment.toml": experiment_text(
            planned_experiment, f"{head}; plan.json is what it predicts.{rate_from}"
        ),
        "plan.json": plan.read_text(encoding="utf-8"),
    }
    return _write(folder, text, design_files, planned_experiment.load)


def _read_source(run_folder: Path) -> tuple[Fleet, Experiment, str, str]:
    """Return fleet and experiment from the run's manifest, the run's name, and a remark.

    The remark is a line that names the origin of a calibrated rate; it is "" for other runs. The
    design states the calibrated rate because a plan is for a demand.
    """
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
        source_spec = spec_of(manifest)
        fleet = source_spec["fleet"]
        spec = {key: value for key, value in source_spec.items() if key in Experiment.model_fields}
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


def _check_valid(run_folder: Path, run: str) -> None:
    objection = against_run(run_folder)
    if objection:
        raise InputError(
            str(run_folder),
            expected="a valid run, because a plan is only as good as its run",
            got=f"{run}, which is not ({objection})",
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
    """Return the plan's fleet with a new name and new addresses; its arbiters are as large as the
    source's."""
    parsed = parse_tfvars(prediction.tfvars, plan)
    tfvars = ConfigFile(plan, {"tfvars": parsed.values}).section("tfvars")
    fleet = check(tfvars, Fleet)
    planned_names = planned_tiers(source, roles)
    if set(fleet.tiers) != set(source.tiers) or set(prediction.tiers) != set(planned_names):
        raise InputError(
            f"{plan}: tfvars",
            expected=f"the tiers {', '.join(source.tiers)}, as the source run's fleet has",
            got=", ".join(fleet.tiers),
            hint="Adopt the plan from the run that it was made from.",
        )
    identity = {
        "experiment": _planned_name(source.experiment),
        "grafana_image": source.grafana_image,
    }
    planned = fleet.model_copy(
        update={
            **identity,
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
    """Return a name that Terraform accepts and that differs from the source's, which may itself be
    the name of a planned fleet."""
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


def _blocks_to_first_look(run_folder: Path, source: Experiment) -> int:
    """Return a number of blocks: one for each measured pair, and new ones."""
    measured = pl.read_parquet(run_folder / "requests.parquet", columns=["arm", "repeat"]).unique()
    pairs: list[int] = measured["arm"].value_counts()["count"].to_list()
    blocks_max = int(_NEW_UNTIL_S // block_length_s(source))
    return max(1, *pairs, min(measured.height // 2, blocks_max))


def _planned_experiment(
    prediction: Prediction, planned: Fleet, source: Experiment, order: Order
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
        "slo": source.slo.model_copy(
            update={"preregistered": True}
        ),  # the plan made the promise before the run
        "design": order,
        "failover": None,
    }
    design_experiment = source.model_copy(update=changes)
    if not infeasible(design_experiment, planned):
        return design_experiment
    allowed = arm.model_copy(update={"allow_infeasible": True})  # the plan's limits allowed it, too
    return design_experiment.model_copy(update={"arms": {PLANNED_ARM: allowed}})


def _order_until_decided(first: int, blocks: int, seed: int) -> Order:
    """Return an order that ends once the promise is kept or broken, if there are enough blocks for
    more than one look. Parameters: blocks before the first look, and of all."""
    blocks = min(_BLOCKS_MAX, blocks)
    first = min(first, blocks)
    if first < PAIRS_MIN:
        return Order(order="A", repeats=blocks, seed=seed)
    looks = min(_LOOKS_MAX, max(_LOOKS, 1 + 2 * (blocks - first) // first))
    return Order(order="A", repeats=blocks, seed=seed, decide="p95", min_repeats=first, looks=looks)


def _check_folder(folder: Path) -> None:
    if not folder.exists():
        return
    experiment_file = folder / "experiment.toml"
    head = f"# {_MADE}"
    if experiment_file.is_file() and experiment_file.read_text(encoding="utf-8").startswith(head):
        return
    raise InputError(
        str(folder),
        expected="a folder that does not exist yet, or one that `sparecraft adopt` made",
        got="another one",
        hint="Give another folder with --to.",
    )


def _write(folder: Path, text: dict[str, str], design_files: Path, load: Load) -> Design:
    """Check all files together in a temporary folder, then move them to `folder`."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".adopt-") as temporary:
            copy_design_files(design_files, load, Path(temporary))
            for name, content in text.items():
                (Path(temporary) / name).write_text(content, encoding="utf-8")
            load_design(Path(temporary))
            folder.mkdir(exist_ok=True)
            for path in Path(temporary).iterdir():
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
