"""Kinds of experiment. Every folder here is one (see README.md); a user's folder can be one too.

A kind is imported when it is requested by name.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError

if TYPE_CHECKING:
    from experiments.design import Design
    from experiments.run.kind import Kind, SectionT


def search(paths: str) -> None:
    """Look for kinds in these folders too; `paths` as in PATH, the value of SPARECRAFT_KINDS."""
    __path__.extend(str(Path(path).resolve()) for path in paths.split(os.pathsep) if path)


def names() -> tuple[str, ...]:
    return tuple(sorted({module.name for module in pkgutil.iter_modules(__path__) if module.ispkg}))


def find(name: str) -> Kind[Any]:
    """Return the kind called `name`. Raises InputError that lists the existing kinds."""
    if name not in names():
        raise InputError(
            f"kind {name}",
            expected=f"one of {', '.join(names())}",
            got="no such kind",
            hint="Name one of these; SPARECRAFT_KINDS says where your own kinds are.",
        )
    kind: Kind[Any] = import_module(f"experiments.kinds.{name}").KIND
    return kind


def kind_of(design: Design) -> Kind[Any]:
    return find(design.experiment.kind)


def check_plans(design: Design, place: str) -> None:
    """Raises InputError at `place` where no fleet is planned from a run of the design's kind."""
    if not kind_of(design).plans:
        raise InputError(
            place,
            expected=f"a design of a kind that plans a fleet: "
            f"{', '.join(name for name in names() if find(name).plans)}",
            got=f"{design.name}, of kind {design.experiment.kind}",
            hint="Take it out.",
        )


def section_of(
    kind: Kind[SectionT], design: Design, options: Mapping[str, Any] | None = None
) -> SectionT:
    """Return the kind's table of experiment.toml, checked; `options` replace its values.

    Raises: InputError with file and key where the table or the design is not what the kind needs.
    """
    if design.experiment.load.utilisation is not None and not kind.calibrates:
        _refuse_utilisation(kind, design)
    if design.experiment.load.varies and not kind.varies:
        _refuse_varying(kind, design)
    section = design.section(kind.Section, kind.name, options)
    is_of_design = design.experiment.kind == kind.name
    if is_of_design and (design.experiment.failover is not None) != kind.replaces_machines:
        raise design.error(
            "failover",
            f"{'a' if kind.replaces_machines else 'no'} [failover] in kind {kind.name}",
            "none" if kind.replaces_machines else "one",
            '`kind = "schemes"` measures machines that fail and are replaced.',
        )
    if is_of_design and kind.needs_load:
        for table in ("load", "phases", "slo"):
            if table not in design.experiment.model_fields_set:
                expected = f"this table, kind {kind.name} needs it"
                raise design.error(table, expected, "nothing", "Add it.")
    if is_of_design and design.experiment.design.decide is not None and not kind.decides:
        raise design.error(
            "design.decide",
            f"no such key in kind {kind.name}, which measures all of its repeats",
            f'"{design.experiment.design.decide}"',
            'Leave it out; kind = "compare" ends once its figure is decided.',
        )
    kind.check(design, section)
    return section


def _refuse_utilisation(kind: Kind[Any], design: Design) -> None:
    calibrating = [name for name in names() if find(name).calibrates]
    raise design.error(
        "load.utilisation",
        f"rate_per_s in kind {kind.name}: only {' and '.join(calibrating)} calibrate",
        f"utilisation = {design.experiment.load.utilisation:g}",
        "State rate_per_s instead.",
    )


def _refuse_varying(kind: Kind[Any], design: Design) -> None:
    key = "stages" if design.experiment.load.stages else "trace"
    varying = " and ".join(name for name in names() if find(name).varies)
    raise design.error(
        f"load.{key}",
        f"no {key} in kind {kind.name}, whose load has one rate at a time: only {varying} let it "
        "vary",
        key,
        "State rate_per_s alone.",
    )
