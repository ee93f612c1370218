"""A question about one tier: 20 requests a second of 30 ms each, on two types of EC2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.config_file import ConfigFile
from optimizer.plan.inputs.plan_file import checked
from optimizer.plan.inputs.request import PlanRequest, request_from_plan_file


def asked(slo: dict[str, Any], *, tier: dict[str, Any] | None = None, **values: Any) -> PlanRequest:
    """As if a plan.toml had these values; `tier`: more keys of the tier."""
    own = {"name": "web", "role": "r", "processing_s": 0.03, "memory_mb": 900}
    stated = {"scheme": "cloud", "arrival_per_s": 20.0,
              "limits": {"max_nodes": 6, "max_replicas": 1},
              "tiers": [{**own, "instance_types": ["c5.large", "c5.xlarge"], **(tier or {})}],
              "slo": slo}  # fmt: skip
    return request_from_plan_file(checked(ConfigFile(Path("plan.toml"), {**stated, **values})))
