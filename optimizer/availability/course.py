"""The time course: the probability that enough nodes are up, from the start to the horizon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.arrays import Floats
from core.errors import InputError, require_count
from core.tolerances import U_BRACKET
from core.vocabulary import Mechanism
from optimizer.availability.chain import Chain, build
from optimizer.availability.models import check, depths, shape_of
from optimizer.availability.rates import HORIZON_S, FailureRates
from optimizer.availability.transient import law_over_time


@dataclass(frozen=True)
class TimeCourse:
    """P(enough nodes at time t) at equidistant times; error_bound is absolute, for any of them."""

    times_s: tuple[float, ...]
    probability: tuple[float, ...]
    error_bound: float


def time_course(
    needed: int,
    extra: int,
    rates: FailureRates,
    *,
    mechanism: str,
    scheme: str,
    horizon_s: float = HORIZON_S,
    points: int = 100,
) -> TimeCourse:
    """Return P(UpNodes(t) >= needed) at `points` equidistant times after 0, from all nodes up.

    Parameters: as in `availability`; points in 1..10000.
    Returns: TimeCourse with points + 1 entries, the first at 0.  Source: PCRAFT Fig. 1.
    """
    check(needed, extra, scheme, horizon_s)
    if require_count("points", points, least=1) > 10_000:
        raise InputError("points", expected="at most 10000", got=str(points))
    shape = shape_of(needed, extra, mechanism, scheme)
    to_lose = extra if mechanism == Mechanism.ara else 0
    for cut in depths(shape, rates, least=to_lose):
        (low, error), (high, high_error) = (
            _course(build(cut, rates, horizon_s, reflect=reflect), rates, to_lose, points)
            for reflect in (False, True)
        )
        bracket = float(np.abs(high - low).max())
        if bracket < U_BRACKET:
            break
    times_s = np.linspace(0.0, horizon_s, points + 1)
    return TimeCourse(tuple(times_s.tolist()), tuple(low.tolist()), error + high_error + bracket)


def _course(chain: Chain, rates: FailureRates, to_lose: int, points: int) -> tuple[Floats, float]:
    """Return P(enough) (points + 1,) and its numerical error; outside the chain is not enough."""
    laws, error = law_over_time(chain.flow(None), points)
    enough = chain.shortfall(rates.limp_capacity) <= to_lose
    return np.clip(laws[:, enough].sum(axis=1), 0.0, 1.0), error
