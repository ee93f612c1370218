"""Disks and traffic between zones in plan.toml: prices of `[prices]` times the amounts of a tier.

disk      (disk_gb x USD/GB + iops x USD) a month, of each machine, standbys included
traffic   requests/s x kbit_per_copy x share that crosses x USD/GB, a month of mean load
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from core.config_file import Problem
from core.units import HOURS_PER_MONTH
from optimizer.plan.solve.options import TierDemand

if TYPE_CHECKING:
    from optimizer.fit import TierFit
    from optimizer.plan.inputs.plan_file import Declared, DeclaredTier, Prices

_KBIT_PER_GB = 8e6
_SECONDS = 3600.0 * HOURS_PER_MONTH


def priced_problems(number: int, tier: DeclaredTier, prices: Prices) -> Iterator[Problem]:
    """Yield disks without a price. A disk beside data needs none: it limits the data, too."""
    if tier.disk_gb is not None and tier.data_gb is None and not prices.disk_usd_per_gb_month:
        expected = "it beside data_gb, or [prices] disk_usd_per_gb_month"
        yield Problem(("tiers", number, "disk_gb"), expected, "neither", "Leave it out.")
    if tier.iops is not None and prices.iops_usd_per_month is None:
        expected = "it beside [prices] iops_usd_per_month"
        yield Problem(("tiers", number, "iops"), expected, "no price", "State it, or leave it out.")


def crossing_problems(stated: Declared) -> Iterator[Problem]:
    """Yield prices without an amount, and traffic without its share between zones."""
    prices, tiers = stated.prices, stated.tiers
    for key, amount in (("disk_usd_per_gb_month", "disk_gb"), ("iops_usd_per_month", "iops")):
        if getattr(prices, key) is not None and all(getattr(t, amount) is None for t in tiers):
            yield Problem(("prices", key), f"it beside {amount} of a tier", "none", "Leave it out.")
    if prices.traffic_usd_per_gb is None:
        if prices.crossing is not None:
            expected = "it beside traffic_usd_per_gb"
            yield Problem(("prices", "crossing"), expected, "no price", "Leave it out.")
        return
    if prices.crossing is None and not stated.domains:
        yield Problem(
            ("prices", "traffic_usd_per_gb"), "crossing beside it, or [[domains]]", "neither",
            "State the share of requests that go to another zone: 0.67 over three alike.",
        )  # fmt: skip


def crossing_of(stated: Declared) -> float:
    """Return the share of requests that go to another zone: stated, or else of equal zones."""
    if stated.prices.crossing is not None:
        return stated.prices.crossing
    return 1.0 - 1.0 / stated.domains[0].count


def price_disks_and_traffic(
    demand: TierDemand, fit: TierFit, tier: DeclaredTier | None, stated: Declared, peak: float
) -> TierDemand:
    """Return the demand with the USD a month of its disks and of traffic between zones.

    Parameters: peak, the planned load over the mean load, by which traffic is paid.
    """
    prices, disk_usd, traffic_usd = stated.prices, 0.0, 0.0
    if tier is not None:
        disk_usd = (tier.disk_gb or 0.0) * (prices.disk_usd_per_gb_month or 0.0)
        disk_usd += (tier.iops or 0.0) * (prices.iops_usd_per_month or 0.0)
    kbit = fit.card_kbit
    if prices.traffic_usd_per_gb is not None and kbit.value and kbit.sufficient:
        gb = demand.request_per_s / peak * _SECONDS * kbit.value / _KBIT_PER_GB
        traffic_usd = gb * crossing_of(stated) * prices.traffic_usd_per_gb
    return replace(demand, disk_usd=disk_usd, traffic_usd=traffic_usd)
