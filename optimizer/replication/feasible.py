"""The feasible set F of sPARE's Alg. 1, line 1.

Load, token demand and collision probability of a tier all grow with the r_i of the tier and of the
tiers above it. So the first r that breaks a limit ends a tier's range, and only feasible prefixes
are extended: the work is in proportion to |F|, not to the product of the servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from core.errors import InputError, require_count, require_share
from optimizer.replication.closed_forms import (
    TierLoad,
    collision_probability,
    server_utilisation,
    token_utilisation,
)

_collision = lru_cache(maxsize=65536)(collision_probability)


def feasible_replicas(
    tiers: Sequence[TierLoad], collision_max: float, replicas_max: int | None = None
) -> list[tuple[int, ...]]:
    """Return all (r1, ..., rN) with stable servers and tokens, within the collision limit.

    Eq. 4 and 5 are strict, the collision limit may be reached.
    Parameters: tiers from the front; collision_max in [0, 1] for P_c^{1,j}, j = 2..N; replicas_max
    an optional bound in addition to each tier's number of servers.
    Returns: in lexicographic order; empty if not even (1, ..., 1) is stable.
    Source: sPARE section 5.2, Alg. 1 line 1.
    """
    require_share("collision_max", collision_max)
    if not tiers:
        raise InputError("tiers", expected="at least one tier", got="none")
    if replicas_max is not None:
        require_count("replicas_max", replicas_max, least=1)
    return list(_extend(tiers, (), 1, collision_max, replicas_max))


def _extend(
    tiers: Sequence[TierLoad],
    beginning: tuple[int, ...],
    upstream: int,
    collision_max: float,
    replicas_max: int | None,
) -> Iterator[tuple[int, ...]]:
    """Yield all feasible completions of `beginning`, whose replicas amplify by `upstream`."""
    tier = tiers[len(beginning)]
    last = len(beginning) + 1 == len(tiers)
    for r in range(1, min(tier.servers, replicas_max or tier.servers) + 1):
        if not _fits(tier, r, upstream, collision_max):
            return
        if last:
            yield (*beginning, r)
        else:
            yield from _extend(tiers, (*beginning, r), upstream * r, collision_max, replicas_max)


def _fits(tier: TierLoad, r: int, upstream: int, collision_max: float) -> bool:
    return (
        server_utilisation(tier, r, upstream) < 1
        and token_utilisation(tier, r, upstream) < 1
        and _collision(tier.servers, upstream, r) <= collision_max
    )
