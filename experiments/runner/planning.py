"""From a run to a plan: the bridge to `optimizer/`, which reads the run's files only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.errors import InputError
from experiments.records import write_bytes, write_json
from optimizer import Plan, PlannerError, plan_from_results

_SLO = ("availability", "p95_ms", "p99_ms")


def plan_run(run_folder: Path, asked: Mapping[str, float], *, region: str) -> Plan:
    """The cheapest fleet for the run's own SLO, with what `asked` puts in its place."""
    manifest_file = run_folder / "manifest.json"
    if not manifest_file.is_file():
        raise InputError(
            str(run_folder),
            expected="a run's folder with manifest.json in it",
            came="none",
            do="`sparecraft list` shows the runs.",
        )
    own = json.loads(manifest_file.read_text())["spec"]["slo"]
    slo = {**{key: own[key] for key in _SLO}, **asked}
    try:
        return plan_from_results(run_folder, slo, region=region)
    except PlannerError as error:
        raise InputError(
            str(run_folder), expected="data to plan from", came=str(error), do="See the message."
        ) from error


def write_plan_files(run_folder: Path) -> dict[str, Any]:
    """plan.json, and plan.tfvars when a fleet was found. A plan that cannot be made says why."""
    try:
        plan = plan_run(run_folder, {}, region="us-east-1")
    except InputError as error:
        body: dict[str, Any] = {
            "schema": 1,
            "feasible": False,
            "usd_per_month": None,
            "tiers": {},
            "binding": [],
            "assumptions": [],
            "insufficient": [],
            "reasons": [error.came],
        }
    else:
        body = plan.to_json_dict()
        if plan.feasible:
            write_bytes(run_folder / "plan.tfvars", plan.to_tfvars().encode())
    write_json(run_folder / "plan.json", body)
    return body
