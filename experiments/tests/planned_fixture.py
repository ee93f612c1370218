"""Plans and runs of their fleets, made up with a known truth. For tests only."""

from __future__ import annotations

from typing import Any

import polars as pl

from experiments.tests.report_fixture import FakeRun, example_plan, fake_run
from optimizer.tests import synthetic

CPU_SHARE = 0.38  # of the cap, on machines that nothing disturbs, in report_fixture
TFVARS = """\
# Planned by Sparecraft.
experiment = "mediawiki-noisy"
scheme     = "on-prem"
tiers = {
  web = { role = "mediawiki", calls = ["db"], nodes = 4, standby = 0, cpus = 0.6, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "slice-0.6" }
  db = { role = "mariadb", nodes = 3, standby = 0, cpus = 0.6, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "slice-0.6" }
}
arbiters = {
  web = { tokens = 2 }
  db = { tokens = 12 }
}
"""  # noqa: E501


def prediction(**changes: Any) -> dict[str, Any]:
    """plan.json of the fleet that `planned_run` has; its figures are near what is measured."""
    tier = {**example_plan()["tiers"]["web"], "instance_type": "slice-0.6", "spares": 0,
            "needed": 3, "usd_per_month": 40.0}  # fmt: skip
    rate_per_s, copies, queries = 8.0, 2, 20.0
    web_s = CPU_SHARE * 4 * 0.6 / (rate_per_s * copies)
    db_s = CPU_SHARE * 3 * 0.6 / (rate_per_s * copies * queries)
    plan = {
        **example_plan(),
        "usd_per_month": 70.0,
        "tiers": {"web": tier, "db": {**tier, "nodes": 3, "replicas": 1, "usd_per_month": 30.0}},
        "predicted": {"availability": 0.99993, "p95_ms": 231.0, "p99_ms": 874.0,
                      "evidence": "model"},
        "inputs": {
            "run": "20261119T090000Z",
            "policy": "tad",
            "pages_per_s": {"value": rate_per_s, "samples": 1500, "sufficient": True},
            "tiers": {
                "web": {"requests_per_copy": {"value": 1.0}, "processing_s": {"value": web_s},
                        "interference_share": {"value": 0.2}},
                "db": {"requests_per_copy": {"value": queries}, "processing_s": {"value": db_s},
                       "interference_share": {"value": 0.2}},
            },
        },
        "tfvars": TFVARS,
    }  # fmt: skip
    return {**plan, **changes}


def small_prediction() -> dict[str, Any]:
    """A plan for the design `small`, with a tier of one node, that nobody has measured."""
    plan = prediction(inputs={}, usd_per_month=30.0)
    web, db = plan["tiers"].values()
    plan["tiers"] = {
        "web": {**web, "nodes": 2, "needed": 2, "usd_per_month": 20.0},
        "db": {**db, "nodes": 1, "needed": 1, "usd_per_month": 10.0},
    }
    plan["tfvars"] = TFVARS.replace("nodes = 4", "nodes = 2").replace("nodes = 3", "nodes = 1")
    return plan


def planned_run(*, measure_s: float = 30.0, rate_per_s: float = 8.0) -> FakeRun:
    """A run of one arm, `planned`, on the fleet of `prediction`."""
    run = fake_run(seed=4, measure_s=measure_s, rate_per_s=rate_per_s, order="BBBB")
    run.requests = run.requests.with_columns(arm=pl.lit("planned"), pair=pl.col("repeat"))
    run.events = [_renamed(event) for event in run.events]
    spec = run.manifest["spec"]
    spec["arms"] = {"planned": spec["arms"]["replicated"]}
    spec["design"] = {"order": "A", "repeats": 4, "seed": 4}
    spec["rates"] = {"crash_per_year": 1.0, "failover_s": 15.0, "repair_s": 86400.0}
    spec["fleet"] = {
        "experiment": "mediawiki-noisy-planned", "scheme": "on-prem",
        "tiers": synthetic.tiers(0.6, "slice-0.6"),
        "arbiters": {tier: {"tokens": 2} for tier in ("web", "db")},
    }  # fmt: skip
    run.manifest["experiment"] = "mediawiki-noisy-planned"
    run.manifest["fleet"] = {"machines": machines()}
    for block in run.manifest["host"]["blocks"]:
        block["arm"] = "planned"
    run.prediction = prediction()
    return run


def machines(web_type: str = "slice-0.6") -> list[dict[str, Any]]:
    """The inventory's machines, arbiters and telemetry included."""
    return [
        {**machine, "instance_type": web_type} if machine["name"] in synthetic.WEB else machine
        for machine in synthetic.machines("slice-0.6")
    ]


def _renamed(event: dict[str, Any]) -> dict[str, Any]:
    arm = "planned" if event["arm"] else event["arm"]
    kind = "planned" if event["what"] == "arm" else event["kind"]
    return {**event, "arm": arm, "kind": kind}
