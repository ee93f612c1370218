r"""Partial replication in multi-tier services: sPARE sections 3.2, 3.3, 4.1, 4.2 and 5.1 in closed
form.

Notation of the paper: tier i of 1..N, M servers, V cores per server, r replicas, lambda arrival
rate (which already holds the amplification by the tiers above), T = 1/mu processing time on one
core.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from optimizer.errors import InputError, require_count, require_positive, require_share


@dataclass(frozen=True)
class TierLoad:
    """What stability and collisions depend on, for one tier at r = 1 everywhere.

    request_per_s and connection_per_s are the rates at (1, ..., 1); the amplification by upstream
    replicas is applied by the functions below. tokens_per_server None: round-robin, no tokens.
    """

    servers: int
    cores: float
    request_per_s: float
    processing_s: float
    connection_per_s: float = 0.0
    token_hold_s: float = 0.0
    tokens_per_server: int | None = None


def collision_probability(servers: int, upstream: int, replicas: int) -> float:
    r"""P(two connections of one page meet on a server), 1 - prod_k C(M - k r, r) / C(M, r)^a.

    Parameters: servers M >= 1 of the tier; upstream a = a_{i,j-1} >= 1 requests that reach the tier
    per page; replicas r in 1..M of the tier.
    Returns: float in [0, 1]; 0 for a = 1; 1 where a r > M, since they cannot be placed apart. (The
    text below sPARE Eq. 1 says certain for a r >= M; at a r = M the equation itself leaves a
    chance.)
    Source: sPARE Eq. 1 (two tiers, a = r1), Eq. 2 (N tiers).
    """
    require_count("servers", servers, least=1)
    require_count("upstream", upstream, least=1)
    require_count("replicas", replicas, least=1)
    if replicas > servers:
        raise InputError("replicas", expected=f"at most {servers} servers", came=str(replicas))
    if upstream == 1:
        return 0.0
    if upstream * replicas > servers:
        return 1.0
    apart = math.prod(math.comb(servers - k * replicas, replicas) for k in range(upstream))
    every: int = math.comb(servers, replicas) ** upstream
    return 1.0 - apart / every


def lookup_probability(fast: int, slow: int, lookups: int) -> float:
    """P(a fast server among m distinct look-ups) = 1 - C(slow, m) / C(fast + slow, m).

    Source: sPARE Eq. 3.
    """
    require_count("fast", fast)
    require_count("slow", slow)
    require_count("lookups", lookups, least=1)
    if lookups > fast + slow:
        raise InputError("lookups", expected=f"at most {fast + slow} servers", came=str(lookups))
    return 1.0 - math.comb(slow, lookups) / math.comb(fast + slow, lookups)


def server_utilisation(load: TierLoad, replicas: int, upstream: int = 1) -> float:
    """lambda r T / (M V): below 1 the servers are stable.  Source: sPARE Eq. 4."""
    demand_s = load.request_per_s * upstream * replicas * load.processing_s
    return demand_s / (load.servers * load.cores)


def token_utilisation(load: TierLoad, replicas: int, upstream: int = 1) -> float:
    """lambda_conn r T^K / (M C): below 1 the tokens are stable; 0 without tokens.  Source: sPARE
    Eq. 5."""
    if load.tokens_per_server is None:
        return 0.0
    demand = load.connection_per_s * upstream * replicas * load.token_hold_s
    return demand / (load.servers * load.tokens_per_server)


def least_tokens(
    connection_per_s: float, replicas_max: int, servers: int, token_hold_s: float
) -> int:
    """The smallest integer C > lambda_conn r_max T^K / M.  Source: sPARE Eq. 6."""
    require_count("servers", servers, least=1)
    return math.floor(connection_per_s * replicas_max * token_hold_s / servers) + 1


def tad_capacity_per_s(servers: int, server_per_s: float, share: float, gamma: float) -> float:
    """M s (1 - f (1 - gamma)): the rate that TAD sustains when servers drop to gamma s a share f of
    time.

    Parameters: server_per_s s [1/s]; share f in [0, 1]; gamma in (0, 1].  Source: sPARE section
    4.2.
    """
    _check_interference(server_per_s, share, gamma)
    return servers * server_per_s * (1.0 - share * (1.0 - gamma))


def round_robin_capacity_per_s(
    servers: int, server_per_s: float, share: float, gamma: float
) -> float:
    """M gamma s, the slowest server's limit, if there is any interference.  Source: sPARE section
    4.2."""
    _check_interference(server_per_s, share, gamma)
    return servers * server_per_s * (gamma if share > 0 else 1.0)


def feasible_replicas(
    tiers: Sequence[TierLoad], collision_max: float, replicas_max: int | None = None
) -> list[tuple[int, ...]]:
    """All (r1, ..., rN) that are stable in servers and tokens and within the collision limit.

    Parameters: tiers from the front; collision_max in [0, 1] for P_c^{1,j}, j = 2..N; replicas_max
    an optional bound beside each tier's number of servers.  Source: sPARE section 5.2, Alg. 1 line
    1.
    """
    require_share("collision_max", collision_max)
    ranges = [range(1, min(t.servers, replicas_max or t.servers) + 1) for t in tiers]
    return [r for r in product(*ranges) if _is_feasible(tiers, r, collision_max)]


def processing_times_s(
    arrivals_s: Sequence[float], departures_s: Sequence[float], cores: float
) -> list[float]:
    """Core-seconds that each request used on one server, from when it arrived and left.

    While n requests are present each gets min(1, V / n) of a core, so a request's processing time
    is the sum of that share over the intervals of its stay.  Source: sPARE section 5.1.1.

    Parameters: arrivals_s, departures_s (n,) [s] of the same requests; cores V > 0.
    Returns: (n,) [core s].
    """
    require_positive("cores", cores)
    if len(arrivals_s) != len(departures_s):
        raise InputError(
            "departures_s", expected=f"{len(arrivals_s)} times", came=str(len(departures_s))
        )
    moments: list[tuple[float, int]] = []
    for arrived, left in zip(arrivals_s, departures_s, strict=True):
        if not left >= arrived:
            raise InputError("departures_s", expected=f"at least {arrived}", came=str(left))
        moments += [(arrived, 1), (left, -1)]
    moments.sort()
    work = {moments[0][0]: 0.0} if moments else {}
    served = 0.0  # core-seconds that a request present since the beginning would have had
    present, before = 0, moments[0][0] if moments else 0.0
    for at, change in moments:
        if present > 0:
            served += (at - before) * min(1.0, cores / present)
        work[at], before = served, at
        present += change
    return [work[b] - work[a] for a, b in zip(arrivals_s, departures_s, strict=True)]


def _is_feasible(tiers: Sequence[TierLoad], replicas: Sequence[int], collision_max: float) -> bool:
    upstream = 1
    for tier, r in zip(tiers, replicas, strict=True):
        if max(server_utilisation(tier, r, upstream), token_utilisation(tier, r, upstream)) >= 1:
            return False
        if collision_probability(tier.servers, upstream, r) > collision_max:
            return False
        upstream *= r
    return True


def _check_interference(server_per_s: float, share: float, gamma: float) -> None:
    require_positive("server_per_s", server_per_s)
    require_share("interference share", share)
    require_positive("gamma", gamma)
    require_share("gamma", gamma)
