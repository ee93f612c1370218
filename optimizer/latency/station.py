r"""One tier as a station: the stay of a copy on each kind of server, and the kinds of server that r
copies meet. An approximation, for fleets that were not measured.

M servers of c = V cores, of which m limp permanently at speed sigma; n = M - m are whole. Copies
arrive at lambda r in total. A neighbour slows each server to gamma of its speed a share f of time,
independently. The four kinds of server and their speeds s:

  whole 1   whole, slowed gamma   limping sigma   limping, slowed sigma gamma

  load of a kind    rho = lambda T / V (r (1 - w) / (n + m) + w), w the share of writes, which every
                    server executes, and of reads for one certain server; a primary's load is an
                    upper bound for the others'.
                    round-robin: every server gets the same, so rho_s = rho / s.  TAD shares by
                    speed, so that all are equally loaded:
                    rho_s = rho (n + m) / ((n + m sigma) (1 - f (1 - gamma)))   (sPARE 4.2),
                    and at least the writes, which no policy moves: lambda w T / (V s)
  stable            if a server with its share is stable: rho_s < 1 with s its mean over time,
                    s = sigma (1 - f (1 - gamma)) for a limping server under round-robin
  mean stay         processor sharing, a copy gets min(1, V / n) of a core:
                    R_s = T / (v s) (1 + rho_s^(sqrt(2 (c + 1)) - 1) / (c (1 - rho_s))),
                    c = max(1, V), v = min(1, V)
                    (Sakasegawa's M/M/c mean, the same for processor sharing)
  overload in a run rho_s is held at 0.97; a backlog of (rho_s - 0.97) run / 2 is added, once per
                    page (its queries wait for each other, so their rate falls)
  law of the stay   gamma with mean R_s and the measured squared coefficient of variation
  servers of the    r distinct servers, drawn one after the other: round-robin with equal
  r copies          probabilities, TAD in proportion to speed, given the numbers of slowed servers,
                    Bin(n, f) and Bin(m, f). With r = M no policy has a choice.
  first of r wins   S(t) = prod_s S_s(t)^(copies on that kind), copies independent. Writes are not
                    copied: they are as with r = 1 under the same load

Error, against an event-by-event simulation of processor sharing with exponential work (20,000
requests, 3 seeds, `test_latency_degraded`), with cv2 as a run would measure it:
  M/M/1 processor sharing, exactly solved, 10 to 80 % load: p95 +1 to +8 %, p99 -3 to -1 %.
  copies sent at random, whole, one or two of four limping, 30 % load: mean -4 to +3 %, p95 0 to
  +8 %, p99 -17 to +3 %.
  round-robin in strict turns, which makes arrivals more regular: +12 to +48 %.
  TAD with two tokens a server, limping and slowed servers, 10 to 40 % load: mean and p95 -8 to
  +44 %, p99 -5 to +92 %; an arbiter that sees free servers queues less than this law says.
Not modelled: several servers slowed at once, which can overload a small tier above 60 % load for a
whole run (p95 was a fifth of the true one there); the times of cancelled losers; collisions of a
page's copies; the arbiter itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from core.errors import (
    InputError,
    UnstableError,
    require_count,
    require_positive,
    require_share,
)

# whether a faster server gets more of the copies, by the policies that the law knows
_BY_SPEED = {"round-robin": False, "tad": True}
POLICIES = tuple(_BY_SPEED)
_RHO_MAX = 0.97
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class TierLatency:
    """The parameters of the law of a tier's stay, independent of the fleet."""

    processing_s: float  # core seconds per copy
    cv2: float  # squared coefficient of variation of the stay [-]
    visits: float  # requests here per copy executed upstream
    interference_share: float = 0.0  # f, share of time with a neighbour [-]
    gamma: float = 1.0  # speed with a neighbour, in (0, 1]
    run_s: float = 0.0  # mean run of a neighbour [s]
    write_share: float = 0.0  # of the requests: each is executed by every server, and never copied
    one_share: float = 0.0  # of the requests: reads for one certain server, never copied

    @property
    def unspread(self) -> float:
        """The share of requests [-] that load one server fully, whatever the number of servers: the
        certain one, and the others at most as much."""
        return min(1.0, self.write_share + self.one_share)

    @property
    def left_share(self) -> float:
        """Share of the capacity that neighbours leave [-]."""
        return 1.0 - self.interference_share * (1.0 - self.gamma)


@dataclass(frozen=True)
class Station:
    """One tier as configured: servers, cores of each, replicas, policy, requests [1/s] before r.

    `limping` of the servers run at `limp_speed` permanently. `sent` is the number of copies of each
    read that load the servers, if it is not `replicas`.
    """

    tier: TierLatency
    servers: int
    cores: float
    replicas: int
    policy: str
    request_per_s: float
    limping: int = 0
    limp_speed: float = 1.0
    sent: int | None = None

    @property
    def sends_by_speed(self) -> bool:
        """True if a faster server gets more of the copies."""
        return _BY_SPEED[self.policy]

    @property
    def load(self) -> float:
        """rho [-] of an undisturbed server, if all servers get the same."""
        tier, copies = self.tier, self.sent or self.replicas
        demand = self.request_per_s * copies * tier.processing_s * (1.0 - tier.unspread)
        return demand / (self.servers * self.cores) + self.written

    @property
    def written(self) -> float:
        """The part of `load` [-] by writes and by one server's reads, equal on every server."""
        return self.request_per_s * self.tier.unspread * self.tier.processing_s / self.cores

    @property
    def parts(self) -> tuple[tuple[float, Station], ...]:
        """The copied and the single requests with their shares if there are both; otherwise all."""
        share = self.tier.unspread
        if not share or self.replicas == 1 or self.sent is not None:
            return ((1.0, self),)
        alone = replace(self, replicas=1, sent=self.replicas)
        unwritten = replace(self, sent=self.replicas)
        return ((share, alone),) if share == 1.0 else ((1.0 - share, unwritten), (share, alone))


@dataclass(frozen=True)
class Stays:
    """Mean stay [s] on each kind of server, in the order of the module.

    `mixes` has the probability of each distribution of the r copies over the kinds.
    """

    means_s: tuple[float, ...]
    mixes: tuple[tuple[float, tuple[int, ...]], ...]


@lru_cache(maxsize=65536)
def stays(station: Station) -> Stays:
    """Return the stays of a tier by kind of server (equations in the module's docstring).

    Raises: UnstableError if the load reaches the capacity; InputError if r exceeds the servers that
    are up, or a field is out of its bounds. Source: sPARE 4.2; Sakasegawa 1977.
    """
    _check(station)
    tier, by_speed = station.tier, station.sends_by_speed
    gamma, sigma = tier.gamma, station.limp_speed if station.limping else 1.0
    speeds = (1.0, gamma, sigma, sigma * gamma)
    rho = _shared_load(station) if by_speed else station.load
    loads = [max(rho, station.written / s) if by_speed else rho / s for s in speeds]
    means = tuple(
        mean_stay_s(tier, station.cores, load, speed)
        for load, speed in zip(loads, speeds, strict=True)
    )
    mixes = _mixes(
        station.servers - station.limping,
        station.limping,
        station.replicas,
        tier.interference_share,
        speeds if by_speed else (1.0, 1.0, 1.0, 1.0),
    )
    return Stays(means, mixes)


def mean_stay_s(tier: TierLatency, cores: float, rho: float, speed: float) -> float:
    """Return the mean stay [s] of a copy on a server, processor sharing (Sakasegawa's M/M/c mean).

    Parameters: tier; cores of the server; rho [-], its load at its present speed, held at 0.97 with
    a backlog beyond; speed [-], 1 for an undisturbed server.
    """
    c = max(1.0, cores)
    capped_rho = min(rho, _RHO_MAX)
    service_s = tier.processing_s / (min(1.0, cores) * speed)
    wait: float = capped_rho ** (math.sqrt(2.0 * (c + 1.0)) - 1.0) / (c * (1.0 - capped_rho))
    backlog_s = max(0.0, rho - _RHO_MAX) * tier.run_s / (2.0 * max(1.0, tier.visits))
    return service_s * (1.0 + wait) + backlog_s


def _shared_load(station: Station) -> float:
    """Return the load of each server [-] if requests are shared by speed."""
    servers = station.servers
    whole_servers = servers - station.limping * (1.0 - station.limp_speed)
    return station.load * servers / (whole_servers * station.tier.left_share)


def _check(station: Station) -> None:
    tier = station.tier
    require_count("servers", station.servers, least=1)
    require_count("limping", station.limping)
    require_count("replicas", station.replicas, least=1)
    for name, count in (("limping", station.limping), ("replicas", station.replicas)):
        if count > station.servers:
            expected = f"at most {station.servers} servers that are up"
            raise InputError(name, expected=expected, got=str(count))
    for name in ("processing_s", "cv2", "visits", "gamma"):
        require_positive(name, getattr(tier, name))
    require_positive("cores", station.cores)
    require_positive("limp_speed", station.limp_speed)
    for name in ("interference_share", "gamma", "write_share", "one_share"):
        require_share(name, getattr(tier, name))
    require_share("limp_speed", station.limp_speed)
    for name, value in (("request_per_s", station.request_per_s), ("run_s", tier.run_s)):
        if not 0 <= value < math.inf:
            raise InputError(name, expected="at least 0, finite", got=repr(value))
    if station.policy not in POLICIES:
        raise InputError("policy", expected=f"one of {', '.join(POLICIES)}", got=station.policy)
    _check_stable(station)


def _check_stable(station: Station) -> None:
    speed = station.tier.left_share * (station.limp_speed if station.limping else 1.0)
    if station.sends_by_speed:
        busiest = max(_shared_load(station), station.written / speed)
    else:
        busiest = station.load / speed
    if not busiest < 1.0:
        raise UnstableError(
            "tier load", expected="below 1", got=f"{busiest:.3f}", hint="Add nodes or cores."
        )


@lru_cache(maxsize=65536)
def _mixes(
    whole_servers: int, limping: int, replicas: int, share: float, weights: tuple[float, ...]
) -> tuple[tuple[float, tuple[int, ...]], ...]:
    """Return the probability of each distribution of the r copies over the kinds.

    Negligible ones are left out.
    """
    probabilities: dict[tuple[int, ...], float] = {}
    for a, p in enumerate(_binomial(whole_servers, share)):
        for b, q in enumerate(_binomial(limping, share)):
            if p * q > _NEGLIGIBLE:
                servers = (whole_servers - a, a, limping - b, b)
                for counts, chance in _draw_probabilities(servers, replicas, weights).items():
                    probabilities[counts] = probabilities.get(counts, 0.0) + p * q * chance
    total = math.fsum(probabilities.values())
    return tuple((p / total, counts) for counts, p in probabilities.items() if p > _NEGLIGIBLE)


def _draw_probabilities(
    servers: tuple[int, ...], draws: int, weights: tuple[float, ...]
) -> dict[tuple[int, ...], float]:
    """Return the probability of the counts by kind, for draws by weight without replacement."""
    chances = {(0,) * len(servers): 1.0}
    for _ in range(draws):
        after: dict[tuple[int, ...], float] = {}
        for counts, chance in chances.items():
            remaining = [(s - k) * w for s, k, w in zip(servers, counts, weights, strict=True)]
            total = math.fsum(remaining)
            for kind, part in enumerate(remaining):
                if part > 0:
                    next_counts = (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :])
                    after[next_counts] = after.get(next_counts, 0.0) + chance * part / total
        chances = after
    return chances


def _binomial(n: int, p: float) -> list[float]:
    """Return P(k of n), k = 0..n, without overflow for any n."""
    if p in (0.0, 1.0):
        return [float(k == n * p) for k in range(n + 1)]
    ways = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)]
    hit, missed = math.log(p), math.log1p(-p)
    return [math.exp(w + k * hit + (n - k) * missed) for k, w in enumerate(ways)]
