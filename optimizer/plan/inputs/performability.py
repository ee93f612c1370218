r"""Bounds on users' losses in a year of faults, from a run of kind performability.

The run gives the share of good requests in a year of its faults (goodput g), the demerits of a
request (d), and the parts of both by faults (lost l, added a), with n machines in the faulty tier.
With m machines faults are m / n times as frequent. Each costs at most as much as with n: the same
if one machine stops the tier, and n / m of it if it loses its own share of requests. So

    g(m) >= g - l (max(1, m / n) - 1),    d(m) <= d + a (max(1, m / n) - 1),

and the largest m that keeps the limits bounds the tier, standbys included, because they may be in
use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from core.config_file import Positive, Strict, Text, Written, refusal
from core.errors import MOST, InputError
from core.runfiles.part import Part, part_of
from core.tolerances import LIMIT_INSIDE


class UsersSlo(Strict):
    """`[slo.performability]`: what a year of faults may leave to users, as an arm of a run did."""

    run: Text
    arm: Text
    tier: Text
    goodput: Annotated[float, Field(gt=0, lt=1)] | None = None
    demerits_per_request: Positive | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> UsersSlo:
        if self.goodput is None and self.demerits_per_request is None:
            raise refusal("goodput or demerits_per_request", got="neither")
        return self


@dataclass(frozen=True)
class Year:
    """The run's figures of the arm, with this number of machines."""

    run: str
    machines: int
    goodput: float
    lost: float
    demerits: float
    demerits_added: float

    def goodput_of(self, machines: int) -> float:
        """Return the least share of requests with good answers, for this number of machines."""
        return max(0.0, self.goodput - self.lost * self._excess(machines))

    def demerits_of(self, machines: int) -> float:
        """Return the most demerits of a request."""
        return self.demerits + self.demerits_added * self._excess(machines)

    def _excess(self, machines: int) -> float:
        return max(1.0, machines / self.machines) - 1.0


@dataclass(frozen=True)
class Bound:
    """The most machines of a tier with which both limits are kept."""

    tier: str
    machines: int | None  # None: any number
    year: Year
    promise: UsersSlo

    @property
    def remark(self) -> str:
        year, promise = self.year, self.promise
        most = "any number" if self.machines is None else f"at most {self.machines}"
        return (
            f"performability: {most} of {self.tier} keep what is asked; {promise.arm} in run "
            f"{year.run} had a goodput of {year.goodput:.6f} and {year.demerits:.3g} demerits a "
            f"request in a year of faults with {year.machines}; more machines fail more often"
        )


def bound_of(promise: UsersSlo, folder: Path, place: str) -> Bound:
    """Return the allowed machines of the tier.

    Parameters: folder of the plan.toml, for a relative `run`; place of the table, for errors.
    Raises: InputError for a folder that is no valid run of kind performability with a year of that
    arm, and where the run's own fleet, or fewer machines, would not keep the limits.
    """
    year = _read_year(folder / promise.run, promise.arm, place)
    shortfalls = []
    if promise.goodput is not None and year.goodput < promise.goodput:
        shortfalls.append(f"a goodput of {year.goodput:.6f}")
    if promise.demerits_per_request is not None and year.demerits > promise.demerits_per_request:
        shortfalls.append(f"{year.demerits:.3g} demerits a request")
    if shortfalls:
        raise InputError(
            place,
            expected="limits that the measured fleet keeps",
            got=f"{promise.arm} in run {year.run}: {', '.join(shortfalls)}",
            hint="Fewer machines would not do it either: ask for less, or plan for another arm.",
        )
    limits = [
        room / cost
        for room, cost in (
            (math.inf if promise.goodput is None else year.goodput - promise.goodput, year.lost),
            ((promise.demerits_per_request or math.inf) - year.demerits, year.demerits_added),
        )
        if cost > 0.0 and math.isfinite(room / cost)
    ]
    most = (
        math.floor(year.machines * (1.0 + min(limits)) * (1.0 + LIMIT_INSIDE)) if limits else None
    )
    return Bound(promise.tier, most, year, promise)


class _Arm(Written):
    """A year of faults; what they took may be below 0 by chance."""

    goodput: Annotated[float, Field(ge=0, le=1)]
    lost: Annotated[float, Field(ge=-1, le=1)]
    demerits: Annotated[float, Field(ge=0)]
    demerits_added: float


class _Year(Written):
    arms: dict[str, _Arm]
    machines: Annotated[dict[str, Annotated[int, Field(ge=1, le=MOST)]], Field(min_length=1)]


class _Body(Written):
    year: _Year | None


class _Result(Part):
    performability: _Body


def _read_year(folder: Path, arm: str, place: str) -> Year:
    result = part_of(folder, "performability", _Result, place)
    year = result.performability.year
    if year is None:
        raise InputError(
            place, expected="a run with rates of its faults", got="no year in it",
            hint="State [performability.rates] in its design, and measure again.",
        )  # fmt: skip
    result.require_valid(place)
    if arm not in year.arms:
        raise InputError(
            place, expected=f"one of its arms ({', '.join(year.arms)})", got=arm,
            hint="Name the arm of the plan.",
        )  # fmt: skip
    return Year(result.run, max(year.machines.values()), **year.arms[arm].model_dump())
