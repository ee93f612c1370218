"""Gain and work of each step from one arm to the next, as sentences and a table.

A design in which each arm differs from the previous one in one thing is a chain. Its page begins
with these steps, and not with the arm that happened to be the best.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.headline import is_a_chain
from experiments.kinds.compare.verdict import differs, factor_cell, gain, verdict
from experiments.record.metrics.steps import CHOICE, COPIES
from experiments.report.tables import Cell, Table, named
from experiments.report.text import factor, interval, number, statistic

_SAID = ("p95", "p99")
_SUBJECTS = {
    CHOICE: "the choice of server",
    COPIES: "the copies",
    "look_ahead": "the look-ahead",
}


def main_sentence(run: RunFolder) -> str:
    """Return the first sentence of page and terminal.

    For a chain of arms it has the gain and the work of each step, else the arms that met the SLO.
    """
    if not is_a_chain(run.summary) or run.summary.get("valid") is not True:
        return verdict(run)
    return " ".join(_sentence(run, step) for step in run.summary["steps"])


def closing_lines(run: RunFolder) -> list[str]:
    """Return the sentence after the first: for a chain the arms that met the SLO, else the best
    arm's gain.
    """
    if is_a_chain(run.summary) and run.summary.get("valid") is True:
        return [verdict(run)]
    return [gain(run)]


def steps_table(run: RunFolder) -> Table | None:
    """Return a column for each step: factors with their intervals, and the factor of requests to
    servers.
    """
    steps = run.summary.get("steps") or []
    if not steps:
        return None
    rows = [
        (named(statistic(key)), *(factor_cell(run, step["factors"].get(key)) for step in steps))
        for key in ("p50", "mean", *_SAID)
    ]
    works = [Cell(factor(work_factor(run, step))) for step in steps]
    rows.append((named("requests to servers"), *works))
    entries = steps[0]["factors"]
    first, last = entries.get("p95") or {}, entries.get("p99") or {}
    caption = (
        f"Gain of each step: {number(first.get('samples'))} requests per arm, "
        f"{number(first.get('pairs'))} rounds, {number(last.get('samples_beyond'))} beyond p99"
    )
    head = ("", *(f"{step['arm']} / {step['base']} (95 %)" for step in steps))
    return Table("steps-table", caption, head, tuple(rows))


def requests_to_servers(run: RunFolder, arm: str) -> dict[str, float]:
    """Return the requests of each tier's servers for one request of a user, copies included, in the
    fleet's order of tiers.
    """
    loads = (run.summary.get("replication") or {}).get(arm) or {}
    tiers = (run.spec.get("fleet") or {}).get("tiers") or {name: {} for name in loads}
    inner_tiers = {name for tier in tiers.values() for name in tier.get("calls") or ()}
    user_requests = sum(load["received"] for tier, load in loads.items() if tier not in inner_tiers)
    return {
        tier: loads[tier]["replicas_sent"] / user_requests
        for tier in tiers
        if tier in loads and user_requests
    }


def work_factor(run: RunFolder, step: Mapping[str, Any]) -> float | None:
    """Return the requests to servers of the arm over those of its base, all tiers together."""
    before, after = (sum(requests_to_servers(run, step[arm]).values()) for arm in ("base", "arm"))
    return after / before if before and after else None


def _sentence(run: RunFolder, step: Mapping[str, Any]) -> str:
    subject = _SUBJECTS.get(step["thing"], f"the other {step['thing']}")
    parts = [_change_text(name, step["factors"].get(name) or {}) for name in _SAID]
    if (work := work_factor(run, step)) is not None:
        parts.append(f"{factor(work)} the requests to servers")
    return f"{subject[0].upper()}{subject[1:]} ({step['arm']}): {', '.join(parts)}."


def _change_text(name: str, entry: Mapping[str, Any]) -> str:
    """Return a change such as "p95 9.71 × lower (5.27 to 17.9)".

    It is undecided if the interval contains 1, or if too few requests lie beyond the percentile.
    """
    if entry.get("factor") is None:
        return f"{name} not known"
    times, low, high = entry["factor"], entry["ci_low"], entry["ci_high"]
    if entry.get("insufficient"):
        return f"{name} undecided (too few requests)"
    if not differs(entry):
        return f"{name} undecided ({interval(low, high)})"
    if times >= 1:
        return f"{name} {factor(times)} lower ({interval(low, high)})"
    return f"{name} {factor(1 / times)} higher ({interval(1 / high, 1 / low)})"
