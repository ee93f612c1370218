"""The plan of a run in words and as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.report.tables import Cell, Table, named
from experiments.report.text import milliseconds, number, percent, plain, usd


def plan_words(plan: Mapping[str, Any]) -> dict[str, object]:
    """Return the plan in words: cost, what binds it, why it cannot be."""
    lists = {
        name: [_words(item) for item in plan.get(name) or []]
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
    """Return the words before and after "fleet that": who says that it meets the SLO."""
    verdict = (plan.get("simulation") or {}).get("verdict")
    if verdict == "kept":
        return "The cheapest", "meets the SLO in simulation"
    if verdict == "undecided":
        return "Undecided by simulation: the cheapest", "meets the SLO by the latency law alone"
    return "The cheapest", "meets the SLO by the latency law, not simulated,"


def simulated_plan_table(plan: Mapping[str, Any]) -> Table | None:
    """Return the simulator's prediction for one run of the planned fleet, with intervals;
    None if it did not simulate it.
    """
    predicted = plan.get("predicted")
    shown = predicted.get("distribution") if isinstance(predicted, Mapping) else None
    if not shown:
        return None
    found = shown["with_faults"]
    rows = [
        (named(key.removesuffix("_ms")), *_spread(found[key], milliseconds))
        for key in ("p50_ms", "p95_ms", "p99_ms")
    ]
    for limit, one in found["share_beyond"].items():
        rows.append((named(f"beyond {limit} ms"), *_spread(one, percent)))
    for tier, one in found["cpu"].items():
        rows.append((named(f"CPU of {tier}"), *_spread(one, percent)))
    interval = f"{percent(shown['confidence'])} of runs"
    caption = f"Simulated runs of {number(shown['pages'])} requests, faults included"
    return Table("plan-simulated", caption, ("", "predicted", interval), tuple(rows))


def _spread(one: Mapping[str, float], text: Callable[[Any], str]) -> tuple[Cell, Cell]:
    return Cell(text(one["point"])), Cell(f"{text(one['low'])} to {text(one['high'])}")


def _plan_terms(plan: Mapping[str, Any]) -> str:
    """Scheme, region and date of the prices, as far as the plan names them."""
    words = [f"scheme {plan['scheme']}" if plan.get("scheme") else "",
             f"region {plan['region']}" if plan.get("region") else "",
             f"prices of {plan['prices_as_of']}" if plan.get("prices_as_of") else ""]  # fmt: skip
    return ", ".join(word for word in words if word)


def _words(item: Any) -> str:
    if isinstance(item, dict):
        return ", ".join(f"{key.replace('_', ' ')}: {number(value)}" for key, value in item.items())
    return str(item)


def plan_table(plan: Mapping[str, Any]) -> Table | None:
    """Return the planned tiers, a column each; rows are what the plan has of them."""
    tiers = {name: _flat(tier) for name, tier in (plan.get("tiers") or {}).items()}
    keys = dict.fromkeys(key for tier in tiers.values() for key in tier)
    rows = tuple(
        (
            named(key.replace("_", " ").replace("usd", "USD")),
            *(Cell(planned_value(key, tier.get(key))) for tier in tiers.values()),
        )
        for key in keys
    )
    return Table("plan-table", "The planned fleet", ("", *tiers), rows) if rows else None


def planned_value(key: str, value: Any) -> str:
    """Return a figure of the plan by what its name says it is; nines are not rounded away."""
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
    """Return the scalar entries of a planned tier."""
    if not isinstance(tier, Mapping):
        return {"nodes": tier}
    return {k: v for k, v in tier.items() if isinstance(v, (str, int, float)) or v is None}
