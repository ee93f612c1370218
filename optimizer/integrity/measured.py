"""Probabilities of a node type from injections: the result of a run of `kind = "bitflips"`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optimizer.errors import InputError
from optimizer.integrity.model import FaultOutcomes
from optimizer.source import read_json

_KIND = "bitflips"


@dataclass(frozen=True)
class Measured:
    """Shares of injections, and the same with silent corruption at the ends of its interval."""

    outcomes: FaultOutcomes
    least: FaultOutcomes
    most: FaultOutcomes
    injections: int


def read_measured(folder: Path, variant: str) -> Measured:
    """A variant's outcomes in a run's folder; what was corrupt less or more was masked.

    Raises: InputError where the folder has no such run, or the run no such variant.
    """
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
            "--variant",
            expected=f"one of {', '.join(found)}",
            came=variant,
            do="Name a variant that the run has.",
        )
    shares = {name: one["p"] for name, one in found[variant].items()}
    low, high = found[variant]["corrupt"]["interval"]
    rest = shares["crash"] + shares["retry"]
    corrupt = (shares["corrupt"], low, min(high, 1.0 - rest))
    whole, least, most = (FaultOutcomes(p, shares["crash"], shares["retry"]) for p in corrupt)
    counts = {row["variant"]: row["injections"] for row in body["pooled"]}
    return Measured(whole, least, most, counts[variant])
