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

_EXTRA_MIN = 0.001  # a request tried again after a crash is no work of replicas


def costs(run: RunFolder) -> tuple[float | None, float | None]:
    """USD a month of the measured fleet and of the planned one, as far as they are known; an
    undecided plan has none."""
    planned = run.plan.get("usd_per_month") if run.plan.get("feasible") else None
    return measured_usd_per_month(run.spec, run.manifest, run.plan), planned


def cost_sentence(run: RunFolder) -> str:
    """Both in words; "" where neither is known, or the run is of a planned fleet, whose main
    sentence has them."""
    if run.summary.get("promise"):
        return ""
    measured, planned = costs(run)
    parts = [f"the measured fleet costs {usd(measured)} a month"] if measured is not None else []
    parts += [f"the one planned from this run {usd(planned)}"] if planned is not None else []
    if len(parts) > 1 and has_prices_of_its_own(run.spec, run.manifest, run.plan):
        parts = [f"{parts[0]} at its machines' own prices", f"{parts[1]} at those of the book"]
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def cost_table(run: RunFolder) -> Table | None:
    """Return the measured fleet, the planned one and the difference, an hour and a month; no
    difference of two kinds of prices. Of a planned fleet's run: that fleet, and the one before.
    """
    if promise := run.summary.get("promise"):
        return _promised(run, promise["usd_per_month"])
    plan, machines = run.plan, tier_machines(run.spec, run.manifest)
    measured, planned = costs(run)
    if not machines and planned is None:
        return None
    otherwise = has_prices_of_its_own(run.spec, run.manifest, run.plan)
    at = (", own prices", ", book's prices") if otherwise else ("", "")
    rows = [
        _row(f"measured fleet{at[0]}", _counted(machines), measured),
        _row(f"planned fleet{at[1]}", _planned(plan), planned),
    ]
    if measured is not None and planned is not None and not otherwise:
        rows.append(_difference(measured, planned, "planned less measured"))
    return _table(plan, rows)


def _promised(run: RunFolder, usd_per_month: Mapping[str, float | None]) -> Table:
    before, after = usd_per_month["before"], usd_per_month["after"]
    machines = _counted(tier_machines(run.spec, run.manifest))
    rows = [_row("fleet before", "", before), _row("planned fleet", machines, after)]
    if before is not None and after is not None:
        rows.append(_difference(before, after, "planned less before"))
    return _table(run.plan, rows)


def _table(plan: Mapping[str, Any], rows: Sequence[tuple[Cell, ...]]) -> Table:
    words = ["Cost", f"{plan['region']} prices of {plan['prices_as_of']}"
             if plan.get("prices_as_of") else "", "without arbiters"]  # fmt: skip
    caption = ", ".join(word for word in words if word)
    return Table("cost-table", caption, ("", "an hour", "a month"), tuple(rows))


def _difference(before: float, after: float, about: str) -> tuple[Cell, ...]:
    less = zip(_shown(after), _shown(before), strict=True)
    more = [Cell(usd_more(one - other, digits)) for (one, digits), (other, _) in less]
    return (Cell("difference", numeric=False, about=about), *more)


def _row(name: str, about: str, per_month: float | None) -> tuple[Cell, ...]:
    head = Cell(name, numeric=False, about=about)
    if per_month is None:
        return head, Cell(MISSING), Cell(MISSING)
    return head, *(Cell(usd(value, digits)) for value, digits in _shown(per_month))


def _shown(per_month: float) -> list[tuple[float, int]]:
    """USD an hour and a month, rounded as they are shown, with how many digits those are."""
    both = ((per_month / HOURS_PER_MONTH, 4), (per_month, 2))
    return [(round(value, digits), digits) for value, digits in both]


def _counted(machines: list[dict[str, object]]) -> str:
    """ "4 web, 3 db and 1 db standby"."""
    count = Counter(f"{one['tier']}{' standby' if one.get('standby') else ''}" for one in machines)
    return ", ".join(f"{machines} {name}" for name, machines in count.items())


def _planned(plan: Mapping[str, Any]) -> str:
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
    """Load of each arm's replicas on the servers: more requests, and time thrown away."""
    words = []
    for arm, tiers in (run.summary.get("replication") or {}).items():
        extra = extra_work(tiers)
        if extra and extra >= _EXTRA_MIN:
            wasted_s = sum(load["wasted_s"] for load in tiers.values())
            words.append(
                f"{arm} sent the servers {percent(extra)} more requests than its arbiters got; "
                f"{number(wasted_s)} s of their work was thrown away."
            )
    return words


def extra_work(tiers: Mapping[str, Mapping[str, Any]] | None) -> float | None:
    """Replicas sent beyond one per request, as a share of the requests of all tiers."""
    received = sum(load["received"] for load in (tiers or {}).values())
    sent = sum(load["replicas_sent"] for load in (tiers or {}).values())
    return max(0.0, sent / received - 1.0) if received else None
