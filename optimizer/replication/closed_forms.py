r"""sPARE's closed forms: Eq. 1-6 and the capacities of section 4.2.

Notation of the paper: tier i of 1..N, M servers, V cores per server, r replicas, lambda arrival
rate (which already includes the amplification by the tiers above), T = 1/mu processing time on one
core, a_{i,j} = r_i ... r_j the copies at tier j that one request of tier i causes.

Both probabilities use one term, the probability that n draws out of M miss m marked servers:

    C(M - m, n) / C(M, n) = prod_{i < n} (1 - m / (M - i))

Its logarithm is a sum of terms of one sign, so nothing overflows or cancels, for any M and r: the
relative error stays near 1e-15, also for a probability of 1e-12.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import (
    InputError,
    require_count,
    require_positive,
    require_share,
)

COLLISION_MAX = 0.5  # P_c^max of sPARE section 6.2
_LOG_NOTHING = -40.0  # 1 - e^-40 is 1 in double precision


@dataclass(frozen=True)
class TierLoad:
    """Inputs of stability and collisions of one tier, with r = 1 in all tiers.

    request_per_s and connection_per_s are the rates at (1, ..., 1); the functions below apply the
    amplification by upstream replicas. tokens_per_server None: round-robin, no tokens.
    """

    servers: int
    cores: float
    request_per_s: float
    processing_s: float
    connection_per_s: float = 0.0
    token_hold_s: float = 0.0
    tokens_per_server: int | None = None
    name: str = "tier"

    def __post_init__(self) -> None:
        require_count(f"{self.name}: servers", self.servers, least=1)
        require_positive(f"{self.name}: cores", self.cores)
        require_positive(f"{self.name}: processing_s", self.processing_s)
        for field in ("request_per_s", "connection_per_s", "token_hold_s"):
            _require_not_negative(f"{self.name}: {field}", getattr(self, field))
        if self.tokens_per_server is not None:
            require_count(f"{self.name}: tokens_per_server", self.tokens_per_server, least=1)

    def check(self, replicas: int, upstream: int) -> None:
        """Raise InputError, which names the tier, if r cannot be placed on distinct servers."""
        require_count(f"{self.name}: upstream", upstream, least=1)
        _require_replicas(f"{self.name}: replicas", replicas, self.servers)


def collision_probability(servers: int, upstream: int, replicas: int) -> float:
    r"""Return P(two connections of one page meet on a server).

    It is 1 - prod_k C(M - k r, r) / C(M, r)^a.

    Parameters: servers M >= 1 of the tier; upstream a = a_{i,j-1} >= 1 requests that reach the tier
    per page; replicas r in 1..M of the tier. Returns: float in [0, 1]; 0 for a = 1; 1 if a r > M,
    because the copies cannot be separated. (The text below sPARE Eq. 1 says that a collision is
    certain for a r >= M; at a r = M the equation gives less than 1, and the equation is used.)
    Raises: InputError if r > M.
    Source: sPARE Eq. 1 (two tiers, a = r1), Eq. 2 (N tiers).
    """
    require_count("servers", servers, least=1)
    require_count("upstream", upstream, least=1)
    _require_replicas("replicas", replicas, servers)
    if upstream * replicas > servers:
        return 1.0
    log_apart = 0.0
    for k in range(1, upstream):
        log_apart += _log_miss(servers, k * replicas, replicas)
        if log_apart < _LOG_NOTHING:
            return 1.0
    return 0.0 - math.expm1(log_apart)


def collision_probabilities(servers: Sequence[int], replicas: Sequence[int]) -> tuple[float, ...]:
    """Return P_c^{1,j} for j = 2..N: copies of one page meet on a server of tier j.

    Parameters: servers M_1..M_N; replicas r_1..r_N, both from the front.
    Returns: (N - 1,) floats in [0, 1].  Raises: InputError with the tier if r_j > M_j.
    Source: sPARE Eq. 2 with i = 1, a_{1,j-1} = r_1 ... r_{j-1}.
    """
    if len(servers) != len(replicas):
        raise InputError("replicas", expected=f"{len(servers)} tiers", got=str(len(replicas)))
    for tier, (count, r) in enumerate(zip(servers, replicas, strict=True), start=1):
        _require_replicas(f"replicas of tier {tier}", r, count)
    upstream, probabilities = 1, []
    for j in range(1, len(servers)):
        upstream *= replicas[j - 1]
        probabilities.append(collision_probability(servers[j], upstream, replicas[j]))
    return tuple(probabilities)


def lookup_probability(fast: int, slow: int, lookups: int) -> float:
    """Return P(a fast server among m distinct look-ups) = 1 - C(slow, m) / C(fast + slow, m).

    Source: sPARE Eq. 3.
    """
    require_count("fast", fast)
    require_count("slow", slow)
    require_count("lookups", lookups, least=1)
    if lookups > fast + slow:
        raise InputError("lookups", expected=f"at most {fast + slow} servers", got=str(lookups))
    return 0.0 - math.expm1(_log_miss(fast + slow, fast, lookups))


def server_utilisation(load: TierLoad, replicas: int, upstream: int = 1) -> float:
    """Return lambda r T / (M V): below 1 the servers are stable.  Source: sPARE Eq. 4."""
    load.check(replicas, upstream)
    demand_s = load.request_per_s * upstream * replicas * load.processing_s
    return demand_s / (load.servers * load.cores)


def token_utilisation(load: TierLoad, replicas: int, upstream: int = 1) -> float:
    """Return lambda_conn r T^K / (M C): below 1 the tokens are stable; 0 without tokens.

    Source: sPARE Eq. 5.
    """
    load.check(replicas, upstream)
    if load.tokens_per_server is None:
        return 0.0
    demand = load.connection_per_s * upstream * replicas * load.token_hold_s
    return demand / (load.servers * load.tokens_per_server)


def least_tokens(
    connection_per_s: float, replicas_max: int, servers: int, token_hold_s: float
) -> int:
    """Return the smallest integer C > lambda_conn r_max T^K / M.

    A quotient within rounding of an integer counts as that integer (0.1 + 0.2 counts as 0.3), and
    the result is then one more.  Source: sPARE Eq. 6.
    """
    require_count("servers", servers, least=1)
    _require_replicas("replicas_max", replicas_max, servers)
    _require_not_negative("connection_per_s", connection_per_s)
    _require_not_negative("token_hold_s", token_hold_s)
    bound = connection_per_s * replicas_max * token_hold_s / servers
    return math.floor(bound * (1.0 + 1e-12)) + 1


def tad_capacity_per_s(servers: int, server_per_s: float, share: float, gamma: float) -> float:
    """Return the rate that TAD sustains under interference, M s (1 - f (1 - gamma)).

    The servers drop to gamma s for a share f of the time.

    Parameters: server_per_s s [1/s]; share f in [0, 1]; gamma in (0, 1].  Source: sPARE section
    4.2.
    """
    _check_interference(servers, server_per_s, share, gamma)
    return servers * server_per_s * (1.0 - share * (1.0 - gamma))


def round_robin_capacity_per_s(
    servers: int, server_per_s: float, share: float, gamma: float
) -> float:
    """Return M gamma s, the limit of the slowest server, or M s without interference.

    Parameters: as `tad_capacity_per_s`.  Source: sPARE section 4.2.
    """
    _check_interference(servers, server_per_s, share, gamma)
    return servers * server_per_s * (gamma if share > 0 else 1.0)


def _log_miss(total: int, marked: int, draws: int) -> float:
    """Return log of C(total - marked, draws) / C(total, draws); symmetric in marked and draws."""
    if marked + draws > total:
        return -math.inf
    more, fewer = max(marked, draws), min(marked, draws)
    logarithm = 0.0
    for i in range(fewer):
        logarithm += math.log1p(-more / (total - i))
        if logarithm < _LOG_NOTHING:
            break
    return logarithm


def _require_replicas(place: str, replicas: int, servers: int) -> None:
    require_count(place, replicas, least=1)
    if replicas > servers:
        raise InputError(
            place,
            expected=f"at most {servers}, the servers of the tier",
            got=str(replicas),
            hint="Add servers or lower the replication factor.",
        )


def _require_not_negative(place: str, value: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value < math.inf:
        raise InputError(place, expected="a finite number of at least 0", got=repr(value))


def _check_interference(servers: int, server_per_s: float, share: float, gamma: float) -> None:
    require_count("servers", servers, least=1)
    require_positive("server_per_s", server_per_s)
    require_share("interference share", share)
    require_positive("gamma", gamma)
    require_share("gamma", gamma)
