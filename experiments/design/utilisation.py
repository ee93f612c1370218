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
    """Return the executions of a user's request in each tier, by its replicas and its callers'.

    Several calls of a tier in one execution are part of the tier's work per request. Among several
    callers, the one with the most copies counts. A write is sent once.
    """
    copies: dict[str, float] = {}
    for name in fleet.tier_order:
        caller_copies = [copies[caller] for caller in copies if name in fleet.tiers[caller].calls]
        tier_replicas = replicas.get(name, 1) if name in fleet.arbiters else 1
        copies[name] = max(caller_copies, default=1.0) * (1.0 + (tier_replicas - 1) * read_share)
    return copies


def cores_of(fleet: Fleet, tier: str) -> float:
    """Return the cores of a tier's active machines together."""
    return fleet.tiers[tier].nodes * fleet.tiers[tier].cpus


def used(
    work_s: Mapping[str, float], rate_per_s: float, copies: Mapping[str, float], fleet: Fleet
) -> dict[str, float]:
    """Return the utilisation by tier.

    Parameters: work_s, CPU seconds of each tier per request and copy.
    """
    return {
        tier: rate_per_s * copies[tier] * tier_work_s / cores_of(fleet, tier)
        for tier, tier_work_s in work_s.items()
    }


def binding_tier(
    work_s: Mapping[str, float], copies: Mapping[str, float], fleet: Fleet
) -> str | None:
    """Return the tier that a higher rate fills first; None if no tier does any work."""
    shares = used(work_s, 1.0, copies, fleet)
    binding = max(shares, key=lambda tier: shares[tier], default=None)
    return binding if binding is not None and shares[binding] > 0.0 else None


def most_used(
    utilisation: float, first: Mapping[str, float], copies: Mapping[str, float]
) -> dict[str, float]:
    """Return the highest possible utilisation of each tier under an arm, for any work of the tiers,
    if the first arm has `utilisation`.

    Parameters: first and copies, `copies_of` the first arm and of that arm.
    """
    return {tier: utilisation * copies[tier] / first[tier] for tier in first}
