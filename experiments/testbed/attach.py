"""A fleet that somebody else made: its outputs, and a platform that neither changes nor removes it.

`sparecraft run DESIGN --attach WHERE`. WHERE is a file (`terraform output -json`, or the same with
values only), a folder (of a Terraform configuration with the outputs `fleet` and `identity`), or a
workspace of `infra/stacks/local`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from core.errors import InputError
from experiments.design import Design
from experiments.design.failover import mechanism, watched_tiers
from experiments.design.inventory import Identity, Inventory
from experiments.testbed.platforms import Platform, entries
from experiments.testbed.platforms.terraform import outputs

FILE_MB_MAX = 16
_BYTES_MAX = FILE_MB_MAX << 20
_HOW = "`terraform output -json > FILE` where the fleet was made, and --attach FILE."
_Part = TypeVar("_Part", bound=BaseModel)


@dataclass(frozen=True)
class Outputs:
    """The inventory of a fleet, and the keys to talk to it."""

    fleet: Inventory
    identity: Identity


def attach(where: str, design: Design) -> Platform:
    """Return the fleet that `where` describes, for `design`. Raises InputError if it is no fleet,
    or none that this design can measure without changing it; EnvironmentMissing if Terraform does
    not answer.
    """
    fleet_outputs = read_outputs(where)
    experiment = design.fleet.experiment
    if fleet_outputs.fleet.experiment != experiment:
        raise InputError(
            f"--attach {where}",
            expected=f"the fleet of {experiment}, as {design.name}/fleet.tfvars calls it",
            got=f"that of {fleet_outputs.fleet.experiment}",
            hint="Machines and their figures are known by that name: give the design the fleet's.",
        )
    _refuse_replacement(where, design)
    platforms = {entry.name: entry for entry in entries()}
    if fleet_outputs.fleet.platform not in platforms:
        raise InputError(
            f"--attach {where}: fleet.platform",
            expected=f"one of {', '.join(platforms)}",
            got=repr(fleet_outputs.fleet.platform),
            hint=_HOW,
        )
    return platforms[fleet_outputs.fleet.platform].attach_to(
        fleet_outputs.fleet, fleet_outputs.identity
    )


def _refuse_replacement(where: str, design: Design) -> None:
    """Raise InputError if the design replaces machines: a new one is not the applied one."""
    settings = design.experiment.failover
    if settings is None:
        return
    tiers = watched_tiers(design.fleet, settings)
    replaced_tiers = sorted(tier for tier in tiers if mechanism(design.fleet, tier) == "cloud")
    if replaced_tiers:
        raise InputError(
            f"--attach {where}",
            expected="a design that replaces no machine of a fleet that is not its own",
            got="[failover] in the scheme cloud, which makes failed machines of "
            f"{', '.join(replaced_tiers)} anew",
            hint="Run it without --attach: it then makes a fleet of its own.",
        )


def read_outputs(where: str) -> Outputs:
    """Read the fleet that `where` names. Raises InputError naming what is missing."""
    path = Path(where)
    if path.is_dir():
        text = outputs(path, None)
    elif path.exists():
        text = _read_text(where, path)
    elif "/" in where:
        raise InputError(
            f"--attach {where}",
            expected="a file or a folder",
            got="none",
            hint=_HOW,
        )
    else:
        text = outputs(_local_stack(), where)
    return _parse(where, text)


def _local_stack() -> Path:
    from experiments.testbed.platforms.local.platform import STACK

    return STACK


def _read_text(where: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise InputError(
            f"--attach {where}", expected="a file that can be read", got=str(error.strerror)
        ) from error
    if len(data) > _BYTES_MAX:
        raise InputError(
            f"--attach {where}",
            expected=f"at most {FILE_MB_MAX} MB",
            got="more",
            hint=_HOW,
        )
    return data.decode("utf-8", errors="replace")


def _parse(where: str, text: str) -> Outputs:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--attach {where}", expected="JSON", got=str(error), hint=_HOW) from error
    if not isinstance(values, dict):
        values = {}
    if "experiment" in values and "machines" in values:
        values = {"fleet": values}  # `terraform output -json fleet`
    return Outputs(
        _read_part(where, values, "fleet", Inventory, "the inventory of its machines"),
        _read_part(
            where, values, "identity", Identity, "the keys without which no machine answers"
        ),
    )


def _read_part(
    where: str, values: Mapping[str, Any], name: str, kind: type[_Part], meaning: str
) -> _Part:
    value = values.get(name)
    if isinstance(value, dict) and {"value", "sensitive"} <= value.keys():
        value = value["value"]  # `terraform output -json`
    if value is None:
        names = ", ".join(sorted(values)[:10]) or "no outputs"
        raise InputError(
            f"--attach {where}: {name}",
            expected=meaning,
            got=names,
            hint=f"Of the workspace and folder that the fleet was applied in: {_HOW}",
        )
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise InputError(
            f"--attach {where}: {name}",
            expected=f"the output {name} that infra/stacks/README.md describes",
            got=str(error),
            hint="It was written by another version, or changed: apply the fleet again.",
        ) from error
