"""A design: a folder with `fleet.tfvars` and `experiment.toml` that agree with each other.

A design that `sparecraft adopt` made from a plan has its `plan.json` too, the prediction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from core.config_file import ConfigFile, Strict, check, raise_all, read_tfvars
from core.errors import InputError
from experiments.design.arrival_rate import mean_rate_per_s, read_trace
from experiments.design.cases import folder_of, names_in, read_experiment
from experiments.design.checks import experiment_problems
from experiments.design.endpoint import (
    KIND,
    add_defaults,
    add_role,
    endpoint_problems,
    fleet_of,
    is_endpoint,
)
from experiments.design.experiment import Experiment
from experiments.design.fleet import Fleet, fleet_problems, planned_tiers
from experiments.design.guard_checks import guard_problems
from experiments.design.locustfile import locustfile_problems, locustfile_workload
from experiments.design.operation_set import operation_problems, workload_of
from experiments.design.prediction import PLANNED_ARM, Prediction, read_prediction
from experiments.design.roles import Roles, find_roles
from experiments.design.workers import check_worker
from experiments.design.workloads import Workload, find_workloads

Section = TypeVar("Section", bound=Strict)

Check = tuple[str, bool, str, str]
"""A dotted key of experiment.toml, true if it is wrong, the expected value, and the value found."""
DESIGNS = Path(__file__).resolve().parents[1] / "designs"


@dataclass(frozen=True)
class Design:
    """A user's request: a fleet, an experiment on it, and the folder of both.

    name: that of its folder or of its case; workloads: those of the roles and of the design, by
    name.
    """

    name: str
    fleet: Fleet
    experiment: Experiment
    directory: Path
    roles: Roles = field(compare=False, repr=False)
    prediction: Prediction | None = None
    workloads: Mapping[str, Workload] = field(default_factory=dict, compare=False, repr=False)
    source: ConfigFile | None = field(default=None, compare=False, repr=False)

    @property
    def path(self) -> Path:
        """The path by which a command finds it: its folder, or its case's name beside it."""
        return self.directory.with_name(self.name)

    @property
    def is_endpoint(self) -> bool:
        """True if it loads a running service; its fleet is then only a placeholder."""
        return self.experiment.kind == KIND

    def section(
        self, model: type[Section], kind: str = "", options: Mapping[str, Any] | None = None
    ) -> Section:
        """Return the table of experiment.toml for `kind`, by default the experiment's kind, with
        `options` put over it, checked.

        A missing table counts as an empty one. Raises InputError with file, line and key.
        """
        table = self._source.section(kind or self.experiment.kind)
        return check(table.having({**table.values, **(options or {})}), model)

    def error(self, key: str, expected: str, got: str, hint: str = "Correct it.") -> InputError:
        """Return an InputError at a dotted key of experiment.toml."""
        parts = (int(part) if part.isdigit() else part for part in key.split("."))
        return self._source.error(*parts, expected=expected, got=got, hint=hint)

    def refuse(self, checks: Iterable[Check], hint: str = "Correct it.") -> None:
        """Raise InputError at the first key that is wrong."""
        for key, is_wrong, expected, got in checks:
            if is_wrong:
                raise self.error(key, expected, got, hint)

    @property
    def _source(self) -> ConfigFile:
        return self.source or ConfigFile(self.directory / "experiment.toml", {})


def designs_available(root: Path = DESIGNS) -> tuple[str, ...]:
    """Return the names of the designs that come with Sparecraft, or of those in another folder."""
    return names_in(root)


def load_design(name_or_path: str | Path, seed: int | None = None) -> Design:
    """Read and check a design, given its name or its folder.

    A Path, and text that can only be a path (`.`, `./shop`, `../shop`, `/srv/shop`), is never taken
    for the name of a built-in design. A case is named as if it had a folder. `seed` overrides that
    of the file. Raises InputError with file, line and key, the expected value and the value found.
    """
    directory, case = find_design(name_or_path)
    toml = read_experiment(directory, case)
    if endpoint := is_endpoint(toml, directory):
        toml, tfvars = add_defaults(toml), fleet_of(directory)
    else:
        tfvars = read_tfvars(directory / "fleet.tfvars")
    if case is not None:
        tfvars = tfvars.having({**tfvars.values, "experiment": case})
    toml = _set_seed(toml, seed)
    roles, workloads, fleet, experiment = _collect(
        lambda: add_role(find_roles(directory)) if endpoint else find_roles(directory),
        lambda: find_workloads(directory),
        lambda: check(tfvars, Fleet),
        lambda: check(_drop_section(toml), Experiment),
    )
    tfvars.refuse_all(fleet_problems(fleet, roles))
    toml.refuse_all(operation_problems(experiment.load, directory, fleet, roles))
    workloads = {**workloads, **workload_of(experiment.load, directory, fleet, roles)}
    toml.refuse_all(locustfile_problems(experiment.load, directory, fleet, roles))
    workloads = {**workloads, **locustfile_workload(experiment.load, directory, fleet, roles)}
    experiment, workloads = _add_trace(toml, experiment, workloads, directory)
    toml.refuse_all(experiment_problems(experiment, fleet, roles, workloads))
    toml.refuse_all(guard_problems(experiment, fleet))
    toml.refuse_all(endpoint_problems(experiment))
    _check_worker(toml, experiment, directory)
    prediction = _read_plan(toml, fleet, experiment, roles)
    name = case or directory.name
    return Design(name, fleet, experiment, directory, roles, prediction, workloads, toml)


def _add_trace(
    toml: ConfigFile, experiment: Experiment, workloads: Mapping[str, Workload], directory: Path
) -> tuple[Experiment, Mapping[str, Workload]]:
    """Add the arrival times of the load's trace, and its mean rate if the load has none."""
    load = experiment.load
    if load.trace is None or load.user not in workloads:
        return experiment, workloads
    path = (directory / load.trace).resolve()
    if not path.is_relative_to(directory):
        expected = "a file of the design's folder"
        raise toml.error("load", "trace", expected=expected, got=load.trace)
    times_s = read_trace(path)
    workloads = {**workloads, load.user: replace(workloads[load.user], trace=times_s)}
    if load.rate_per_s is None:
        rate_per_s = mean_rate_per_s(times_s)
        if rate_per_s > load.rate_per_s_max:
            expected = f"at most {load.rate_per_s_max:g} arrivals a second on average"
            raise toml.error("load", "trace", expected=expected, got=f"{rate_per_s:g}")
        experiment = experiment.model_copy(update={"load": load.at(rate_per_s)})
    return experiment, workloads


def _set_seed(toml: ConfigFile, seed: int | None) -> ConfigFile:
    design = toml.values.get("design")
    if seed is None or not isinstance(design, dict):
        return toml
    return toml.having({**toml.values, "design": {**design, "seed": seed}})


def _collect(*parts: Callable[[], Any]) -> tuple[Any, ...]:
    """Return the results of all parts. Raises one InputError for the errors of all parts."""
    results: list[Any] = []
    errors: list[InputError] = []
    for part in parts:
        try:
            results.append(part())
        except InputError as error:
            errors.append(error)
    raise_all(errors)
    return tuple(results)


def _drop_section(toml: ConfigFile) -> ConfigFile:
    """Return all but the table of the experiment's kind. The kind has the model of that table, also
    if the table has another meaning for other kinds (`failover`).
    """
    kind = toml.values.get("kind", Experiment.model_fields["kind"].default)
    return toml.having({key: value for key, value in toml.values.items() if key != kind})


def is_path(text: str) -> bool:
    """True for a text that can only be a path, and no name."""
    return text in (os.curdir, os.pardir) or os.sep in text


def find_design(name_or_path: str | Path, root: Path = DESIGNS) -> tuple[Path, str | None]:
    """Return the folder of a design, and the requested case in it. Raises InputError."""
    path, built_in = Path(name_or_path), root / name_or_path
    as_path = isinstance(name_or_path, Path) or is_path(name_or_path)
    if not as_path:
        folders = [
            folder.resolve()
            for folder in (built_in, path)
            if (folder / "experiment.toml").is_file()
        ]
        if len(set(folders)) > 1:
            raise InputError(
                f"design {name_or_path}",
                expected="one design",
                got=f"two: Sparecraft's own, and the folder {path} here",
                hint=f"Say ./{path} for the folder, {built_in} for Sparecraft's.",
            )
        if folders:
            return folders[0], None
    if path.is_dir():
        return path.resolve(), None
    for parent in (path.parent,) if as_path else (root, path.parent):
        if folder := folder_of(path.name, parent):
            return folder.resolve(), path.name
    if as_path:
        raise InputError(
            f"design {name_or_path}",
            expected="the folder of a design",
            got="no such folder",
            hint="`sparecraft list` shows the designs that have a name.",
        )
    near = get_close_matches(str(name_or_path), designs_available(root), n=1)
    raise InputError(
        f"design {name_or_path}",
        expected=f"a folder, or the name of one of {len(designs_available(root))} designs",
        got="no such design",
        hint=f"Did you mean {near[0]}?"
        if near
        else "`sparecraft list` shows them, and `sparecraft init NAME` makes a folder.",
    )


def _check_worker(toml: ConfigFile, experiment: Experiment, directory: Path) -> None:
    try:
        check_worker(experiment.load.worker, directory)
    except InputError as error:
        raise toml.error(
            "load", "worker", expected=error.expected, got=error.got, hint=error.hint
        ) from error


def _read_plan(
    toml: ConfigFile, fleet: Fleet, experiment: Experiment, roles: Roles
) -> Prediction | None:
    path = toml.path.parent / "plan.json"
    if not path.is_file():
        return None
    prediction = read_prediction(path)
    planned = planned_tiers(fleet, roles)
    if set(prediction.tiers) != set(planned):
        raise InputError(
            str(path),
            expected=f"a plan of the fleet's tiers {', '.join(planned)}",
            got=f"one of {', '.join(prediction.tiers)}",
            hint="Remove plan.json, or adopt the plan again.",
        )
    if PLANNED_ARM not in experiment.arms:
        raise toml.error(
            "arms",
            expected=f"an arm {PLANNED_ARM}, which the prediction of plan.json is of",
            got=", ".join(experiment.arms),
            hint=f"Name that arm {PLANNED_ARM}, or take plan.json out.",
        )
    return prediction
