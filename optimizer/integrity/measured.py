"""Probabilities of a node type from injections: the result of a run of `kind = "bitflips"`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.config_file import read_json
from core.errors import InputError
from optimizer.integrity.model import FaultOutcomes

_KIND = "bitflips"


@dataclass(frozen=True)
class Counts:
    """What injections into a variant did; the others were masked or retried."""

    run: str
    corrupt: int
    crash: int
    injections: int


@dataclass(frozen=True)
class Measured:
    """Shares of injections, and the same with silent corruption at the ends of its interval."""

    outcomes: FaultOutcomes
    least: FaultOutcomes
    most: FaultOutcomes
    injections: int


def read_counts(folder: Path, variant: str, place: str) -> Counts:
    """A variant's counts in a run's folder, for figures with bounds of their own.

    Raises: InputError naming `place` where the run is not valid or has no injection into the
    variant; otherwise as `read_measured`.
    """
    body, head = _body(folder, variant, place)
    injections = _injections(body, variant)
    if head.get("valid") is not True or not injections:
        raise InputError(
            place,
            expected="a valid run with injections into the variant",
            came=f"valid {head.get('valid')}, {injections} injections into {variant}",
            do="Its report says why; measure again.",
        )
    shares = body["outcomes_for_planner"][variant]
    corrupt, crash = (round(shares[name]["p"] * injections) for name in ("corrupt", "crash"))
    return Counts(str(head.get("run")), corrupt, crash, injections)


def read_measured(folder: Path, variant: str) -> Measured:
    """A variant's outcomes in a run's folder; what was corrupt less or more was masked.

    Raises: InputError where the folder has no such run, the run no such variant, or is not valid.
    """
    body, head = _body(folder, variant, "--variant")
    if head.get("valid") is not True:
        raise InputError(
            "--measured",
            expected="a valid run",
            came=f"{head.get('run')}, which is not",
            do="Its report says why; measure again.",
        )
    found = body["outcomes_for_planner"][variant]
    shares = {name: one["p"] for name, one in found.items()}
    low, high = found["corrupt"]["interval"]
    rest = shares["crash"] + shares["retry"]
    corrupt = (shares["corrupt"], low, min(high, 1.0 - rest))
    whole, least, most = (FaultOutcomes(p, shares["crash"], shares["retry"]) for p in corrupt)
    return Measured(whole, least, most, _injections(body, variant))


def _injections(body: dict[str, Any], variant: str) -> int:
    return int({row["variant"]: row["injections"] for row in body["pooled"]}[variant])


def _body(folder: Path, variant: str, place: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the kind added to the result, and its head."""
    path = folder / "result.json"
    source = read_json(path)
    body = source.values.get(_KIND)
    if source.values.get("kind") != _KIND or not isinstance(body, dict):
        raise InputError(
            str(path),
            expected=f"the result of a run of kind {_KIND}",
            came=f"kind {source.values.get('kind')}",
            do="`sparecraft run bitflips-kernels` makes one.",
        )
    found = body["outcomes_for_planner"]
    if variant not in found:
        raise InputError(
            place,
            expected=f"one of {', '.join(found)}",
            came=variant,
            do="Name a variant that the run has.",
        )
    return body, source.values
