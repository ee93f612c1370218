"""Placement of a plan's machines, their service without a domain, and the cost of the rules.

The service is evaluated without the worst domain of each level, for all tiers at once.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace

from optimizer.availability import sizes_at
from optimizer.plan.explain.without import DOMAIN_RULES, Without
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.domains import Domain
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.problem import Path, in_ms


def domains_of(
    case: Case, path: Path | None, rule_costs: tuple[Without, ...]
) -> dict[str, object] | None:
    """Return the domains for plan.json; None without stated domains."""
    if not case.domains:
        return None
    body: dict[str, object] = {
        "levels": [_describe_level(domain, case) for domain in case.domains],
        "without": [
            {**asdict(without), "usd_per_month": _round_cents(without.usd_per_month)}
            for without in rule_costs
        ],
    }
    if path is None:
        return body
    spread = {option.tier: _sizes(case, option) for option in path}
    gone = [_without_domain(case, path, level, spread) for level in range(len(case.domains))]
    return {**body, "spread": spread, "one_gone": gone}


def _describe_level(domain: Domain, case: Case) -> dict[str, object]:
    level = domain.level(case.rates.crash_per_year)
    return {
        "name": domain.name,
        "count": domain.count,
        "failures_per_year": level.failures_per_year,
        "repair_s": domain.repair_s,
        "dark": level.dark,
        "source": domain.source,
        **{rule: getattr(domain, rule) for rule in DOMAIN_RULES},
    }


def _sizes(case: Case, option: Option) -> dict[str, list[int]]:
    """Return the machines (with standbys) in each occupied domain, per level."""
    spread = case.spread(option)
    assert spread is not None  # options without a placement are not listed
    return {
        domain.name: sizes_at(spread.placement, level) for level, domain in enumerate(case.domains)
    }


def _without_domain(
    case: Case, path: Path, level: int, spread: dict[str, dict[str, list[int]]]
) -> dict[str, object]:
    """Return the tiers' service without the fullest domain of that level.

    Standbys have taken over by then.
    """
    name, tiers, reduced = case.domains[level].name, {}, []
    for option in path:
        left = option.machines - spread[option.tier][name][0]
        serving = min(option.needed, left)
        read = (option.utilisation - option.written) * option.needed
        load = read / serving + option.written if serving else None
        tiers[option.tier] = {
            "machines": option.machines, "left": left, "needed": option.needed, "utilisation": load,
        }  # fmt: skip
        reduced.append((option, serving))
    body: dict[str, object] = {"level": name, "tiers": tiers}
    body["survives"] = all(serving >= option.needed for option, serving in reduced)
    return {**body, **_latency(case, reduced)}


def _latency(case: Case, reduced: list[tuple[Option, int]]) -> dict[str, float | None]:
    """Return the percentiles with these servers; None if they cannot carry the load."""
    if any(serving < option.replicas for option, serving in reduced):
        return in_ms(dict.fromkeys(case.slo.latency_ms, math.inf))
    return case.percentiles_ms(tuple(replace(option, needed=n) for option, n in reduced))


def _round_cents(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 2)
