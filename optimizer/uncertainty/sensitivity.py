"""Which rate matters: the derivative of unavailability."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from optimizer.availability import FailureRates
from optimizer.uncertainty.interval import Model

_STEP = 0.1  # of ln(rate)
_TRUSTED = 0.01  # error bound over unavailability up to which its logarithm is used


@dataclass(frozen=True)
class Sensitivity:
    """How unavailability U answers to one rate or time.

    per_log is dU / d ln(value), wrong by about `error` at most; elasticity is d ln U / d ln(value),
    the percent that U grows by per percent of the rate, None where U is within 100 times the
    model's own error bound.
    """

    name: str
    value: float
    per_log: float
    error: float
    elasticity: float | None


def sensitivities(model: Model, rates: FailureRates) -> tuple[Sensitivity, ...]:
    r"""Sensitivity of the model's unavailability to each rate and time of `rates` that is above 0.

    Central differences over ln(value) with steps h = 0.1 and h/2, extrapolated (Richardson):
    D = (4 D(h/2) - D(h)) / 3. They are taken of ln U, which is nearly a straight line in ln(value)
    (U goes as a power of a rate), and of U itself where U is too near to the model's error bound.
    The error is |D(h/2) - D(h)| plus the models' error bounds over the step.
    """
    named = {f.name: getattr(rates, f.name) for f in fields(rates)}
    above_0 = {n: v for n, v in named.items() if n.endswith(("_per_year", "_s")) and v}
    return tuple(_sensitivity(model, rates, name, value) for name, value in above_0.items())


def _with(rates: FailureRates, name: str, value: float) -> FailureRates:
    changed: dict[str, Any] = {name: value}
    return replace(rates, **changed)


def _sensitivity(model: Model, rates: FailureRates, name: str, value: float) -> Sensitivity:
    steps = (_STEP, -_STEP, _STEP / 2, -_STEP / 2)
    found = [model(_with(rates, name, value * math.exp(step))) for step in steps]
    here = model(rates).unavailability
    lost = [one.unavailability for one in found]
    bound = max(one.error_bound for one in found)
    logarithmic = min(*lost, here) > 0 and bound <= _TRUSTED * min(*lost, here)
    y = [math.log(u) for u in lost] if logarithmic else lost
    wide = (y[0] - y[1]) / (2 * _STEP)
    narrow = (y[2] - y[3]) / _STEP
    slope = (4 * narrow - wide) / 3
    scale = here if logarithmic else 1.0
    error = scale * abs(narrow - wide) + 4 * bound / _STEP
    return Sensitivity(name, value, scale * slope, error, slope if logarithmic else None)
