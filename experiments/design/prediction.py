"""A design's `plan.json`: what a plan predicts of the fleet beside it, for the run to hold it to.

The planner writes more into it than is read here, and may write more still: unknown keys pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from core.config_file import ConfigFile, check
from core.errors import InputError
from experiments.design.contracts import DEFAULT_POLICY

PLANNED_ARM = "planned"

Count = Annotated[int, Field(ge=0)]
Latency = Annotated[float, Field(gt=0)]


class _Lenient(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class PredictedTier(_Lenient):
    """One tier of the plan; `needed` of its `nodes` carry the load that was planned for."""

    instance_type: str
    nodes: Annotated[int, Field(ge=1)]
    spares: Count
    needed: Count | None = None
    replicas: Annotated[int, Field(ge=1)]
    utilisation: Annotated[float, Field(ge=0)] | None = None
    usd_per_month: Annotated[float, Field(ge=0)]
    usd_active_per_month: Annotated[float, Field(ge=0)] | None = None
    usd_standby_per_month: Annotated[float, Field(ge=0)] | None = None

    def usd_per_machine_month(self, standby: bool) -> float:
        """The price of one machine; a standby costs as much as the others, where the plan has no
        price for it."""
        if self.usd_active_per_month is None:
            return self.usd_per_month / (self.nodes + self.spares)
        if standby and self.spares and self.usd_standby_per_month is not None:
            return self.usd_standby_per_month / self.spares
        return self.usd_active_per_month / self.nodes


class PredictedService(_Lenient):
    """The promise to users; None where the plan was not asked for it."""

    availability: Annotated[float, Field(ge=0, le=1)] | None = None
    p95_ms: Latency | None = None
    p99_ms: Latency | None = None
    evidence: str = ""


class Prediction(_Lenient):
    """A feasible plan."""

    usd_per_month: Annotated[float, Field(ge=0)]
    tiers: Annotated[dict[str, PredictedTier], Field(min_length=1)]
    predicted: PredictedService
    inputs: dict[str, Any] = Field(default_factory=dict)
    tfvars: Annotated[str, Field(min_length=1)]

    @property
    def source_run(self) -> str | None:
        """The run that the plan was made from, if it says so."""
        run = self.inputs.get("run")
        return run if isinstance(run, str) and run else None

    @property
    def policy(self) -> str:
        """The policy that the plan was made for."""
        policy = self.inputs.get("policy")
        return policy if isinstance(policy, str) else DEFAULT_POLICY

    def input(self, *key: str) -> float | None:
        """A figure that the plan was made from, at `key` under inputs; None if it is not said."""
        value: Any = self.inputs
        for part in key:
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, dict):  # an estimate: its value, samples and spread
            value = value.get("value")
        return float(value) if isinstance(value, int | float) else None


def read_prediction(path: Path) -> Prediction:
    """Read a plan.json. Raises InputError where it is none, or a plan that found no fleet."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            str(path),
            expected="a plan.json",
            got=str(error.strerror),
            hint="`sparecraft run` and `sparecraft plan --json` write plans.",
        ) from error
    except ValueError as error:
        raise InputError(
            str(path), expected="JSON", got=str(error), hint="Make the plan anew."
        ) from error
    if not isinstance(values, dict) or "feasible" not in values:
        raise InputError(
            str(path),
            expected="a plan: a JSON object with the key feasible",
            got="something else",
            hint="Give the plan.json that a run or `sparecraft plan --json` wrote.",
        )
    if values["feasible"] is not True:
        word = "an undecided" if values["feasible"] is None else "an infeasible"
        reasons = [str(reason) for reason in values.get("reasons") or []]
        raise InputError(
            str(path),
            expected="a plan that found a fleet",
            got=f"{word} one: {'; '.join(reasons) or 'no reason given'}",
            hint="Plan with SLOs that can be met, or measure for longer.",
        )
    return check(ConfigFile(path, values), Prediction)
