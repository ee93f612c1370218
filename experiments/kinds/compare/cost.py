"""Cost of the measured fleet beside the planned one, and of its replicas in work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from core.units import HOURS_PER_MONTH
from experiments.kinds.compare.folder import RunFolder
from experiments.record.cost import has_prices_of_its_own, measured_usd_per_month, tier_machines
from experiments.report.tables import Cell, Table
from experiments.report.text import MISSING, number, percent, usd, usd_more

_EXTRA_MIN = 0.001  # a request that is repeated after a crash is not a replica's work


def costs(run: RunFolder) -> tuple[float | None, float | None]:
    """Return the USD a month of the measured fleet and of the planned one; None where unknown. An
    undecided plan has no cost."""
    planned = run.plan.get("usd_per_month") if run.plan.get("feasible") else None
    return measured_usd_per_month(run.spec, run.manifest, run.plan), planned


def cost_sentence(run: RunFolder) -> str:
    """Return both costs in words; "" where neither is known, or the run is of a planned fleet,
    whose main sentence has them."""
    if run.summary.get("promise"):
        return ""
    measured, planned = costs(run)
    parts = [f"the measured fleet costs {usd(measured)} a month"] if measured is not None else []
    parts += [f"the one planned from this run {usd(planned)}"] if planned is not None else []
    if len(parts) > 1 and has_prices_of_its_own(run.spec, run.manifest, run.plan):
        parts = [f"{parts[0]} at its machines' own prices", f"{parts[1]} at those of the book"]
    text = ", ".join(parts)
    if planned is not None and _is_undecided(run.plan):
        text += " if its undecided plan holds"
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _is_undecided(plan: Mapping[str, Any]) -> bool:
    """Return True if the simulator did not decide that the planned fleet meets the SLO."""
    return (plan.get("simulation") or {}).get("verdict") == "undecided"


def cost_table(run: RunFolder) -> Table | None:
    """Return the costs of the measured fleet, the planned one and the difference, an hour and a
    month; without the difference if the two have different kinds of prices. The table of a planned
    fleet's run has that fleet and the one before.
    """
    if promise := run.summary.get("promise"):
        return _promise_table(run, promise["usd_per_month"])
    plan, machines = run.plan, tier_machines(run.spec, run.manifest)
    measured, planned = costs(run)
    if not machines and planned is None:
        return None
    differs = has_prices_of_its_own(run.spec, run.manifest, run.plan)
    price_notes = (", own prices", ", book's prices") if differs else ("", "")
    undecided = ", undecided" if _is_undecided(plan) else ""
    rows = [
        _row(f"measured fleet{price_notes[0]}", _machine_counts(machines), measured),
        _row(f"planned fleet{undecided}{price_notes[1]}", _planned_counts(plan), planned),
    ]
    if measured is not None and planned is not None and not differs:
        rows.append(_difference(measured, planned, "planned less measured"))
    return _table(plan, rows)


def _promise_table(run: RunFolder, usd_per_month: Mapping[str, float | None]) -> Table:
    before, after = usd_per_month["before"], usd_per_month["after"]
    machines = _machine_counts(tier_machines(run.spec, run.manifest))
    rows = [_row("fleet before", "", before), _row("planned fleet", machines, after)]
    if before is not None and after is not None:
        rows.append(_difference(before, after, "planned less before"))
    return _table(run.plan, rows)


def _table(plan: Mapping[str, Any], rows: Sequence[tuple[Cell, ...]]) -> Table:
    parts = ["Cost", f"{plan['region']} prices of {plan['prices_as_of']}"
             if plan.get("prices_as_of") else "", "without arbiters"]  # fmt: skip
    caption = ", ".join(part for part in parts if part)
    return Table("cost-table", caption, ("", "an hour", "a month"), tuple(rows))


def _difference(before: float, after: float, about: str) -> tuple[Cell, ...]:
    pairs = zip(_rounded_costs(after), _rounded_costs(before), strict=True)
    more = [
        Cell(usd_more(rounded_after - rounded_before, digits))
        for (rounded_after, digits), (rounded_before, _) in pairs
    ]
    return (Cell("difference", numeric=False, about=about), *more)


def _row(name: str, about: str, per_month: float | None) -> tuple[Cell, ...]:
    head = Cell(name, numeric=False, about=about)
    if per_month is None:
        return head, Cell(MISSING), Cell(MISSING)
    return head, *(Cell(usd(value, digits)) for value, digits in _rounded_costs(per_month))


def _rounded_costs(per_month: float) -> list[tuple[float, int]]:
    """Return the USD an hour and a month, each rounded as shown, with its number of digits."""
    amounts = ((per_month / HOURS_PER_MONTH, 4), (per_month, 2))
    return [(round(value, digits), digits) for value, digits in amounts]


def _machine_counts(machines: list[dict[str, object]]) -> str:
    """Return the machines by tier, such as "4 web, 3 db, 1 db standby"."""
    count = Counter(
        f"{machine['tier']}{' standby' if machine.get('standby') else ''}" for machine in machines
    )
    return ", ".join(f"{machines} {name}" for name, machines in count.items())


def _planned_counts(plan: Mapping[str, Any]) -> str:
    if plan.get("feasible") is False:
        return "no fleet within the limits meets the SLO"
    if plan.get("feasible") is None and plan.get("reasons"):
        return "undecided, see the plan"
    parts = []
    for name, tier in (plan.get("tiers") or {}).items():
        parts.append(f"{tier.get('nodes')} {name}")
        parts += [f"{tier['spares']} {name} standby"] if tier.get("spares") else []
    return ", ".join(parts) or "none was planned"


def work_words(run: RunFolder) -> list[str]:
    """Return the load of each arm's replicas on the servers: more requests, and wasted time."""
    sentences = []
    for arm, tiers in (run.summary.get("replication") or {}).items():
        extra = extra_work(tiers)
        if extra and extra >= _EXTRA_MIN:
            wasted_s = sum(load["wasted_s"] for load in tiers.values())
            sentences.append(
                f"{arm} sent the servers {percent(extra)} more requests than its arbiters got; "
                f"{number(wasted_s)} s of their work was thrown away."
            )
    return sentences


def extra_work(tiers: Mapping[str, Mapping[str, Any]] | None) -> float | None:
    """Return the replicas beyond one per request, as a share of the requests of all tiers."""
    received = sum(load["received"] for load in (tiers or {}).values())
    sent = sum(load["replicas_sent"] for load in (tiers or {}).values())
    return max(0.0, sent / received - 1.0) if received else None
