"""Gain of a strategy: its measured fail-over times in the planner's availability model.

One server answers, and the others of the tier are hot standbys: PCRAFT's passive failover
on-premises (Fig. 1a) with a hot pool. CrashRecovery is the measured distribution of the clients'
fail-over times, PoolRepair the time until the struck server was registered again. The design states
the rate of server failures. With too few samples of either there is no figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from core.errors import SparecraftError
from core.vocabulary import Mechanism, Scheme
from experiments.kinds.failover.section import FailoverSection
from experiments.record.cost import book_of, tier_machines, usd_per_month
from optimizer.availability import FailureRates, availability, least_pool
from optimizer.fit.failovers import Failovers
from optimizer.uncertainty import rates_from

_NEEDED = 1  # servers that answer
_HOT = 1.0  # a server that stands by fails as often as one that answers


def gain_of(
    arm: str,
    fault: str,
    failover_s: np.ndarray[Any, Any],
    ready_s: Sequence[float],
    section: FailoverSection,
    manifest: Mapping[str, Any],
) -> dict[str, object] | None:
    """Return the yearly cost of this fault with this strategy; None if no rate is stated.

    Parameters: failover_s (n,) [s], a strike each; ready_s [s], the times from a strike until its
    server is registered again.
    """
    rate = section.rates.get(fault)
    if rate is None:
        return None
    times = Failovers(tuple(map(float, failover_s)), tuple(ready_s))
    counts = {"failovers": len(failover_s), "repairs": len(ready_s)}
    table = times.rates()
    if len(table) < 2:  # fail-over and repair
        return {**counts, "reason": "insufficient"}
    stated_rates = {"crash_per_year": rate.per_year, "standby_fraction": _HOT}
    rates = rates_from({**table, **stated_rates})
    nodes = manifest["spec"]["fleet"]["tiers"][section.tier]["nodes"]
    try:
        means = {
            name: float(np.mean(rate_samples["samples"])) for name, rate_samples in table.items()
        }
        mean, worse = rates.with_values(means), rates.at(section.confidence)
        return {
            **counts, "reason": None, "crash_recovery_s": mean.failover_s,
            "pool_repair_s": mean.repair_s, "unavailability": _unavailability(nodes, mean),
            "unavailability_most": _unavailability(nodes, worse),
            **_required_servers(arm, mean, nodes, section, manifest),
        }  # fmt: skip
    except SparecraftError as error:
        return {**counts, "reason": str(error)}


def gain_basis(section: FailoverSection, manifest: Mapping[str, Any]) -> dict[str, object] | None:
    """Return the basis of the figures; None if the design states no rate."""
    if not section.rates:
        return None
    book = book_of(manifest["spec"]["fleet"]["scheme"])
    return {
        "availability": section.availability,
        "rates": {fault: rate.model_dump() for fault, rate in section.rates.items()},
        "prices": {"as_of": book.as_of, "source": book.source},
    }


def _unavailability(nodes: int, rates: FailureRates) -> float:
    """Return the share of a year in which clients get no answer, with the model's largest error
    added.
    """
    prediction = availability(
        _NEEDED, nodes - _NEEDED, rates, mechanism=Mechanism.pf, scheme=Scheme.on_prem
    )
    return prediction.unavailability_most


def _required_servers(
    arm: str, rates: FailureRates, nodes: int, section: FailoverSection, manifest: Mapping[str, Any]
) -> dict[str, object]:
    """Return the least number of servers for the design's availability, and the cost of the fleet
    with them; both are None if no number of servers is enough with this strategy.
    """
    extra = least_pool(_NEEDED, section.availability, rates).extra
    servers = None if extra is None else _NEEDED + extra
    return {
        "servers": servers,
        "usd_per_month": _usd(arm, nodes, section, manifest),
        "usd_per_month_sized": None if servers is None else _usd(arm, servers, section, manifest),
    }


def _usd(
    arm: str, servers: int, section: FailoverSection, manifest: Mapping[str, Any]
) -> float | None:
    """Return the USD a month of the fleet with so many servers, and with the arbiter if the
    strategy has one."""
    fleet = manifest["spec"]["fleet"]
    machines = tier_machines(manifest["spec"], manifest)
    other_machines = [machine for machine in machines if machine["tier"] != section.tier]
    tier_servers = [machine for machine in machines if machine["tier"] == section.tier]
    tier_servers = tier_servers[:1] * servers
    fronts = []
    if section.strategies[arm].strategy == "arbiter":
        arbiter = fleet["arbiters"][section.tier]
        fronts = [{"name": "arbiter", "cpus": arbiter["cpus"], "memory_mb": arbiter["memory_mb"]}]
    if not tier_servers:
        return None
    return usd_per_month([*other_machines, *tier_servers, *fronts], fleet["scheme"])
