"""Probabilities of a node type from injections: the result of a run of `kind = "bitflips"`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from core.config_file import Written, refusal
from core.errors import MOST, InputError
from core.runfiles.part import Part, part_of
from core.tolerances import PROBABILITY_ROUNDING
from optimizer.integrity.model import FaultOutcomes

_Chance = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Counts:
    """The outcomes of injections into a variant; the others were masked or retried."""

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


class _Share(Written):
    """A share of the injections, with its interval; None without injections."""

    p: _Chance | None
    interval: tuple[_Chance, _Chance] | None = None

    @field_validator("interval", mode="before")
    @classmethod
    def _read_pair(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _require_inside(self) -> _Share:
        if self.p is not None and self.interval is not None:
            low, high = self.interval
            if not low <= self.p <= high:
                raise refusal(f"bounds around p ({self.p:g})", got=f"{low:g} to {high:g}",
                              key="interval")  # fmt: skip
        return self


class _Shares(Written):
    """Outcomes of injections into a variant."""

    corrupt: _Share
    crash: _Share
    retry: _Share

    @model_validator(mode="after")
    def _require_total(self) -> _Shares:
        total = sum(share.p or 0.0 for share in (self.corrupt, self.crash, self.retry))
        if total > 1.0 + PROBABILITY_ROUNDING:
            raise refusal("shares of at most 1 together", got=f"{total:g}")
        return self


class _Pooled(Written):
    variant: str
    injections: Annotated[int, Field(ge=0, le=MOST)]


class _Body(Written):
    outcomes_for_planner: dict[str, _Shares]
    pooled: list[_Pooled]


class _Result(Part):
    bitflips: _Body


def read_counts(folder: Path, variant: str, place: str) -> Counts:
    """Return a variant's counts in a run's folder, for figures with their own bounds.

    Raises: InputError naming `place` if the run is not valid or has no injection into the variant;
    otherwise as `read_measured`.
    """
    result = _read(folder, variant, place, place)
    injections, shares = _injections(result, variant), _shares(result, variant)
    if not result.valid or not injections:
        raise InputError(
            place,
            expected="a valid run with injections into the variant",
            got=f"valid {result.valid}, {injections} injections into {variant}",
            hint="Its report says why; measure again.",
        )
    corrupt, crash = (round(p * injections) for p in shares[:2])
    return Counts(result.run, corrupt, crash, injections)


def read_measured(folder: Path, variant: str) -> Measured:
    """Return a variant's outcomes in a run's folder; without corruption a fault counts as masked.

    Raises: InputError if the folder has no such run, or the run no such variant or is not valid.
    """
    result = _read(folder, variant, "--measured", "--variant")
    result.require_valid("--measured")
    p, crash, retry = _shares(result, variant)
    interval = result.bitflips.outcomes_for_planner[variant].corrupt.interval
    if interval is None:
        raise InputError("--measured", expected="the interval of the corrupt share", got="none")
    low, high = interval
    corrupt = (p, low, min(high, 1.0 - (crash + retry)))
    expected, least, most = (FaultOutcomes(corrupt_p, crash, retry) for corrupt_p in corrupt)
    return Measured(expected, least, most, _injections(result, variant))


def _injections(result: _Result, variant: str) -> int:
    return next(pooled.injections for pooled in result.bitflips.pooled if pooled.variant == variant)


def _shares(result: _Result, variant: str) -> tuple[float, float, float]:
    """Return the shares of corruption, crashes and retries."""
    outcomes = result.bitflips.outcomes_for_planner[variant]
    corrupt, crash, retry = (
        share.p for share in (outcomes.corrupt, outcomes.crash, outcomes.retry)
    )
    if corrupt is None or crash is None or retry is None:
        raise InputError(
            f"variant {variant}",
            expected="a run with injections into it",
            got="none",
            hint="Its report says why; measure again.",
        )
    return corrupt, crash, retry


def _read(folder: Path, variant: str, at_run: str, at_variant: str) -> _Result:
    result = part_of(folder, "bitflips", _Result, at_run)
    variants = [
        pooled.variant
        for pooled in result.bitflips.pooled
        if pooled.variant in result.bitflips.outcomes_for_planner
    ]
    if variant not in variants:
        raise InputError(
            at_variant,
            expected=f"one of {', '.join(variants)}",
            got=variant,
            hint="Name a variant that the run has.",
        )
    return result
