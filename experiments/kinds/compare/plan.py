"""The plan of a run in words and as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from core.vocabulary import MECHANISMS, Mechanism
from experiments.report.tables import Cell, Table, named
from experiments.report.text import milliseconds, number, percent, plain, usd

# The figures of a planned tier in plan.json, in the order of the table and in plain words.
TIER_FIGURES: Mapping[str, str] = {
    "instance_type": "machine type",
    "nodes": "active machines",
    "needed": "needed for the load",
    "spares": "standbys",
    "mechanism": "over-provisioning",
    "replicas": "copies (r)",
    "tokens": "tokens a server",
    "utilisation": "load of needed ones",
    "availability": "availability",
    "collision": "chance of collision",
    "purchase": "way to pay",
    "variant": "variant of the software",
    "usd_per_month": "cost a month",
    "usd_active_per_month": "of active machines",
    "usd_standby_per_month": "of standbys",
    "usd_disks_per_month": "of disks",
    "usd_traffic_per_month": "of zones' traffic",
}


def plan_words(plan: Mapping[str, Any]) -> dict[str, object]:
    lists = {
        name: [_item_text(item) for item in plan.get(name) or []]
        for name in ("warnings", "binding", "reasons", "assumptions", "insufficient")
    }
    if plan.get("feasible") is None and not plan.get("tiers") and not plan.get("insufficient"):
        return {"state": "missing", **lists}
    state = {True: "feasible", False: "infeasible", None: "undecided"}[plan.get("feasible")]
    predicted = plan.get("predicted")
    return {
        "state": state,
        "found": bool(plan.get("tiers")),
        "cost": usd(plan.get("usd_per_month")),
        "terms": _plan_terms(plan),
        "claim": _claim(plan),
        "predicted": [
            (str(key).removesuffix("_ms").replace("_", " "), planned_value(key, value))
            for key, value in (predicted.items() if isinstance(predicted, dict) else ())
            if isinstance(value, (str, int, float))
        ],
        **lists,
    }


def _claim(plan: Mapping[str, Any]) -> tuple[str, str]:
    """Return the words before and after "fleet that": the evidence that it meets the SLO."""
    verdict = (plan.get("simulation") or {}).get("verdict")
    proved = (plan.get("solver") or {}).get("proved", True)
    best = "cheapest" if proved else "cheapest known (not proved to be the cheapest)"
    if verdict == "kept":
        return f"The {best}", "meets the SLO in simulation"
    if verdict == "undecided":
        return f"Undecided by simulation: the {best}", "meets the SLO by the latency law alone"
    return f"The {best}", "meets the SLO by the latency law, not simulated,"


def simulated_plan_table(plan: Mapping[str, Any]) -> Table | None:
    """Return the simulator's prediction for one run of the planned fleet, with intervals; None if
    the fleet was not simulated.
    """
    predicted = plan.get("predicted")
    distribution = predicted.get("distribution") if isinstance(predicted, Mapping) else None
    if not distribution:
        return None
    with_faults = distribution["with_faults"]
    rows = [
        (named(key.removesuffix("_ms")), *_spread(with_faults[key], milliseconds))
        for key in ("p50_ms", "p95_ms", "p99_ms")
    ]
    for limit, quantity in with_faults["share_beyond"].items():
        rows.append((named(f"beyond {limit} ms"), *_spread(quantity, percent)))
    for tier, quantity in with_faults["cpu"].items():
        rows.append((named(f"CPU of {tier}"), *_spread(quantity, percent)))
    interval = f"{percent(distribution['confidence'])} of runs"
    caption = f"Simulated runs of {number(distribution['pages'])} requests, faults included"
    return Table("plan-simulated", caption, ("", "predicted", interval), tuple(rows))


def _spread(quantity: Mapping[str, float], text: Callable[[Any], str]) -> tuple[Cell, Cell]:
    bounds = f"{text(quantity['low'])} to {text(quantity['high'])}"
    return Cell(text(quantity["point"])), Cell(bounds)


def _plan_terms(plan: Mapping[str, Any]) -> str:
    """Return the scheme, the region and the date of the prices that the plan names."""
    terms = [f"scheme {plan['scheme']}" if plan.get("scheme") else "",
             f"region {plan['region']}" if plan.get("region") else "",
             f"prices of {plan['prices_as_of']}" if plan.get("prices_as_of") else ""]  # fmt: skip
    return ", ".join(term for term in terms if term)


def _item_text(item: Any) -> str:
    if isinstance(item, dict):
        return ", ".join(f"{key.replace('_', ' ')}: {number(value)}" for key, value in item.items())
    return str(item)


def plan_table(plan: Mapping[str, Any]) -> Table | None:
    """Return the planned tiers, a column each, with a row for each figure in the plan."""
    tiers = {name: _flat(tier) for name, tier in (plan.get("tiers") or {}).items()}
    used_keys = {key for tier in tiers.values() for key, value in tier.items() if value is not None}
    keys = dict.fromkeys([key for key in TIER_FIGURES if key in used_keys] + sorted(used_keys))
    rows = tuple(
        (
            named(TIER_FIGURES.get(key, key.replace("_", " "))),
            *(
                Cell(planned_value(key, tier.get(key)), numeric=key != "mechanism")
                for tier in tiers.values()
            ),
        )
        for key in keys
    )
    return Table("plan-table", "The planned fleet", ("", *tiers), rows) if rows else None


def planned_value(key: str, value: Any) -> str:
    """Return a figure of the plan in the unit of its key; nines are not rounded away."""
    if key == "mechanism" and value in MECHANISMS:
        return Mechanism(value).words
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return plain(value)
    if key.startswith("usd"):
        return usd(value)
    if "availability" in key:
        return f"{100.0 * value:.6g} %"
    if key in ("utilisation", "collision"):
        return percent(value)
    return milliseconds(value) if key.endswith("_ms") else number(value)


def _flat(tier: Any) -> dict[str, object]:
    if not isinstance(tier, Mapping):
        return {"nodes": tier}
    return {k: v for k, v in tier.items() if isinstance(v, (str, int, float)) or v is None}
