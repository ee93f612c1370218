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
    endpoint_problems,
    fleet_of,
    is_endpoint,
    with_defaults,
    with_role,
)
from experiments.design.experiment import Experiment
from experiments.design.fleet import Fleet, fleet_problems
from experiments.design.guard_checks import guard_problems
from experiments.design.locustfile import locustfile_problems, locustfile_workload
from experiments.design.operation_set import operation_problems, workload_of
from experiments.design.prediction import PLANNED_ARM, Prediction, read_prediction
from experiments.design.roles import Roles, find_roles
from experiments.design.workers import check_worker
from experiments.design.workloads import Workload, find_workloads

Section = TypeVar("Section", bound=Strict)

Check = tuple[str, bool, str, str]
"""A dotted key of experiment.toml, whether it is wrong, what was expected and what came."""
DESIGNS = Path(__file__).resolve().parents[1] / "designs"


@dataclass(frozen=True)
class Design:
    """A user's request: a fleet, an experiment on it, and where both are written.

    name: its folder's, or its case's; workloads: by name, those of the roles and the design's own.
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
        """The path that a command finds it by: its folder, or its case's name beside that."""
        return self.directory.with_name(self.name)

    @property
    def is_endpoint(self) -> bool:
        """True if it asks a service that is there; its fleet then only stands for that."""
        return self.experiment.kind == KIND

    def section(
        self, model: type[Section], kind: str = "", options: Mapping[str, Any] | None = None
    ) -> Section:
        """The table of experiment.toml that is named like `kind`, else like the experiment's own,
        with `options` put over it, checked.

        Raises InputError with file, line and key; a table that is not there is an empty one.
        """
        own = self._source.section(kind or self.experiment.kind)
        return check(own.having({**own.values, **(options or {})}), model)

    def error(self, key: str, expected: str, got: str, hint: str = "Correct it.") -> InputError:
        """An InputError at a dotted key of experiment.toml."""
        parts = (int(part) if part.isdigit() else part for part in key.split("."))
        return self._source.error(*parts, expected=expected, got=got, hint=hint)

    def refuse(self, checks: Iterable[Check], hint: str = "Correct it.") -> None:
        """Raises InputError at the first key that is wrong."""
        for key, wrong, expected, got in checks:
            if wrong:
                raise self.error(key, expected, got, hint)

    @property
    def _source(self) -> ConfigFile:
        return self.source or ConfigFile(self.directory / "experiment.toml", {})


def designs_available(root: Path = DESIGNS) -> tuple[str, ...]:
    """Names of the designs that come with Sparecraft, or are in another folder."""
    return names_in(root)


def load_design(name_or_path: str | Path, seed: int | None = None) -> Design:
    """Read and check a design, given its name or its folder: a Path, and text that can only be a
    path (`.`, `./shop`, `../shop`, `/srv/shop`), is never taken for a built-in one's name. A case
    is named as if it had a folder of its own. `seed` goes before the file's.

    Raises InputError with file, line and key, what was expected and what came.
    """
    directory, case = find_design(name_or_path)
    toml = read_experiment(directory, case)
    if endpoint := is_endpoint(toml, directory):
        toml, tfvars = with_defaults(toml), fleet_of(directory)
    else:
        tfvars = read_tfvars(directory / "fleet.tfvars")
    if case is not None:
        tfvars = tfvars.having({**tfvars.values, "experiment": case})
    toml = _with_seed(toml, seed)
    roles, workloads, fleet, experiment = _all_of(
        lambda: with_role(find_roles(directory)) if endpoint else find_roles(directory),
        lambda: find_workloads(directory),
        lambda: check(tfvars, Fleet),
        lambda: check(_without_section(toml), Experiment),
    )
    tfvars.refuse_all(fleet_problems(fleet, roles))
    toml.refuse_all(operation_problems(experiment.load, directory, fleet, roles))
    workloads = {**workloads, **workload_of(experiment.load, directory, fleet, roles)}
    toml.refuse_all(locustfile_problems(experiment.load, directory, fleet, roles))
    workloads = {**workloads, **locustfile_workload(experiment.load, directory, fleet, roles)}
    experiment, workloads = _with_trace(toml, experiment, workloads, directory)
    toml.refuse_all(experiment_problems(experiment, fleet, roles, workloads))
    toml.refuse_all(guard_problems(experiment, fleet))
    toml.refuse_all(endpoint_problems(experiment))
    _check_worker(toml, experiment, directory)
    prediction = _prediction(toml, fleet, experiment)
    name = case or directory.name
    return Design(name, fleet, experiment, directory, roles, prediction, workloads, toml)


def _with_trace(
    toml: ConfigFile, experiment: Experiment, workloads: Mapping[str, Workload], directory: Path
) -> tuple[Experiment, Mapping[str, Workload]]:
    """The arrival times of the load's trace, and its mean rate where none was stated."""
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


def _with_seed(toml: ConfigFile, seed: int | None) -> ConfigFile:
    design = toml.values.get("design")
    if seed is None or not isinstance(design, dict):
        return toml
    return toml.having({**toml.values, "design": {**design, "seed": seed}})


def _all_of(*parts: Callable[[], Any]) -> tuple[Any, ...]:
    """The results of all parts. Raises one InputError for all that went wrong in any of them."""
    given: list[Any] = []
    errors: list[InputError] = []
    for part in parts:
        try:
            given.append(part())
        except InputError as error:
            errors.append(error)
    raise_all(errors)
    return tuple(given)


def _without_section(toml: ConfigFile) -> ConfigFile:
    """All but the table that is its kind's own, whose model the kind has: also where the table has
    another meaning for other kinds (`failover`)."""
    kind = toml.values.get("kind", Experiment.model_fields["kind"].default)
    return toml.having({key: value for key, value in toml.values.items() if key != kind})


def is_path(text: str) -> bool:
    """A path, which no name is."""
    return text in (os.curdir, os.pardir) or os.sep in text


def find_design(name_or_path: str | Path, root: Path = DESIGNS) -> tuple[Path, str | None]:
    """The folder of a design, and the case in it that is meant. Raises InputError."""
    own, built_in = Path(name_or_path), root / name_or_path
    as_path = isinstance(name_or_path, Path) or is_path(name_or_path)
    if not as_path:
        found = [one.resolve() for one in (built_in, own) if (one / "experiment.toml").is_file()]
        if len(set(found)) > 1:
            raise InputError(
                f"design {name_or_path}",
                expected="one design",
                got=f"two: Sparecraft's own, and the folder {own} here",
                hint=f"Say ./{own} for the folder, {built_in} for Sparecraft's.",
            )
        if found:
            return found[0], None
    if own.is_dir():
        return own.resolve(), None
    for beside in (own.parent,) if as_path else (root, own.parent):
        if folder := folder_of(own.name, beside):
            return folder.resolve(), own.name
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
        hint=f"Did you mean {near[0]}?" if near else "`sparecraft list` shows them.",
    )


def _check_worker(toml: ConfigFile, experiment: Experiment, directory: Path) -> None:
    try:
        check_worker(experiment.load.worker, directory)
    except InputError as error:
        raise toml.error(
            "load", "worker", expected=error.expected, got=error.got, hint=error.hint
        ) from error


def _prediction(toml: ConfigFile, fleet: Fleet, experiment: Experiment) -> Prediction | None:
    path = toml.path.parent / "plan.json"
    if not path.is_file():
        return None
    prediction = read_prediction(path)
    if set(prediction.tiers) != set(fleet.tiers):
        raise InputError(
            str(path),
            expected=f"a plan of the fleet's tiers {', '.join(fleet.tiers)}",
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
