"""Monthly cost of the measured machines of a run, at the prices of its plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import InputError, SparecraftError
from core.statistics.percentiles import time_out_of
from core.units import HOURS_PER_MONTH
from core.vocabulary import Scheme
from experiments.record.telemetry import Account
from optimizer.prices import Instance, PriceBook, price_book


def tier_machines(spec: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return the tiers' own machines, each with its cores and memory."""
    tiers = (spec.get("fleet") or {}).get("tiers") or {}
    machines = (manifest.get("fleet") or {}).get("machines") or []
    return [
        {**tiers[machine["tier"]], **machine}
        for machine in machines
        if machine.get("tier") in tiers and machine.get("role") != "arbiter"
    ]


def measured_usd_per_month(
    spec: Mapping[str, Any], manifest: Mapping[str, Any], plan: Mapping[str, Any]
) -> float | None:
    """USD a month of the tiers' machines; None if a machine has no price."""
    return usd_per_month(tier_machines(spec, manifest), _scheme(spec, plan), plan.get("region"))


def has_prices_of_its_own(
    spec: Mapping[str, Any], manifest: Mapping[str, Any], plan: Mapping[str, Any]
) -> bool:
    """Return True if the machines' prices are not those of the book.

    These are prices of hosts, or of rented machines that stand for owned ones. A plan has the
    book's prices, so its cost cannot be compared with that of such a fleet.
    """
    machines = tier_machines(spec, manifest)
    is_priced = any(machine.get("usd_per_hour") is not None for machine in machines)
    return is_priced and _scheme(spec, plan) == Scheme.on_prem


def usd_per_month(
    machines: Sequence[Mapping[str, Any]], scheme: str | None, region: str | None = None
) -> float | None:
    """USD a month of machines, each with its cores and memory; None if one has no price."""
    if not machines or not scheme:
        return None
    try:
        book = book_of(scheme)
        instances = book.instances(region or next(iter(book.regions)))
        return math.fsum(_usd_per_month(machine, instances, scheme) for machine in machines)
    except SparecraftError:
        return None


def book_of(scheme: str) -> PriceBook:
    return price_book("on-prem" if scheme == Scheme.on_prem else "ec2")


def account_of(spec: Mapping[str, Any], fleet: Mapping[str, Any]) -> Account:
    """Return the inputs of burn and cost for telemetry.

    Parameters: spec, as the manifest has it; fleet, the inventory.
    """
    monthly = measured_usd_per_month(spec, {"fleet": fleet}, {})
    slo = {key: limit for key, limit in (spec.get("slo") or {}).items() if limit is not None}
    usd_per_hour = None if monthly is None else monthly / HOURS_PER_MONTH
    return Account(slo, usd_per_hour, time_out_of({"spec": spec}))


def _scheme(spec: Mapping[str, Any], plan: Mapping[str, Any]) -> str | None:
    return plan.get("scheme") or (spec.get("fleet") or {}).get("scheme")


def _usd_per_month(machine: Mapping[str, Any], instances: Sequence[Instance], scheme: str) -> float:
    """Return a machine's own price, that of its type, or that of the cheapest type of its size.

    A standby is off: on-premises it costs its full price, in the cloud the price of the book.
    Raises: InputError if no type is large enough.
    """
    standby, price_per_hour = bool(machine.get("standby")), machine.get("usd_per_hour")
    if price_per_hour is not None:
        return 0.0 if standby else HOURS_PER_MONTH * float(price_per_hour)
    cores, memory_gb = float(machine["cpus"]), float(machine["memory_mb"]) / 1024
    fitting = [
        instance for instance in instances if instance.name == machine.get("instance_type")
    ] or [
        instance
        for instance in instances
        if instance.vcpus >= cores and instance.memory_gb >= memory_gb
    ]
    if not fitting:
        raise InputError(str(machine["name"]), expected="a type of the book", got="a larger one")
    cheapest = min(fitting, key=lambda instance: instance.usd_per_month)
    if not standby:
        return cheapest.usd_per_month
    off = cheapest.usd_per_month_off
    if off is not None:
        return off
    return cheapest.usd_per_month if scheme == Scheme.on_prem else 0.0
