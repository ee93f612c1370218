"""report.html: one file, made from a run and nothing else, that needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.kinds.compare import tables
from experiments.kinds.compare.asked import asked_rows
from experiments.kinds.compare.figures import all_figures
from experiments.kinds.compare.folder import RunFolder, read_folder
from experiments.kinds.compare.generator import load_table
from experiments.kinds.compare.predicted import (
    availability_words,
    predicted_table,
    verdict_sentence,
)
from experiments.record.metrics.summary import compared_arms
from experiments.report.shell import Verdict, chip, chips, render_page, save_page
from experiments.report.tables import Table
from experiments.report.text import factor, interval, milliseconds, number, percent, usd

FOLDER = Path(__file__).parent
TEMPLATE = "compare.html.j2"


def write_report(run_dir: Path) -> Path:
    """Write report.html into a run's folder, whole or not at all, and return its path.

    Raises: InputError where run_dir is no folder. Anything missing in it is a note in the report.
    """
    return save_page(run_dir, render_page(TEMPLATE, [FOLDER], **page_values(read_folder(run_dir))))


def page_values(run: RunFolder) -> dict[str, Any]:
    """What the template says, by name."""
    ideal = run.summary.get("ideal") or {"source": "unknown"}
    platform = run.manifest.get("platform")
    return {
        "name": str(run.summary.get("experiment") or run.path.name),
        "run": run,
        "when": str(run.manifest.get("started_at") or ""),
        "about": f"platform {platform}" if platform else "",
        "verdicts": verdicts(run),
        "headline": headline(run),
        "tiles": tiles(run),
        "asked": asked_rows(run) if run.spec else [],
        "figures": all_figures(run),
        "improvement": tables.improvement_table(run),
        "comparison_baseline": compared_arms(run.arms)[0] if run.arms else "",
        "comparison": tables.comparison_table(run),
        "simulated": run.simulated,
        "simulated_table": tables.simulated_table(run),
        "arms": _arm_table(run),
        "phases": tables.phase_table(run),
        "outcomes": tables.outcome_table(run),
        "faults": tables.fault_table(run),
        "replication": tables.replication_table(run),
        "host": tables.host_table(run),
        "load": load_table(run),
        "predicted": predicted_words(run),
        "plan": plan_words(run),
        "plan_table": tables.plan_table(_plan(run)),
        "repeat": tables.repeat_rows(run),
        "ideal": ideal,
        "ideal_ms": milliseconds(ideal.get("latency_ms")),
        "weights_source": run.summary.get("weights_source") or "",
    }


def verdicts(run: RunFolder) -> list[Verdict]:
    """Valid? SLO met? Faults injected and reverted? Cleaned up?"""
    summary = run.summary
    found = summary.get("verdicts") or run.manifest.get("verdicts") or {}
    slo = summary.get("slo") or {}
    valid = summary.get("valid")
    measurement = (found.get("measurement") or {}).get("reasons") or ()
    if valid is False and not measurement:
        measurement = ("see the other verdicts",)
    arm = f" by {slo['arm']}" if slo.get("arm") else ""
    unknown = "not asked" if not slo.get("asked") else "undecided"
    questions = {
        "injection": "Faults injected?",
        "revert": "Faults reverted?",
        "cleanup": "Cleaned up?",
    }
    return [
        chip("Measurement valid?", valid, measurement),
        chip(f"SLO met{arm}?", slo.get("met"), slo.get("reasons") or (), unknown),
        *chips(found, questions),
    ]


def headline(run: RunFolder) -> str:
    """The answer in one sentence; what cannot be said is not said."""
    if run.summary.get("predicted"):
        return verdict_sentence(run.summary)
    baseline, other, entries = _headline_arms(run)
    if other is None:
        return f"This run has one arm, {baseline}, and nothing to compare it with."
    usable = [n for n in ("p99", "p95", "mean") if (entries.get(n) or {}).get("factor") is not None]
    if not usable:
        return "This run does not compare two arms: no arrivals were measured by both."
    firm = [name for name in usable if not entries[name].get("insufficient")] or usable
    entry = entries[firm[0]]
    what = "mean latency" if firm[0] == "mean" else f"{firm[0]} latency"
    share = entry["factor"]
    change = f"{factor(share)} lower" if share >= 1 else f"{factor(1 / share)} higher"
    sure = "" if entry["ci_low"] > 1 or entry["ci_high"] < 1 else (
        " The interval includes 1: this run does not show a difference.")  # fmt: skip
    if run.summary.get("comparison"):
        sure += (
            f" It has the best p95 of {len(run.arms)} arms, and the best of many looks too good."
        )
    figures = (run.summary.get("arms") or {}).get(other) or {}
    return (
        f"With {other}, {what} is {change} than with {baseline} "
        f"(95 % interval {interval(entry['ci_low'], entry['ci_high'])}; "
        f"{number(figures.get('requests'))} requests per arm, {entry['pairs']} pairs).{sure}"
    )


def _headline_arms(run: RunFolder) -> tuple[str, str | None, dict[str, Any]]:
    """The two arms of the headline, and their factors; of many arms that of the best p95."""
    baseline, other = compared_arms(run.arms)
    comparison = run.summary.get("comparison") or {}
    known = {
        arm: entries["p95"]["factor"]
        for arm, entries in comparison.items()
        if (entries.get("p95") or {}).get("factor") is not None
    }
    if not known:
        return baseline, other, run.summary.get("improvement") or {}
    best = max(known, key=lambda arm: float(known[arm]))
    return baseline, best, comparison[best]


def tiles(run: RunFolder) -> list[dict[str, Any]]:
    """The three figures at the head: mean, p95 and p99 of both arms."""
    baseline, other, entries = _headline_arms(run)
    arms = run.summary.get("arms") or {}
    if baseline not in arms or other not in arms:
        return []
    return [
        {
            "name": name,
            "before": milliseconds(arms[baseline].get(f"{name}_ms")),
            "after": milliseconds(arms[other].get(f"{name}_ms")),
            "factor": factor((entries.get(name) or {}).get("factor")),
            "doubtful": bool((entries.get(name) or {}).get("insufficient")),
            "baseline": baseline,
            "other": other,
        }
        for name in ("mean", "p95", "p99")
    ]


def predicted_words(run: RunFolder) -> dict[str, Any] | None:
    """What the plan of this fleet predicted beside what was measured; None without such a plan."""
    found = run.summary.get("predicted")
    if not found:
        return None
    return {
        "table": predicted_table(found),
        "source_run": found["source_run"] or "an unnamed run",
        "evidence": found["evidence"],
        "phase": found["phase"],
        "samples": number(found["latency"]["p95_ms"]["samples"]),
        "blocks": number(found["blocks"]),
        "errors": found["cost_usd_per_month"]["errors"],
        "not_counted_on": ", ".join(
            f"{count} of {tier}" for tier, count in found["nodes_not_counted_on"].items()
        ),
        "availability": availability_words(found),
        "plan_utilisation": ", ".join(
            f"{tier} {percent(entry['plan'])}"
            for tier, entry in found["utilisation"].items()
            if entry["plan"] is not None
        ),
    }


def plan_words(run: RunFolder) -> dict[str, Any]:
    """The plan in words: cost, what binds it, why it cannot be."""
    plan = _plan(run)
    lists = {
        name: [_words(item) for item in plan.get(name) or []]
        for name in ("binding", "reasons", "assumptions", "insufficient")
    }
    if plan.get("feasible") is None:
        return {"state": "missing", **lists}
    predicted = plan.get("predicted")
    return {
        "state": "feasible" if plan["feasible"] else "infeasible",
        "cost": usd(plan.get("usd_per_month")),
        "terms": _plan_terms(plan),
        "predicted": [
            (str(key).removesuffix("_ms").replace("_", " "), tables.planned_value(key, value))
            for key, value in (predicted.items() if isinstance(predicted, dict) else ())
            if isinstance(value, (str, int, float))
        ],
        **lists,
    }


def _plan_terms(plan: dict[str, Any]) -> str:
    """Scheme, region and date of the prices, as far as the plan names them."""
    words = [f"scheme {plan['scheme']}" if plan.get("scheme") else "",
             f"region {plan['region']}" if plan.get("region") else "",
             f"prices of {plan['prices_as_of']}" if plan.get("prices_as_of") else ""]  # fmt: skip
    return ", ".join(word for word in words if word)


def _plan(run: RunFolder) -> dict[str, Any]:
    return run.plan or dict(run.summary.get("plan") or {})


def _words(item: Any) -> str:
    if isinstance(item, dict):
        return ", ".join(f"{key.replace('_', ' ')}: {number(value)}" for key, value in item.items())
    return str(item)


def _arm_table(run: RunFolder) -> Table | None:
    arms = run.summary.get("arms") or {}
    if not arms:
        return None
    return tables.arm_table(arms, "arm-table", "All figures of each arm, warm-up left out")
