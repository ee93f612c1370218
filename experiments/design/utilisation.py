"""Load relative to the fleet: the rate that uses a share of the CPU of the bottleneck tier.

A tier's utilisation is the used share of its machines' CPU, u_i = lambda k_i s_i / (n_i c_i):
lambda requests per second, k_i copies that an arm makes of each at the tier, s_i CPU seconds per
request and copy, n_i machines of c_i cores. The bottleneck is the tier with the largest k_i s_i /
(n_i c_i) under the first arm; the requested utilisation is that of this tier.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.design.fleet import Fleet

BUSY = 0.6  # with copies, no law of latency is trusted beyond it


def copies_of(
    replicas: Mapping[str, int], fleet: Fleet, read_share: float = 1.0
) -> dict[str, float]:
    """Executions of a user's request in each tier, by its replicas and those above it.

    What a request of one copy asks of the tiers below is in their work per request. Of several
    callers the one with the most copies counts. A write is sent once.
    """
    found: dict[str, float] = {}
    for name in fleet.tier_order:
        above = [found[caller] for caller in found if name in fleet.tiers[caller].calls]
        own = replicas.get(name, 1) if name in fleet.arbiters else 1
        found[name] = max(above, default=1.0) * (1.0 + (own - 1) * read_share)
    return found


def cores_of(fleet: Fleet, tier: str) -> float:
    """Cores of a tier's active machines together."""
    return fleet.tiers[tier].nodes * fleet.tiers[tier].cpus


def used(
    work_s: Mapping[str, float], rate_per_s: float, copies: Mapping[str, float], fleet: Fleet
) -> dict[str, float]:
    """Utilisation by tier.

    Parameters: work_s, CPU seconds of each tier per request and copy.
    """
    return {
        tier: rate_per_s * copies[tier] * one_s / cores_of(fleet, tier)
        for tier, one_s in work_s.items()
    }


def binding_tier(
    work_s: Mapping[str, float], copies: Mapping[str, float], fleet: Fleet
) -> str | None:
    """Return the tier that a higher rate fills first; None if no tier does any work."""
    shares = used(work_s, 1.0, copies, fleet)
    found = max(shares, key=lambda tier: shares[tier], default=None)
    return found if found is not None and shares[found] > 0.0 else None


def most_used(
    utilisation: float, first: Mapping[str, float], copies: Mapping[str, float]
) -> dict[str, float]:
    """Return the most that each tier can be used under an arm, whatever its work, where
    `utilisation` is asked of the first arm.

    Parameters: first and copies, `copies_of` the first arm and of the other.
    """
    return {tier: utilisation * copies[tier] / first[tier] for tier in first}
