"""A design's `plan.json`: the prediction for its fleet, with which a run is compared.

The planner writes more keys than are read here, so unknown keys are allowed.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.config_file import ConfigFile, check, refusal
from core.errors import InputError
from core.json_object import JsonObject
from experiments.design.contracts import DEFAULT_POLICY

PLANNED_ARM = "planned"
PLANNED_FOLDER = "planned"  # of an experiment's results: runs of `sparecraft run --close`
REFUSED_FOLDER = "refused"  # and of the fleet that the plan refused, with --next-cheaper
REFUSED_PLAN = "refused.json"  # its plan.json, in the source run's folder
CONFIDENCE = 0.9  # of the interval that a law's error gives, as of the SLO's verdict
_REACH_MAX = math.log(1e6)  # a wider interval is of no use, and left out

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
        """Return the price of one machine. A standby costs as much as an active machine if the plan
        has no price for it.
        """
        if self.usd_active_per_month is None:
            return self.usd_per_month / (self.nodes + self.spares)
        if standby and self.spares and self.usd_standby_per_month is not None:
            return self.usd_standby_per_month / self.spares
        return self.usd_active_per_month / self.nodes


class Expected(_Lenient):
    """A predicted figure, and the interval in which a run's own is expected."""

    point: Annotated[float, Field(ge=0)]
    low: Annotated[float, Field(ge=0)]
    high: Annotated[float, Field(ge=0)]

    @model_validator(mode="after")
    def _check_order(self) -> Expected:
        if not self.low <= self.point <= self.high:
            raise refusal(
                "low <= point <= high",
                got=f"{self.low:g}, {self.point:g}, {self.high:g}",
                key="point",
                hint="Make the plan again.",
            )
        return self

    def covers(self, measured: float) -> bool:
        """True if the measured figure lies in the interval."""
        return self.low <= measured <= self.high


class ExpectedValues(_Lenient):
    """Figures that a run of the planned fleet is expected to measure; shares from 0 to 1."""

    p50_ms: Expected | None = None
    p95_ms: Expected | None = None
    p99_ms: Expected | None = None
    share_beyond: dict[str, Expected] = Field(default_factory=dict)
    """Requests beyond each limit of the SLO, as its verdict counts them, by the limit [ms]."""
    failed_share: Expected | None = None
    cpu: dict[str, Expected] = Field(default_factory=dict)
    """CPU over the caps of undisturbed machines, by tier."""

    def clause(self, key: str, limit: float) -> Expected | None:
        """Return the share beyond a limit of the SLO, `p95_ms` or `max_error_share`."""
        if key == "max_error_share":
            return self.failed_share
        return self.share_beyond.get(f"{limit:g}")


class Distribution(_Lenient):
    """The prediction as intervals of one confidence, without the design's faults and with them."""

    confidence: Annotated[float, Field(gt=0, lt=1)]
    without_faults: ExpectedValues
    with_faults: ExpectedValues | None = None


class LawError(_Lenient):
    """Error of the law's percentile: Student's t of the logarithm."""

    predicted_ms: Latency
    log_spread: Annotated[float, Field(ge=0)] | None = None
    freedom: Annotated[float, Field(gt=0)] | None = None

    @property
    def expected(self) -> Expected | None:
        """The percentile with the interval of `CONFIDENCE`; None if no error is known."""
        if self.log_spread is None or self.freedom is None:
            return None
        from scipy.special import stdtrit

        reach = float(stdtrit(self.freedom, (1.0 + CONFIDENCE) / 2.0)) * self.log_spread
        if not reach <= _REACH_MAX:
            return None
        low, high = self.predicted_ms * math.exp(-reach), self.predicted_ms * math.exp(reach)
        return Expected(point=self.predicted_ms, low=low, high=high)


class Margin(_Lenient):
    """The law's error in each percentile."""

    p95_ms: LawError | None = None
    p99_ms: LawError | None = None


class PresentFleet(_Lenient):
    """The fleet that the plan was made from."""

    usd_per_month: Annotated[float, Field(ge=0)] | None = None


class PredictedService(_Lenient):
    """The promise to users; None where the plan was not asked for it."""

    availability: Annotated[float, Field(ge=0, le=1)] | None = None
    p95_ms: Latency | None = None
    p99_ms: Latency | None = None
    evidence: str = ""
    distribution: Distribution | None = None


class PlanSimulation(_Lenient):
    """The simulator's answer about the planned fleet."""

    verdict: str = ""


class Prediction(_Lenient):
    """A feasible plan."""

    usd_per_month: Annotated[float, Field(ge=0)]
    tiers: Annotated[dict[str, PredictedTier], Field(min_length=1)]
    predicted: PredictedService
    margin: Margin | None = None
    present: PresentFleet | None = None
    simulation: PlanSimulation | None = None
    inputs: JsonObject = Field(default_factory=dict)
    tfvars: Annotated[str, Field(min_length=1)]

    @property
    def source_run(self) -> str | None:
        """The run from which the plan was made, if the plan names it."""
        run = self.inputs.get("run")
        return run if isinstance(run, str) and run else None

    @property
    def claimed(self) -> bool:
        """False if the simulator left the plan undecided or refused its fleet: nothing is
        promised."""
        return self.simulation is None or self.simulation.verdict not in ("undecided", "refused")

    @property
    def refused(self) -> bool:
        """True for the fleet that the simulator refused, though it is cheaper than the plan."""
        return self.simulation is not None and self.simulation.verdict == "refused"

    @property
    def policy(self) -> str:
        """The policy for which the plan was made."""
        policy = self.inputs.get("policy")
        return policy if isinstance(policy, str) else DEFAULT_POLICY

    @property
    def confidence(self) -> float:
        """Confidence of the intervals of a run's expected figures."""
        distribution = self.predicted.distribution
        return distribution.confidence if distribution else CONFIDENCE

    @property
    def expected(self) -> ExpectedValues:
        """The figures without faults that have an interval: those of the distribution, or those
        for which the law's error is known.
        """
        if distribution := self.predicted.distribution:
            return distribution.without_faults
        margin = self.margin or Margin()
        return ExpectedValues(
            p95_ms=margin.p95_ms.expected if margin.p95_ms else None,
            p99_ms=margin.p99_ms.expected if margin.p99_ms else None,
        )

    def expected_in_all(self, has_faults: bool) -> ExpectedValues:
        """Return the figures of all requests of a run, including those during its faults."""
        distribution = self.predicted.distribution
        if distribution is None:
            return ExpectedValues()
        if not has_faults:
            return distribution.without_faults
        return distribution.with_faults or ExpectedValues()

    def input(self, *key: str) -> float | None:
        """Return the figure at `key` of the plan's inputs; None if the plan has none there."""
        value: Any = self.inputs
        for part in key:
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, dict):  # an estimate: its value, samples and spread
            value = value.get("value")
        return float(value) if isinstance(value, int | float) else None


def read_prediction(path: Path) -> Prediction:
    """Read a plan.json. Raises InputError if it is none, or a plan that found no fleet."""
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
            str(path), expected="JSON", got=str(error), hint="Make the plan again."
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
