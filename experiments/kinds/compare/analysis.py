"""Result of a comparison: its figures, its plan, and the accuracy of the simulator for it.

`optimizer/` reads the run's files only.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path

import polars as pl

from core.errors import SparecraftError
from core.runfiles.manifest import against, manifest_if_any
from core.statistics.percentiles import time_out_of
from experiments.design.prediction import REFUSED_PLAN
from experiments.kinds.compare.availability import modelled
from experiments.record.metrics.summary import summarize_run
from experiments.record.records import histograms, write_bytes, write_json
from experiments.record.result import Findings, result_of
from optimizer.fit import read_results
from optimizer.plan.explain.reasons import ExplainOptions
from optimizer.plan.inputs.overrides import Overrides, request_from_run
from optimizer.plan.planner import explain_plan
from optimizer.simulation.fidelity import fidelity

_FRONT_S = 10.0  # of the search for each front


def analyse(folder: Path) -> Findings:
    """Return every figure of the arms; plan, simulation and histograms are separate files."""
    requests = pl.read_parquet(folder / "requests.parquet")
    manifest = manifest_if_any(folder)
    write_json(folder / "histograms.json", histograms(requests, time_out_of(manifest)))
    findings = summarize_run(folder)
    write_plan_files(folder, against(result_of("compare", manifest, findings)))
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    write_simulated(folder, findings.body["compared"]["baseline"])
    # The SLO's part has the measured fleet's availability by the plan.
    slo = {**findings.slo, "availability": modelled(plan)} if findings.slo else None
    return replace(findings, body={**findings.body, "plan": plan}, slo=slo)


def write_plan_files(run_folder: Path, against_run: str) -> None:
    """Write plan.json with its fronts, and plan.tfvars if the plan has a fleet. If no plan can be
    made, plan.json has the reason.

    Parameters: against_run, why nothing may be concluded from the run; "" where it is valid.
    """
    try:
        request = request_from_run(run_folder, Overrides())
        request = replace(request, service=replace(request.service, against=against_run))
        options = ExplainOptions(
            pareto=True,
            seconds=_FRONT_S,
            today=_start_day(run_folder),
            records=None if against_run else read_results(run_folder),
            not_simulated="nothing may be concluded from the run",
        )
        _, body = explain_plan(request, options)
    except SparecraftError as error:
        body = {
            "schema": 1,
            "feasible": None,
            "usd_per_month": None,
            "tiers": {},
            "binding": [],
            "assumptions": [],
            "insufficient": [],
            "reasons": [str(error)],
        }
    else:
        if body["feasible"]:
            write_bytes(run_folder / "plan.tfvars", body["tfvars"].encode())
    write_json(run_folder / "plan.json", body)
    if refused := body.get("refused"):
        write_json(run_folder / REFUSED_PLAN, {**body, **refused, "refused": None})


def _start_day(run_folder: Path) -> datetime.date | None:
    """Return the day of the run; with it, a page that is made again has the same age of prices."""
    started = manifest_if_any(run_folder).get("started_at")
    return None if started is None else datetime.datetime.fromisoformat(started).date()


def write_simulated(run_folder: Path, baseline: str) -> None:
    """Write simulated.json: how well the simulator, fitted to `baseline`, predicts the other arms.

    Without another arm nothing is written; if no prediction is possible, the file has the reason.
    """
    try:
        fidelities = fidelity(run_folder, baseline)
    except SparecraftError as error:
        body: dict[str, object] = {"fitted_arm": baseline, "reason": str(error)}
    else:
        if not fidelities:
            return
        body = {
            "fitted_arm": baseline,
            "work_s": fidelities[0].work_s,
            "after_s": fidelities[0].after_s,
            "speeds": fidelities[0].speeds,
            "host_cores": fidelities[0].host_cores,
            "busy_cores": fidelities[0].busy_cores,
            "fitted": fidelities[0].fitted,
            "predicted": {
                arm_fidelity.predicted_arm: {
                    "requests": arm_fidelity.requests,
                    **arm_fidelity.predicted,
                }
                for arm_fidelity in fidelities
            },
        }
    write_json(run_folder / "simulated.json", {"schema": 1, **body})
