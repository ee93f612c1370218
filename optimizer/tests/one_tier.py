"""A question about one tier: 20 requests a second of 30 ms each, on two types of EC2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.config_file import ConfigFile
from core.errors import PlannerError
from optimizer.plan.inputs.plan_file import check_plan
from optimizer.plan.inputs.request import PlanRequest, request_from_plan_file
from optimizer.plan.planner import make_plan


def request_of(
    values: dict[str, Any], results: Path | None = None, folder: Path = Path()
) -> PlanRequest:
    """Build the request of a plan.toml in the folder with these values."""
    return request_from_plan_file(check_plan(ConfigFile(folder / "plan.toml", values)), results)


def asked(
    slo: dict[str, Any],
    *,
    tier: dict[str, Any] | None = None,
    folder: Path = Path(),
    **values: Any,
) -> PlanRequest:
    """Build the request of a plan.toml with these values; `tier` adds keys of the tier."""
    base = {"name": "web", "role": "r", "processing_s": 0.03, "memory_mb": 900}
    defaults = {"scheme": "cloud", "arrival_per_s": 20.0,
                "limits": {"max_nodes": 6, "max_replicas": 1},
                "tiers": [{**base, "instance_types": ["c5.large", "c5.xlarge"], **(tier or {})}],
                "slo": slo}  # fmt: skip
    return request_of({**defaults, **values}, folder=folder)


def late(*_asked: Any, **_how: Any) -> None:
    """Raise the error of a search without time, in place of `solve`."""
    raise PlannerError("plan", expected="a plan, or a proof that none exists", got="none")


def planned(slo: dict[str, Any], **values: Any) -> Any:
    """Return the plan of `asked` as Any: a test that reads an absent figure fails."""
    return make_plan(asked(slo, **values)).plan
