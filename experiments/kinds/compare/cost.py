"""What the measured fleet costs beside the planned one, and what its replicas cost in work."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.kinds.compare.folder import RunFolder
from experiments.report.tables import Cell, Table
from experiments.report.text import number, percent, usd
from optimizer.errors import InputError, SparecraftError
from optimizer.prices import HOURS_PER_MONTH, Instance, price_book


def costs(run: RunFolder) -> tuple[float | None, float | None]:
    """USD a month of the measured fleet and of the planned one, as far as they are known."""
    return _measured(run, _machines(run)), run.plan.get("usd_per_month")


def cost_sentence(run: RunFolder) -> str:
    """Both in words; "" where neither is known."""
    measured, planned = costs(run)
    parts = [f"the measured fleet costs {usd(measured)} a month"] if measured is not None else []
    parts += [f"the planned one {usd(planned)}"] if planned is not None else []
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def cost_table(run: RunFolder) -> Table | None:
    """The measured fleet, the planned one and the difference, an hour and a month."""
    plan, machines = run.plan, _machines(run)
    measured, planned = costs(run)
    if not machines and planned is None:
        return None
    rows = [
        _row("measured fleet", _counted(machines), measured),
        _row("planned fleet", _planned(plan), planned),
    ]
    if measured is not None and planned is not None:
        rows.append(_row("difference", "planned less measured", planned - measured))
    words = ["Cost", f"{plan['region']} prices of {plan['prices_as_of']}"
             if plan.get("prices_as_of") else "", "without arbiters"]  # fmt: skip
    caption = ", ".join(word for word in words if word)
    return Table("cost-table", caption, ("", "an hour", "a month"), tuple(rows))


def _row(name: str, about: str, per_month: float | None) -> tuple[Cell, ...]:
    per_hour = None if per_month is None else per_month / HOURS_PER_MONTH
    head = Cell(name, numeric=False, about=about)
    return head, Cell(usd(per_hour)), Cell(usd(per_month))


def _machines(run: RunFolder) -> list[dict[str, Any]]:
    """The tiers' own machines, each with the cores and memory that it was given."""
    tiers = (run.spec.get("fleet") or {}).get("tiers") or {}
    found = (run.manifest.get("fleet") or {}).get("machines") or []
    return [
        {**tiers[machine["tier"]], **machine}
        for machine in found
        if machine.get("tier") in tiers and machine.get("role") != "arbiter"
    ]


def _counted(machines: list[dict[str, Any]]) -> str:
    """ "4 web, 3 db and 1 db standby"."""
    count = Counter(f"{one['tier']}{' standby' if one.get('standby') else ''}" for one in machines)
    return ", ".join(f"{machines} {name}" for name, machines in count.items())


def _planned(plan: Mapping[str, Any]) -> str:
    if plan.get("feasible") is False:
        return "no fleet within the limits meets the SLO"
    parts = []
    for name, tier in (plan.get("tiers") or {}).items():
        parts.append(f"{tier.get('nodes')} {name}")
        parts += [f"{tier['spares']} {name} standby"] if tier.get("spares") else []
    return ", ".join(parts) or "none was planned"


def _measured(run: RunFolder, machines: list[dict[str, Any]]) -> float | None:
    """USD a month; None where a machine has no price."""
    scheme = run.plan.get("scheme") or (run.spec.get("fleet") or {}).get("scheme")
    if not machines or not scheme:
        return None
    try:
        book = price_book("on-prem" if scheme == "on-prem" else "ec2")
        instances = book.instances(run.plan.get("region") or next(iter(book.regions)))
        return math.fsum(_usd_per_month(machine, instances, scheme) for machine in machines)
    except SparecraftError:
        return None


def _usd_per_month(machine: Mapping[str, Any], instances: Sequence[Instance], scheme: str) -> float:
    """Its own price; else that of its type; else of the cheapest that has its cores and memory.

    A standby is off: on-premises it is bought all the same, in the cloud it costs what the book
    says. Raises: InputError where no type is large enough.
    """
    standby, own = bool(machine.get("standby")), machine.get("usd_per_hour")
    if own is not None:
        return 0.0 if standby else HOURS_PER_MONTH * float(own)
    cores, memory_gb = float(machine["cpus"]), float(machine["memory_mb"]) / 1024
    fitting = [one for one in instances if one.name == machine.get("instance_type")] or [
        one for one in instances if one.vcpus >= cores and one.memory_gb >= memory_gb
    ]
    if not fitting:
        raise InputError(str(machine["name"]), expected="a type of the book", came="a larger one")
    cheapest = min(fitting, key=lambda one: one.usd_per_month)
    if not standby:
        return cheapest.usd_per_month
    off = cheapest.usd_per_month_off
    return off or cheapest.usd_per_month if scheme == "on-prem" else off


def work_words(run: RunFolder) -> list[str]:
    """What each arm's replicas were to the servers: more requests, and time thrown away."""
    words = []
    for arm, tiers in (run.summary.get("replication") or {}).items():
        extra = extra_work(tiers)
        if extra:
            wasted_s = sum(load["wasted_s"] for load in tiers.values())
            words.append(
                f"{arm} sent the servers {percent(extra)} more requests; "
                f"{number(wasted_s)} s of their work was thrown away."
            )
    return words


def extra_work(tiers: Mapping[str, Mapping[str, Any]] | None) -> float | None:
    """Replicas sent beyond one per request, as a share of the requests of all tiers."""
    received = sum(load["received"] for load in (tiers or {}).values())
    sent = sum(load["replicas_sent"] for load in (tiers or {}).values())
    return max(0.0, sent / received - 1.0) if received else None
