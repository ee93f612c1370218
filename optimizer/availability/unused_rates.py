"""Stated rates without effect, which are refused because an ignored figure misleads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from core.vocabulary import Mechanism, Scheme

_BESIDE = {
    "common_cause_nodes": ("common_cause", "the share of crashes that shocks bring"),
    "repair_crew": ("repair_s", "how long a repair takes"),
    "limp_recovery_s": ("limp_per_year", "how often a node starts to limp"),
    "limp_capacity": ("limp_per_year", "how often a node starts to limp"),
}


def unused_rates(
    table: Mapping[str, Any],
    *,
    scheme: str | None = None,
    mechanisms: Collection[str] = tuple(Mechanism),
) -> Iterator[tuple[str, str]]:
    """Yield keys of a [rates] table that change no availability, each with the expected text.

    Parameters: scheme None if it is not known; mechanisms, those that may be used.
    """
    effective = {key for key, value in table.items() if value not in (None, 0, 0.0)}
    for key, (companion, meaning) in _BESIDE.items():
        if key in table and companion not in effective:
            yield key, f"it beside {companion}, {meaning}"
    if scheme == Scheme.cloud:
        for key in ("repair_s", "repair_crew"):
            if key in table:
                yield key, "none in the cloud, where a crashed node is replaced and not repaired"
    pool = scheme != Scheme.cloud and Mechanism.pf in mechanisms
    if "standby_fraction" in table and not pool:
        yield "standby_fraction", "it with mechanism pf and scheme on-prem: else nothing waits"
    if "failover_s" in table and scheme == Scheme.on_prem and not pool:
        yield "failover_s", "none with mechanism ara on-prem, where nothing is failed over to"
