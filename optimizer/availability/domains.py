r"""Availability of a tier whose machines are spread over domains that fail as a whole.

Machines crash and recover by the model of `chain`, independent of the domains; domains are dark by
the model of `placement`, in their long run from the start. Machines of a dark domain are down until
it is up again; they are not replaced elsewhere (static stability).

Active route anywhere. The law of the number d of crashed ones among n places is the same for every
place, so with m of n lit, the lit crashed ones X are hypergeometric, and

    U = sum_m P(lit = m) sum_d P(d) P(m - X < needed),    P(d > k) = U(n - k needed, k extra)

which is exact, because domains and crashes are independent.

Passive failover. Standbys of other domains replace dark machines, one after the other at
1 / failover_s, in addition to the fail-over of crashes. Any of the machines may be the broken ones.
So with m lit and k of the pool consumed, enough machines are up if no place waits and
k <= m - needed:

    U <= sum_m P(lit = m) (1 - sum_(k <= m - needed) L_k)  +  sum over domains f min(c t_f, R)

with L_k the share of time at full strength with k consumed, c the machines of the domain (at worst
all of them active), t_f the fail-over time. This is an upper bound: broken machines are assumed to
be lit, and a domain's machines to be active.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from core.arrays import Floats
from core.errors import InputError
from core.units import YEAR_S
from core.vocabulary import Mechanism, Scheme, mechanism_of
from optimizer.availability.models import active_route_anywhere, pool_consumed
from optimizer.availability.placement import Level
from optimizer.availability.rates import HORIZON_S, FailureRates


def stands_in(mechanism: str, scheme: str) -> bool:
    """Return True if a pool's machines replace dark ones; in the cloud there is no such pool."""
    return mechanism_of(mechanism) is Mechanism.pf and scheme == Scheme.on_prem


def short_by_lit(
    needed: int, extra: int, rates: FailureRates, *, mechanism: str, scheme: str
) -> Floats:
    """Return P(too few up | m machines are lit) (needed + extra + 1,), for m = 0..needed + extra.

    Raises: InputError for limping machines.
    """
    if rates.limps:
        raise InputError(
            "domains",
            expected="machines that do not limp",
            got=f"limp_per_year = {rates.limp_per_year:g}",
            hint="Leave [[domains]] or limp_per_year out: they are not modelled together.",
        )
    if stands_in(mechanism, scheme):
        return _short_of_pool(needed, extra, rates)
    total = needed + (extra if mechanism == Mechanism.ara else 0)
    return _short_of_active(needed, total, rates, scheme)


def moving_by_size(needed: int, machines: int, rates: FailureRates, level: Level) -> Floats:
    """Return the share of the year [-] in which standbys for a domain's machines still start.

    Returns: for a domain of 0..machines of the tier's machines: (machines + 1,).
    """
    struck = np.minimum(np.arange(machines + 1), needed)
    filled_s: Floats = np.minimum(struck * rates.failover_s, level.repair_s)
    return level.failures_per_year * filled_s / YEAR_S


def _short_of_pool(needed: int, pool: int, rates: FailureRates) -> Floats:
    full, error = pool_consumed(needed, pool, rates)
    short = np.ones(needed + pool + 1)
    short[needed:] = np.clip(1.0 - np.cumsum(full) + error, 0.0, 1.0)
    return short


def _short_of_active(needed: int, total: int, rates: FailureRates, scheme: str) -> Floats:
    more_crashed = _crashed_more_than(total, rates, scheme)
    short = np.ones(total + 1)
    for lit in range(needed, total + 1):
        too_few = _too_few(needed, lit, total)  # by the number crashed, never falling
        short[lit] = too_few[0] + float(np.diff(too_few) @ more_crashed)
    return np.minimum(short, 1.0)


@lru_cache(maxsize=1024)
def _crashed_more_than(total: int, rates: FailureRates, scheme: str) -> Floats:
    """P(more than k of `total` machines have crashed), at most, for k = 0..total - 1."""
    return np.array(
        [
            active_route_anywhere(
                total - k, k, rates, scheme=scheme, horizon_s=HORIZON_S
            ).unavailability_most
            for k in range(total)
        ]
    )


@lru_cache(maxsize=65536)
def _too_few(needed: int, lit: int, total: int) -> Floats:
    """P(fewer than `needed` of the lit ones up | d of the total crashed), d = 0..total."""
    from scipy.stats import hypergeom

    crashed = np.arange(total + 1)
    # sf: more than lit - needed of the crashed ones are among the lit
    probabilities: Floats = np.asarray(
        hypergeom.sf(lit - needed, total, crashed, lit), dtype=np.float64
    )
    return np.maximum.accumulate(np.clip(probabilities, 0.0, 1.0))
