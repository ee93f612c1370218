"""NodT in a plan: as many nodes as PCRAFT's quotient says, and refusals of what cannot be used."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from optimizer.plan.inputs.overrides import Overrides, request_from_capacity, request_from_file
from optimizer.plan.planner import make_plan

LOW_PER_S = 90.0
SLO = {"availability": 0.999}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    workload: dict[str, Any] = {"limit_ms": 100.0,
                                "nodt_per_s": {"value": 100.0, "low": LOW_PER_S, "high": 110.0},
                                "cv2": 0.5, "utilisation": 0.4, "reason": ""}  # fmt: skip
    saturated = {**workload, "nodt_per_s": None, "reason": "generator saturated at 2000/s"}
    machine = {
        **{"tier": "web", "role": "apache", "cpus": 0.25, "memory_mb": 256},
        **{"nic_mbps": 200.0, "disk_mbps": 80.0},
    }
    head = {"kind": "capacity", "experiment": "apache-capacity", "run": "20261122T000000Z"}
    body = {"machine": machine, "workloads": {"php-loop": workload, "static-file": saturated}}
    (tmp_path / "result.json").write_text(json.dumps({**head, "capacity": body}))
    return tmp_path


def test_a_run_whose_injection_failed_is_refused(run: Path) -> None:
    verdicts = {"measurement": {"ok": True}, "injection": {"ok": False, "reasons": ["late"]}}
    (run / "manifest.json").write_text(json.dumps({"verdicts": verdicts}))
    with pytest.raises(InputError, match="injection: late"):
        planned(run, 270.0)


def test_a_disturbed_run_is_refused_and_one_without_a_workload_s_nodt_is_not(run: Path) -> None:
    head = json.loads((run / "result.json").read_text())
    measurement = {"ok": False, "reasons": ["get: no step kept the limit"]}
    head |= {"valid": False, "verdicts": {"measurement": measurement}}
    (run / "result.json").write_text(json.dumps(head))
    assert planned(run, 270.0)["feasible"]
    head |= {"disturbed": {"blocks": 1, "of": 9}}
    head["verdicts"]["measurement"] = {"ok": False, "disturbed": True, "reasons": ["others took"]}
    (run / "result.json").write_text(json.dumps(head))
    with pytest.raises(InputError, match="others took"):
        planned(run, 270.0)


def planned(run: Path, arrival_per_s: float) -> dict[str, Any]:
    request = request_from_capacity(run, "php-loop", arrival_per_s, Overrides(slo=SLO))
    return make_plan(request).plan.to_json_dict()


@pytest.mark.parametrize("arrival_per_s", [80.0, 270.0, 500.0, 900.0])
def test_a_plan_has_the_cores_that_carry_the_rate_at_the_low_end_of_nodt(
    run: Path, arrival_per_s: float
) -> None:
    plan = planned(run, arrival_per_s)
    assert plan["feasible"], plan["reasons"]
    tier = plan["tiers"]["web"]
    cores = float(tier["instance_type"].removeprefix("slice-"))
    assert tier["needed"] == math.ceil(arrival_per_s / (LOW_PER_S * cores / 0.25))
    assert tier["replicas"] == 1
    assert plan["predicted"]["availability"] >= 0.999
    (assumption,) = [text for text in plan["assumptions"] if "carries 90 requests/s" in text]
    assert "something else filled up" in assumption  # the CPU was at 40 %


def test_a_plan_toml_takes_a_run_for_a_tier(run: Path) -> None:
    path = run / "plan.toml"
    text = 'scheme = "on-prem"\narrival_per_s = 270.0\n[slo]\navailability = 0.999\n'
    tier = '[[tiers]]\nname = "web"\ncapacity = "."\nworkload = "php-loop"\n'
    path.write_text(text + tier)
    by_file = make_plan(request_from_file(path, None, Overrides())).plan.to_json_dict()
    assert by_file["tiers"] == planned(run, 270.0)["tiers"]
    path.write_text(text + tier + "processing_s = 0.01\n")
    with pytest.raises(InputError, match="processing_s"):
        request_from_file(path, None, Overrides())


@pytest.mark.parametrize(
    ("key", "value"), [("memory_mb", 32), ("nic_mbps", 0.5), ("disk_mbps", 0.5), ("role", "")]
)
def test_a_node_that_no_tier_can_be_is_refused_at_its_key_of_the_run(
    run: Path, key: str, value: object
) -> None:
    result = json.loads((run / "result.json").read_text())
    result["capacity"]["machine"][key] = value
    (run / "result.json").write_text(json.dumps(result))
    with pytest.raises(InputError) as error:
        planned(run, 270.0)
    assert error.value.place.endswith(f"capacity.machine.{key}")


def test_what_cannot_be_used_is_refused_with_its_reason(run: Path, tmp_path: Path) -> None:
    def refusal(folder: Path, workload: str | None, slo: dict[str, float]) -> str:
        with pytest.raises(InputError) as error:
            request_from_capacity(folder, workload, 100.0, Overrides(slo=slo))
        return str(error.value)

    assert "generator saturated at 2000/s" in refusal(run, "static-file", SLO)
    assert "php-loop, static-file" in refusal(run, None, SLO)
    assert "result.json" in refusal(tmp_path / "none", "php-loop", SLO)
    assert "p95_ms" in refusal(run, "php-loop", {**SLO, "p95_ms": 100.0})
