"""report.html: one file that is made from a run alone and needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.kinds.compare import tables
from experiments.kinds.compare.cost import cost_table, work_words
from experiments.kinds.compare.decided import decided_values
from experiments.kinds.compare.figures import all_figures, fronts
from experiments.kinds.compare.figures_rate import rate_figure
from experiments.kinds.compare.folder import RunFolder, read_folder
from experiments.kinds.compare.headline import is_a_chain
from experiments.kinds.compare.host import (
    caps_words,
    host_table,
    host_words,
    load_table,
    load_words,
)
from experiments.kinds.compare.plan import plan_table, plan_words, simulated_plan_table
from experiments.kinds.compare.predicted import (
    availability_words,
    coverage_words,
    predicted_table,
    promise_table,
)
from experiments.kinds.compare.spec_summary import spec_rows
from experiments.kinds.compare.steps import main_sentence, steps_table
from experiments.kinds.compare.summary import summary_lines
from experiments.kinds.compare.utilisation import calibration_table, utilisation_table
from experiments.kinds.compare.verdict import gain_table, headline_arms, slo_notes, slo_table
from experiments.record.result import validity
from experiments.report.doses import dose_notes, dose_table, dose_words
from experiments.report.revert_time import revert_time_words
from experiments.report.shell import Verdict, chips, render_page, save_page
from experiments.report.text import milliseconds, number, percent

FOLDER = Path(__file__).parent
TEMPLATE = "compare.html.j2"
DOSES_MOST = 6  # a table of more rows is folded


def write_page(folder: Path) -> Path:
    """Write report.html into a run's folder, whole or not at all, and return its path.

    Raises: InputError without a folder. A missing file of the folder is a note in the report.
    """
    return save_page(folder, render_page(TEMPLATE, [FOLDER], **page_values(read_folder(folder))))


def page_values(run: RunFolder) -> dict[str, Any]:
    ideal = run.summary.get("ideal") or {"source": "unknown"}
    platform = run.manifest.get("platform")
    baseline = headline_arms(run)[0] if run.arms else ""
    doses = (run.summary.get("faults") or {}).get("doses") or []
    load = (run.summary.get("load") or {}).get("blocks") or []
    host = (run.manifest.get("host") or {}).get("blocks") or []
    chain = is_a_chain(run.summary)
    return {
        "name": str(run.summary.get("experiment") or run.path.name),
        "run": run,
        "when": str(run.manifest.get("started_at") or ""),
        "about": f"platform {platform}" if platform else "",
        "verdicts": verdicts(run),
        "headline": main_sentence(run),
        "validity": validity(run.summary) if "valid" in run.summary else "",
        "said": summary_lines(run),
        "first": [
            promise_table(run.summary) or slo_table(run),
            steps_table(run) if chain else gain_table(run),
            cost_table(run),
        ],
        "steps": None if chain else steps_table(run),
        "slo_notes": slo_notes(run),
        "decided": decided_values(run.manifest),
        "work": work_words(run),
        "asked": spec_rows(run) if run.spec else [],
        "calibration": calibration_table(run),
        "utilisation": utilisation_table(run),
        "figures": all_figures(run),
        "fronts": fronts(run),
        "comparison_baseline": baseline,
        "comparison": tables.comparison_table(run),
        "simulated": run.simulated,
        "simulated_table": tables.simulated_table(run),
        "arms": tables.arm_tables(run.summary.get("arms") or {}),
        "operations": tables.operation_tables(run),
        "phases": tables.phase_table(run),
        "rate": rate_figure(run),
        "stages": tables.stage_table(run),
        "faults": tables.fault_table(run),
        "dose": dose_words(doses),
        "doses": dose_table(doses),
        "dose_notes": dose_notes(doses),
        "doses_most": DOSES_MOST,
        "undone": revert_time_words(run.summary.get("undone")),
        "replication": tables.replication_table(run),
        "agreement": tables.agreement_table(run),
        "caps": caps_words(run),
        "folded": [(host_words(host), host_table(host)), (load_words(load), load_table(load))],
        "predicted": predicted_words(run),
        # The plan that a planned fleet's own run makes is no answer.
        "plan": None if run.summary.get("promise") else plan_words(run.plan),
        "plan_table": plan_table(run.plan),
        "plan_simulated": simulated_plan_table(run.plan),
        "repeat": tables.facts_to_repeat(run),
        "ideal": ideal,
        "ideal_ms": milliseconds(ideal.get("latency_ms")),
        "weights_source": run.summary.get("weights_source") or "",
    }


def verdicts(run: RunFolder) -> list[Verdict]:
    """Measured? Faults injected and reverted? Cleaned up? The SLO has a table."""
    answers = run.summary.get("verdicts") or run.manifest.get("verdicts") or {}
    questions = {
        "measurement": "Measured as asked?",
        "injection": "Faults injected?",
        "revert": "Faults reverted?",
        "cleanup": "Cleaned up?",
    }
    return chips(answers, questions)


def predicted_words(run: RunFolder) -> dict[str, object] | None:
    """Return the prediction of this fleet's plan and the measurement; None without such a plan."""
    predicted = run.summary.get("predicted")
    if not predicted:
        return None
    promised = run.summary.get("promise")
    return {
        "table": predicted_table(predicted),
        "source_page": _source_page(run, predicted["source_run"]),
        "covered": coverage_words(run.summary) if promised else "",
        "source_run": predicted["source_run"] or "an unnamed run",
        "evidence": predicted["evidence"],
        "phase": predicted["phase"],
        "samples": number(predicted["latency"]["p95_ms"]["samples"]),
        "blocks": number(predicted["blocks"]),
        "errors": predicted["cost_usd_per_month"]["errors"],
        "not_counted_on": ", ".join(
            f"{count} of {tier}" for tier, count in predicted["nodes_not_counted_on"].items()
        ),
        "availability": availability_words(predicted),
        "plan_utilisation": ", ".join(
            f"{tier} {percent(entry['plan'])}"
            for tier, entry in predicted["utilisation"].items()
            if entry["plan"] is not None
        ),
    }


def _source_page(run: RunFolder, source_run: str | None) -> str:
    """Return the path from this page to that of the plan's source run; "" if that is not where
    `sparecraft run --close` puts it.
    """
    beside = f"../../{source_run}/report.html"
    return beside if source_run and (run.path.resolve() / beside).is_file() else ""
