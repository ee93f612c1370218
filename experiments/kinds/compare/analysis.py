"""Result of a comparison: its figures, its plan, and the accuracy of the simulator for it.

`optimizer/` reads the run's files only.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path

from core.errors import SparecraftError
from core.runfiles.manifest import against, manifest_if_any
from core.statistics.percentiles import time_out_of
from experiments.kinds.compare.availability import modelled
from experiments.record.metrics.summary import summarize_run
from experiments.record.records import REQUESTS, histograms, read_table, write_bytes, write_json
from experiments.record.result import Findings, result_of
from optimizer.fit import read_results
from optimizer.plan.explain.reasons import ExplainOptions
from optimizer.plan.inputs.overrides import Overrides, request_from_run
from optimizer.plan.planner import explained_plan
from optimizer.simulation.fidelity import fidelity

_FRONT_S = 10.0  # of the search for each front


def analyse(folder: Path) -> Findings:
    """Every figure of the arms; plan, simulation and histograms are files of their own."""
    requests = read_table(folder / "requests.parquet", REQUESTS)
    manifest = manifest_if_any(folder)
    write_json(folder / "histograms.json", histograms(requests, time_out_of(manifest)))
    found = summarize_run(folder)
    write_plan_files(folder, against(result_of("compare", manifest, found)))
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    write_simulated(folder, found.body["compared"]["baseline"])
    # The SLO's part has the plan's word on the measured fleet's availability.
    slo = {**found.slo, "availability": modelled(plan)} if found.slo else None
    return replace(found, body={**found.body, "plan": plan}, slo=slo)


def write_plan_files(run_folder: Path, against_run: str) -> None:
    """plan.json with its fronts, and plan.tfvars when a fleet was found. A plan that cannot be made
    says why.

    Parameters: against_run, why nothing may be concluded from the run; "" where it is valid.
    """
    try:
        asked = request_from_run(run_folder, Overrides())
        asked = replace(asked, service=replace(asked.service, against=against_run))
        wanted = ExplainOptions(
            pareto=True,
            seconds=_FRONT_S,
            today=_begun(run_folder),
            records=None if against_run else read_results(run_folder),
            not_simulated="nothing may be concluded from the run",
        )
        _, body = explained_plan(asked, wanted)
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


def _begun(run_folder: Path) -> datetime.date | None:
    """Return the day of the run: a page that is made again says the same of its prices' age."""
    started = manifest_if_any(run_folder).get("started_at")
    return None if started is None else datetime.datetime.fromisoformat(started).date()


def write_simulated(run_folder: Path, baseline: str) -> None:
    """simulated.json: how well the simulator, fitted to `baseline`, predicts the other arms.

    Nothing where there is no other arm; why, where it cannot be said.
    """
    try:
        found = fidelity(run_folder, baseline)
    except SparecraftError as error:
        body: dict[str, object] = {"fitted_arm": baseline, "reason": str(error)}
    else:
        if not found:
            return
        body = {
            "fitted_arm": baseline,
            "work_s": found[0].work_s,
            "after_s": found[0].after_s,
            "speeds": found[0].speeds,
            "host_cores": found[0].host_cores,
            "busy_cores": found[0].busy_cores,
            "fitted": found[0].fitted,
            "predicted": {
                one.predicted_arm: {"requests": one.requests, **one.predicted} for one in found
            },
        }
    write_json(run_folder / "simulated.json", {"schema": 1, **body})
