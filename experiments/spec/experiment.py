"""The experiment, `experiment.toml`: what is asked, for how long, and what goes wrong."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from experiments.spec.failover import Failover
from experiments.spec.fleet import Policy, TierName
from experiments.spec.source import Strict, refusal

RATE_PER_WORKER_MAX = 2000.0  # load is bounded in time and count
WORKERS_MAX = 16
RATE_PER_S_MAX = RATE_PER_WORKER_MAX * WORKERS_MAX
PHASE_S_MAX = 3600.0

# The user classes (`load/users.py`), and the roles of the entry tier that each can ask.
ROLES_OF_USER = {
    "wiki-reader": ("mediawiki", "apache"),
    "static-file": ("apache",),
    "php-loop": ("apache",),
    "word-search": ("solr-ui",),
    "solr-select": ("solr",),
    "cache-reader": ("memcached",),
    "cached-pages": ("memcached",),
    "ycsb-a": ("redis",),
    "ycsb-b-large": ("redis",),
}

User = Literal[
    "wiki-reader",
    "static-file",
    "php-loop",
    "word-search",
    "solr-select",
    "cache-reader",
    "cached-pages",
    "ycsb-a",
    "ycsb-b-large",
]
Rate = Annotated[float, Field(gt=0, le=RATE_PER_S_MAX)]
Seconds = Annotated[float, Field(gt=0, le=PHASE_S_MAX)]


class Load(Strict):
    """The open-loop load: arrivals are drawn ahead and do not wait for answers."""

    user: User
    arrivals: Literal["poisson", "constant"]
    rate_per_s: Rate
    connect_timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    response_timeout_s: Annotated[float, Field(gt=0, le=60)] = 6.0
    max_in_flight: Annotated[int, Field(ge=1, le=10_000)] = 200
    workers: Annotated[int, Field(ge=1, le=WORKERS_MAX)] = 1  # processes that share the schedule

    @property
    def rate_per_s_max(self) -> float:
        """What the workers may be asked for together."""
        return RATE_PER_WORKER_MAX * self.workers

    @model_validator(mode="after")
    def _bounded(self) -> Load:
        if self.rate_per_s > self.rate_per_s_max:
            raise refusal(
                f"at most {RATE_PER_WORKER_MAX:g} per worker",
                came=f"{self.rate_per_s:g} for workers = {self.workers}",
                key="rate_per_s",
                do="Ask for more workers, or for less.",
            )
        if self.workers > self.max_in_flight:
            raise refusal(
                f"at most max_in_flight ({self.max_in_flight})",
                came=str(self.workers),
                key="workers",
                do="Each worker needs one request in flight.",
            )
        return self


class Phases(Strict):
    """Seconds of warm-up, which is not counted, and of measurement, in every arm block.

    settle: once, before the first block, the same load without neighbours and faults; of it nothing
    is kept. For servers that are slower at first (a JVM compiles), which would be the first arm's.
    """

    warm_up: Annotated[float, Field(ge=0, le=PHASE_S_MAX)]
    measure: Seconds
    settle: Annotated[float, Field(ge=0, le=PHASE_S_MAX)] = 0.0


class Interference(Strict):
    """Neighbours' load: Poisson gaps and exponential runs on each machine (sPARE section 6.1)."""

    pattern: Literal["none", "front", "back", "both"]
    kinds: Annotated[tuple[Literal["cpu", "iperf"], ...], Field(strict=False, min_length=1)] = (
        "iperf",
    )
    mean_gap_s: Seconds = 40.0
    mean_run_s: Seconds = 10.0
    cpu_workers: Annotated[int, Field(ge=1, le=64)] = 4
    iperf_mbps: Annotated[float, Field(gt=0, le=100_000)] = 100.0


class Selector(Strict):
    """Which machines: the first `count` of a tier, or one machine by name."""

    tier: TierName | None = None
    count: Annotated[int, Field(ge=1)] | None = None
    machine: str | None = None

    @model_validator(mode="after")
    def _selects(self) -> Selector:
        by_tier = self.tier is not None and self.machine is None
        by_name = self.machine is not None and self.tier is None and self.count is None
        if not (by_tier or by_name):
            given = self.model_dump(exclude_none=True)
            raise refusal(
                "{ tier = NAME, count = N } or { machine = NAME }",
                came=repr(given) if given else "an empty selector",
                do="Say which machines are meant.",
            )
        return self


class _NoParameters(Strict):
    pass


class _Restart(Strict):
    restart_after_s: Annotated[float, Field(ge=0, le=600)] | None = None


class _Loss(Strict):
    percent: Annotated[float, Field(gt=0, le=100)]


class _Factor(Strict):
    factor: Annotated[float, Field(gt=1)]


_PARAMETERS: dict[str, type[Strict]] = {
    "process.crash": _Restart,
    "process.hang": _NoParameters,
    "net.loss": _Loss,
    "net.limp": _Factor,
    "net.link_down": _NoParameters,
    "cpu.limp": _Factor,
    "disk.limp": _Factor,
    "machine.crash": _NoParameters,
    "machine.reboot": _NoParameters,
    "machine.freeze": _NoParameters,
}
FAULT_KINDS = tuple(_PARAMETERS)
INTERFERENCE_KINDS = ("interference.cpu", "interference.iperf")


class Fault(Strict):
    """One fault: where, when, for how long. `at_s` counts from the start of the measurement."""

    kind: str
    select: Selector
    at_s: Annotated[float, Field(ge=0, le=PHASE_S_MAX)]
    for_s: Seconds | None = None
    sticky: bool = False
    parameters: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _possible(self) -> Fault:
        if self.kind not in _PARAMETERS:
            raise refusal(f"one of {', '.join(FAULT_KINDS)}", came=repr(self.kind), key="kind")
        if (self.for_s is None) == (not self.sticky):
            raise refusal(
                "either for_s = SECONDS or sticky = true",
                came="neither" if self.for_s is None else "both",
                key="for_s" if self.for_s is not None else "",
            )
        try:
            _PARAMETERS[self.kind].model_validate(self.parameters)
        except ValidationError as error:
            raise _parameter_refusal(self.kind, error) from error
        return self


def _parameter_refusal(kind: str, error: ValidationError) -> Exception:
    detail = error.errors()[0]
    context = detail.get("ctx", {})
    key = ".".join(["parameters", *map(str, detail["loc"])])
    if context.get("key"):
        key = f"parameters.{context['key']}"
    if detail["type"] == "refused":
        known = ", ".join(_PARAMETERS[kind].model_fields) or "none"
        return refusal(f"the parameters of {kind} ({known})", came=context["came"], key=key)
    if detail["type"] == "missing":
        return refusal(f"this parameter, {kind} needs it", came="nothing", key=key, do="Add it.")
    expected = detail["msg"].removeprefix("Input should be ")
    return refusal(expected, came=repr(detail["input"]), key=key)


class Arm(Strict):
    """One configuration under comparison; tokens not named here are those of the fleet."""

    policy: Policy
    replicas: dict[TierName, Annotated[int, Field(ge=1)]]
    tokens: dict[TierName, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)


class Slo(Strict):
    """What the service owes its users."""

    availability: Annotated[float, Field(gt=0, lt=1)]
    p95_ms: Annotated[float, Field(gt=0)]
    p99_ms: Annotated[float, Field(gt=0)]
    max_error_share: Annotated[float, Field(ge=0, le=1)]


class Rates(Strict):
    """`[rates]`: how machines fail, for the plan; what is not said is the planner's default."""

    crash_per_year: Annotated[float, Field(gt=0)] | None = None
    failover_s: Annotated[float, Field(gt=0)] | None = None
    repair_s: Annotated[float, Field(gt=0)] | None = None


class Order(Strict):
    """`[design]`: the order of arms (A is the first arm in the file), repeats of it, the seed."""

    order: Annotated[str, Field(pattern=r"^[A-Z]{1,64}$")]
    repeats: Annotated[int, Field(ge=1, le=100)]
    seed: Annotated[int, Field(ge=0, lt=2**63)]


class Workload(Strict):
    """What one node is asked to carry: from which rate on, and how slow an answer may be."""

    user: User
    rate_per_s: Rate
    p95_ms: Annotated[float, Field(gt=0)]


class Capacity(Strict):
    """`[capacity]`: the load is raised step by step until p95 passes its limit (PCRAFT V.B).

    The first workload is the load's own user, from the load's rate on, with the SLO's p95; `also`
    are others on the same node. Each step has `factor` times the rate of the one before, and lasts
    as long as `measure` says, or until `requests_min` requests can be expected.
    """

    factor: Annotated[float, Field(ge=1.05, le=4.0)] = 1.3
    steps_max: Annotated[int, Field(ge=3, le=40)] = 16
    requests_min: Annotated[int, Field(ge=1, le=100_000)] = 70
    also: Annotated[tuple[Workload, ...], Field(strict=False, max_length=8)] = ()


class Experiment(Strict):
    """The whole of `experiment.toml`."""

    load: Load
    phases: Phases
    interference: Interference = Interference(pattern="none")
    faults: Annotated[tuple[Fault, ...], Field(strict=False)] = ()
    arms: Annotated[dict[str, Arm], Field(min_length=1)]
    slo: Slo
    rates: Rates = Rates()
    capacity: Capacity | None = None
    failover: Failover | None = None
    design: Order

    @model_validator(mode="after")
    def _consistent(self) -> Experiment:
        self._check_fault_times()
        self._check_machine_faults()
        self._check_order()
        self._check_capacity()
        return self

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """All that one node is asked to carry, one after the other."""
        load = self.load
        own = Workload(user=load.user, rate_per_s=load.rate_per_s, p95_ms=self.slo.p95_ms)
        return (own, *(self.capacity.also if self.capacity else ()))

    def _check_capacity(self) -> None:
        if self.capacity is None:
            return
        for key, wrong, came in (
            ("arms", len(self.arms) != 1, f"{len(self.arms)} arms"),
            ("faults", bool(self.faults), f"{len(self.faults)} faults"),
            ("interference", self.interference.pattern != "none", self.interference.pattern),
            ("failover", self.failover is not None, "a [failover]"),
        ):
            if wrong:
                raise refusal(
                    "one arm, no faults, neighbours or [failover], where there is a [capacity]",
                    came=came,
                    key=key,
                    do="What one node can carry is measured undisturbed.",
                )
        users = [workload.user for workload in self.workloads]
        if len(set(users)) != len(users):
            raise refusal("each user once", came=", ".join(users), key="capacity.also")

    def _check_fault_times(self) -> None:
        for index, fault in enumerate(self.faults):
            end_s = fault.at_s + (fault.for_s or 0.0)
            if fault.at_s >= self.phases.measure or end_s > self.phases.measure:
                raise refusal(
                    f"a fault within the measurement ({self.phases.measure} s)",
                    came=f"one from {fault.at_s} s to {end_s} s",
                    key=f"faults.{index}.at_s",
                    do="Let it begin or end earlier, or measure for longer.",
                )

    def _check_machine_faults(self) -> None:
        for index, fault in enumerate(self.faults):
            if self.failover is not None and fault.kind.startswith("machine."):
                raise refusal(
                    "no machine faults beside [failover], whose controller powers machines on",
                    came=fault.kind,
                    key=f"faults.{index}.kind",
                    do="Let failover.crash_mean_s make the crashes, or take [failover] out.",
                )

    def _check_order(self) -> None:
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(self.arms)]
        order = self.design.order
        counts = {letter: order.count(letter) for letter in letters}
        if set(order) != set(letters) or len(set(counts.values())) != 1:
            raise refusal(
                f"each of {', '.join(letters)} (the arms {', '.join(self.arms)}) equally often",
                came=repr(order),
                key="design.order",
            )
