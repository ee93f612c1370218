"""The experiment, `experiment.toml`: load, phases, disturbances, arms and SLO."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from core.config_file import Strict, refusal
from core.json_object import JsonObject
from experiments.design.arrival_rate import STAGES_MAX, Arrivals, Stage
from experiments.design.contracts import (
    COMPARE_MODES,
    COMPARE_OFF,
    CPU,
    DEFAULT_POLICY,
    FAULT_KINDS,
    IPERF,
    KINDS,
    POLICIES,
    OneOf,
)
from experiments.design.failover import Failover
from experiments.design.fleet import Fleet, TierName, Tokens
from experiments.design.guard import Guard
from experiments.design.operations import Operations, Sessions, check_names
from experiments.design.slo import Slo
from experiments.design.workers import DEFAULT, PYTHON

# Load is bounded in time and count: a third of the rate that the native worker sends on time with
# one core, and the rate that one process of Python sends.
RATE_PER_NATIVE_MAX = 10_000.0
RATE_PER_WORKER_MAX = 2000.0
WORKERS_MAX = 16
RATE_PER_S_MAX = 32_000.0
PHASE_S_MAX = 3600.0
BUDGET_S_MAX = 86400.0
TIMES_MAX = 1000  # of a fault in a block
NOBODY = "nobody"  # the user if a design has no [load]
OPERATIONS = "operations"  # the user whose requests are [[load.operations]]
LOCUSTFILE = "locustfile"  # the user whose tasks are those of a locustfile
TASK_TIMEOUT_S = 30.0

User = Annotated[str, Field(min_length=1, max_length=64)]  # the name of a workload
Rate = Annotated[float, Field(gt=0, le=RATE_PER_S_MAX)]
Utilisation = Annotated[float, Field(ge=0.01, le=0.9)]
Seconds = Annotated[float, Field(gt=0, le=PHASE_S_MAX)]
LONGER_MOST = 2.0  # times `measure`: the longest measurement for `requests`
Pattern = Literal["none", "front", "back", "both"]
Figure = Literal["mean", "p50", "p95", "p99"]


class Requests(Strict):
    """Users, requests and limits: all of a load but its rate."""

    user: User
    """Name of the workload."""
    arrivals: Arrivals
    """Distribution of the arrivals."""
    connect_timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    """Time-out of a connection."""
    response_timeout_s: Annotated[float, Field(gt=0, le=60)] = 6.0
    """Time-out of a whole answer, from the send."""
    max_in_flight: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Largest number of requests under way, and of connections; further ones count as dropped."""
    keep_alive: bool = True
    """Reuse connections; false: one for each request."""
    worker: str = DEFAULT
    """The sender: `native`, `locust`, or a program of the design."""
    workers: Annotated[int, Field(ge=1, le=WORKERS_MAX)] = 1
    """Threads or processes that share the load."""

    @property
    def rate_per_s_max(self) -> float:
        """The highest rate of all workers together."""
        return min(self._rate_per_worker_max * self.workers, RATE_PER_S_MAX)

    @property
    def _rate_per_worker_max(self) -> float:
        return RATE_PER_NATIVE_MAX if self.worker == DEFAULT else RATE_PER_WORKER_MAX

    @model_validator(mode="after")
    def _check_workers(self) -> Requests:
        if self.workers > self.max_in_flight:
            raise refusal(
                f"at most max_in_flight ({self.max_in_flight})",
                got=str(self.workers),
                key="workers",
                hint="Each worker needs one request in flight.",
            )
        return self

    def _check_rate(self, rate_per_s: float) -> None:
        if rate_per_s > self.rate_per_s_max:
            raise refusal(
                f"at most {self._rate_per_worker_max:g} per worker",
                got=f"{rate_per_s:g} for workers = {self.workers}",
                key="rate_per_s",
                hint="Ask for more workers, or for less.",
            )


class SentLoad(Requests):
    """The open-loop load as a worker is told it."""

    rate_per_s: Rate
    """Arrivals a second, on average."""

    @model_validator(mode="after")
    def _check_bounds(self) -> SentLoad:
        self._check_rate(self.rate_per_s)
        return self


class Load(Requests):
    """The open-loop load: arrivals are drawn ahead and do not wait for answers."""

    user: User = OPERATIONS
    """Name of the workload; not together with `operations`."""
    rate_per_s: Rate | None = None
    """Mean requests a second; either this or `utilisation`. A session of five steps counts as
    five. With a locustfile: tasks that begin in a second."""
    utilisation: Utilisation | None = None
    """CPU share of the bottleneck tier under the first arm: a calibration before the first block
    finds the rate. In the kinds compare, schemes and tune."""
    stages: Annotated[tuple[Stage, ...], Field(strict=False, max_length=STAGES_MAX)] = ()
    """Rates during the measurement; together they last as long as it. The first begins at
    `rate_per_s`, the rate of the warm-up."""
    trace: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """CSV file in the design's folder: arrival times `at_s` from each block's start [s].
    `rate_per_s` scales the clock to another mean rate."""
    operations: Operations = ()
    """Requests over HTTP, instead of a `user`."""
    sessions: Sessions = ()
    """Several steps of one user."""
    parameters: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """CSV file in the design's folder: each arrival draws one row, a session one for all its
    steps."""
    locustfile: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Locust file in the design's folder, instead of a `user`: each arrival starts a task of one
    of `max_in_flight` users."""
    task_timeout_s: Annotated[float, Field(gt=0, le=600)] | None = None
    """Time-out of a task of the locustfile; 30 s by default."""
    target: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """URL of a running service, in the kind endpoint; `--target` overrides it."""
    ca: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """PEM file in the design's folder: authorities for https, instead of those that this host
    trusts."""
    tls_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Name in the certificates if a fleet's entry is asked by https; the entry's role has
    protocol tcp."""
    insecure: bool = False
    """Accept any certificate; the report says so."""
    allow_hosts: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=253)], ...],
        Field(strict=False, max_length=20),
    ] = ()
    """Hosts that `target` may name besides this machine; `--allow-host` adds to them."""

    @model_validator(mode="after")
    def _check_user(self) -> Load:
        if bool(self.operations) != (self.user == OPERATIONS):
            raise refusal(
                "one of user = NAME, [[load.operations]] and locustfile = FILE",
                got="both" if self.operations else "neither",
                key="user",
                hint="Say one of them.",
            )
        if self.operations:
            check_names(self.operations, self.sessions)
        for key in ("sessions", "parameters", "tls_name"):
            if getattr(self, key) and not self.operations:
                raise refusal("[[load.operations]] beside it", got="none", key=key)
        if self.sessions and self.workers > 1:
            raise refusal(
                "workers = 1 with sessions: a user's steps are sent by one",
                got=str(self.workers),
                key="workers",
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _set_locustfile_user(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("locustfile") is not None:
            return {"user": LOCUSTFILE, **data}
        return data

    @model_validator(mode="after")
    def _check_locustfile(self) -> Load:
        if self.locustfile is None:
            if self.task_timeout_s is not None:
                raise refusal("a locustfile beside it", got="none", key="task_timeout_s")
            return self
        if self.user != LOCUSTFILE:
            hint = "Say one of them: a locustfile has users of its own."
            raise refusal("no user beside locustfile", got=self.user, key="user", hint=hint)
        if self.workers > 1:
            expected = "workers = 1 with a locustfile: one process has all its users"
            raise refusal(expected, got=str(self.workers), key="workers")
        if not self.keep_alive:
            expected = "no keep_alive beside locustfile, whose clients keep connections as it says"
            raise refusal(expected, got="false", key="keep_alive")
        if self.worker not in (DEFAULT, PYTHON):
            expected = f"{DEFAULT} or {PYTHON} with a locustfile, which Locust carries out"
            raise refusal(expected, got=self.worker, key="worker")
        return self

    @model_validator(mode="after")
    def _check_rate_keys(self) -> Load:
        if (self.arrivals == "trace") != (self.trace is not None):
            raise refusal(
                'arrivals = "trace" with a trace, and another without',
                got=f"{self.arrivals} {'without' if self.trace is None else 'with'} one",
                key="arrivals",
            )
        if self.insecure and self.ca is not None:
            raise refusal("ca, or insecure = true", got="both", key="insecure")
        for key in ("stages", "trace"):
            has_both = bool(self.stages) and self.trace is not None
            if getattr(self, key) and (self.utilisation is not None or has_both):
                expected = f"no {key} beside utilisation, nor stages beside a trace"
                raise refusal(expected, got="both", key=key, hint="Say one of them.")
        if self.trace is not None and self.rate_per_s is None:
            return self  # the file's own
        if (self.rate_per_s is None) == (self.utilisation is None):
            raise refusal(
                "either rate_per_s = RATE or utilisation = SHARE",
                got="neither" if self.rate_per_s is None else "both",
                key="rate_per_s" if self.rate_per_s is None else "utilisation",
                hint="Say one of them.",
            )
        if self.rate_per_s is not None:
            self._check_rate(self.most_per_s)
        return self

    @property
    def most_per_s(self) -> float:
        """The highest rate at any time. Raises ValueError as `sent_per_s` does."""
        return max(self.sent_per_s, *(stage.target for stage in self.stages), 0.0)

    @property
    def varies(self) -> bool:
        """True if the rate changes with time."""
        return bool(self.stages) or self.trace is not None

    @property
    def sent_per_s(self) -> float:
        """Arrivals per second. Raises ValueError if a calibration still has to find the rate."""
        if self.rate_per_s is None:
            raise ValueError("expected a load with a rate (got one that is not calibrated yet)")
        return self.rate_per_s

    def at(self, rate_per_s: float) -> Load:
        """Return the same load with this rate [1/s]."""
        return self.model_copy(update={"rate_per_s": rate_per_s, "utilisation": None})

    @property
    def sent(self) -> SentLoad:
        requests = self.model_dump(include=set(SentLoad.model_fields))
        return SentLoad.model_validate({**requests, "rate_per_s": self.sent_per_s})


class Phases(Strict):
    """Lengths of the parts of a block.

    `settle` is for servers that are slow at first (a JVM compiles), which would slow the first arm.
    """

    warm_up: Annotated[float, Field(ge=0, le=PHASE_S_MAX)]
    """Load before the measurement, not counted, in every block [s]."""
    measure: Seconds
    """Measured load, in every block [s]."""
    requests: Annotated[int, Field(ge=1)] | None = None
    """Measure longer where the calibration finds a rate too low for so many in a block."""
    settle: Annotated[float, Field(ge=0, le=PHASE_S_MAX)] = 0.0
    """Load before the first block, undisturbed and not counted [s]."""

    def at(self, rate_per_s: float) -> Phases:
        """Return the phases for a calibrated rate [1/s]: `measure` is long enough for `requests`,
        and at most LONGER_MOST times as long as in the file.
        """
        if self.requests is None:
            return self
        length_s = min(self.requests / rate_per_s, LONGER_MOST * self.measure)
        return self.model_copy(
            update={"measure": max(self.measure, round(length_s, 1)), "requests": None}
        )


class Interference(Strict):
    """Neighbours' load: Poisson gaps and exponential runs on each machine (sPARE section 6.1)."""

    pattern: Pattern
    """Tiers with neighbours: the first, the last, both."""
    kinds: Annotated[tuple[Literal["cpu", "iperf"], ...], Field(strict=False, min_length=1)] = (
        "iperf",
    )
    """Neighbours that use processors, or the network."""
    mean_gap_s: Seconds = 40.0
    """Mean time between two neighbours."""
    mean_run_s: Seconds = 10.0
    """Mean length of a neighbour's stay."""
    cpu_workers: Annotated[int, KINDS[CPU].limits("workers")] = 4
    iperf_mbps: Annotated[float, KINDS[IPERF].limits("mbps")] = 100.0


class Selector(Strict):
    """Machines: the first `count` of a tier, its first or all others, one by name, or all."""

    tier: TierName | None = None
    """Tier."""
    count: Annotated[int, Field(ge=1)] | None = None
    """Number of machines of the tier."""
    place: Literal["first", "others"] | None = None
    """The tier's first machine, or all others."""
    machine: str | None = None
    """One machine by its name, such as web-1."""
    all: bool = False
    """All machines of all tiers."""

    @model_validator(mode="after")
    def _check_form(self) -> Selector:
        keys = self.model_dump(exclude_defaults=True)
        forms = ({"machine"}, {"tier"}, {"tier", "count"}, {"tier", "place"}, {"all"})
        if set(keys) not in forms:
            raise refusal(
                "{ tier = NAME, count = N }, { tier = NAME, place = PLACE }, { machine = NAME } "
                "or { all = true }",
                got=repr(keys) if keys else "an empty selector",
                hint="Say which machines are meant.",
            )
        return self


class Repeat(Strict):
    """Repetition of a fault: gaps from its end to its next begin, drawn ahead from the seed."""

    distribution: Literal["fixed", "poisson", "gaussian"]
    """Distribution of the gaps: constant, exponential, or Gaussian."""
    gap_s: Seconds
    """Mean gap [s]."""
    spread_s: Annotated[float, Field(gt=0, le=PHASE_S_MAX)] | None = None
    """Standard deviation of Gaussian gaps [s]."""
    times_max: Annotated[int, Field(ge=2, le=TIMES_MAX)]
    """Largest number of occurrences in a block, the first one included."""

    @model_validator(mode="after")
    def _check_spread(self) -> Repeat:
        if (self.distribution == "gaussian") != (self.spread_s is not None):
            raise refusal(
                "a spread with distribution gaussian, and none with another",
                got=f"distribution = {self.distribution!r} and "
                + ("none" if self.spread_s is None else f"{self.spread_s:g}"),
                key="spread_s",
            )
        return self


class Fault(Strict):
    """One fault: where, when, for how long. `at_s` counts from the start of the measurement.

    It is transient (`for_s`), sticky (`sticky`), or recurring (`for_s` and `repeat`).
    """

    kind: Annotated[str, OneOf(FAULT_KINDS)]
    """The fault."""
    select: Selector
    """The machines."""
    at_s: Annotated[float, Field(ge=0, le=PHASE_S_MAX)]
    """Begin, from the start of the measurement [s]."""
    for_s: Seconds | None = None
    """Length [s]."""
    sticky: bool = False
    """Until the block ends."""
    repeat: Repeat | None = None
    """Repetition after `for_s`."""
    parameters: JsonObject = Field(default_factory=dict)
    """Parameters of the kind."""

    @model_validator(mode="after")
    def _check_fault(self) -> Fault:
        if (self.for_s is None) == (not self.sticky):
            raise refusal(
                "either for_s = SECONDS or sticky = true",
                got="neither" if self.for_s is None else "both",
                key="for_s" if self.for_s is not None else "",
            )
        if self.sticky and self.repeat is not None:
            raise refusal("for_s: what comes again has to end", got="sticky = true", key="repeat")
        try:
            KINDS[self.kind].model.model_validate(self.parameters)
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
        known = ", ".join(KINDS[kind].model.model_fields) or "none"
        return refusal(f"the parameters of {kind} ({known})", got=context["got"], key=key)
    if detail["type"] == "missing":
        return refusal(f"this parameter, {kind} needs it", got="nothing", key=key, hint="Add it.")
    expected = detail["msg"].removeprefix("Input should be ")
    return refusal(expected, got=repr(detail["input"]), key=key)


class TierSettings(Strict):
    """An arm's settings of one tier: its arbiter's settings, and any that its role names."""

    model_config = ConfigDict(extra="allow")

    policy: Annotated[str, OneOf(tuple(POLICIES))] = DEFAULT_POLICY
    """Policy of the tier's arbiter."""
    replicas: Annotated[int, Field(ge=1)] = 1
    """Servers that get each read."""
    tokens: Tokens | None = None
    """Requests that a server gets at a time; by default the fleet's."""
    look_ahead: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Servers that TAD looks at beyond the replicas that it needs (sPARE's n); else all of them."""
    compare: Annotated[str, OneOf(tuple(COMPARE_MODES))] = COMPARE_OFF
    """Comparison of the replies of a read's replicas."""

    @property
    def role(self) -> JsonObject:
        """The role's own settings."""
        return dict(self.model_extra or {})


class Arm(Strict):
    """One configuration under comparison; a tier that is not named has the defaults."""

    settings: dict[TierName, TierSettings] = Field(default_factory=dict)
    """Settings by tier; other tiers have the defaults."""
    allow_infeasible: bool = False
    """Run the arm although its copies break sPARE's limits; the result says so."""

    def of(self, tier: str) -> TierSettings:
        return self.settings.get(tier, TierSettings())

    @property
    def replicas(self) -> dict[str, int]:
        """Replicas of the tiers in `settings`."""
        return {tier: tier_settings.replicas for tier, tier_settings in self.settings.items()}

    def tokens_of(self, tier: str, fleet: Fleet) -> int:
        """Return the tokens per server of a tier's arbiter: the arm's, else the fleet's."""
        tokens = self.of(tier).tokens
        return fleet.arbiters[tier].tokens if tokens is None else tokens


class Rates(Strict):
    """Failure rates of machines, for the plan; by default the planner's."""

    crash_per_year: Annotated[float, Field(gt=0)] | None = None
    """Crashes of a machine a year."""
    failover_s: Annotated[float, Field(gt=0)] | None = None
    """Time until another machine serves [s]."""
    repair_s: Annotated[float, Field(gt=0)] | None = None
    """Time until a machine is repaired [s]."""


def new_seed() -> int:
    """Return a random seed that is short enough to type."""
    return secrets.randbelow(10**9)


class Order(Strict):
    """The order of arms, its repeats, and the seed.

    Without a seed each run draws a new one; `sparecraft run --seed` repeats a run.

    With `decide` the run ends when that figure decides every arm against the first one (the
    interval of their ratio excludes 1, or lies within 15 % of it), or, if `[slo]` is preregistered,
    when every arm is known to meet or to miss it. The error of 5 % is spent over the looks.
    """

    order: Annotated[str, Field(pattern=r"^[A-Z]{1,64}$")]
    """Order of blocks by arm; A is the first arm of the file."""
    repeats: Annotated[int, Field(ge=1, le=100)]
    """Repeats of that order; with `decide` the most."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(default_factory=new_seed)
    """Seed of all random draws; by default a new one for each run."""
    decide: Figure | None = None
    """Figure that ends the run once it is decided; by default all repeats are measured."""
    min_repeats: Annotated[int, Field(ge=1, le=100)] | None = None
    """With `decide`: repeats before the first look; 2 by default."""
    looks: Annotated[int, Field(ge=1, le=20)] | None = None
    """With `decide`: number of looks, the last one after all repeats; 3 by default."""
    budget_s: Annotated[float, Field(gt=0, le=BUDGET_S_MAX)] | None = None
    """With `decide`: no repeat begins that would probably end later than this after the first
    block's start [s]."""

    @model_validator(mode="after")
    def _check_decision(self) -> Order:
        if self.decide is None:
            for key in ("min_repeats", "looks", "budget_s"):
                if getattr(self, key) is not None:
                    raise refusal(f"no {key} without decide", got="one", key=key)
        elif self.repeats_first > self.repeats:
            raise refusal(
                f"at least min_repeats ({self.repeats_first})",
                got=str(self.repeats),
                key="repeats",
            )
        return self

    @property
    def seed_is_stated(self) -> bool:
        """True if the file has a seed, or `--seed` gave one."""
        return "seed" in self.model_fields_set

    @property
    def repeats_first(self) -> int:
        """Repeats before the first look."""
        return 2 if self.min_repeats is None else self.min_repeats

    @property
    def looked_after(self) -> tuple[int, ...]:
        """Numbers of repeats after which a design with `decide` is looked at, ascending."""
        from core.statistics.sequential import look_times  # SciPy, which `--help` does not need

        return look_times(self.repeats_first, self.repeats, self.looks or 3)


class Experiment(Strict):
    """All keys of `experiment.toml`, except those of a kind's own section."""

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")] = "compare"
    """The kind of experiment."""
    load: Load = Load(user=NOBODY, arrivals="constant", rate_per_s=1.0)
    """The load; not in kinds that bring their own clients."""
    phases: Phases = Phases(warm_up=0.0, measure=1.0)
    """Lengths of a block; likewise."""
    interference: Interference = Interference(pattern="none")
    """Neighbours."""
    faults: Annotated[tuple[Fault, ...], Field(strict=False)] = ()
    """Faults to inject."""
    arms: Annotated[dict[str, Arm], Field(min_length=1)]
    """The configurations under comparison; the first is the baseline."""
    slo: Slo = Slo(availability=0.5, p95_ms=PHASE_S_MAX * 1e3, p99_ms=PHASE_S_MAX * 1e3,
                   max_error_share=1.0)  # fmt: skip
    """The service-level objective; likewise."""
    rates: Rates = Rates()
    """Failure rates of machines, for the plan."""
    failover: Failover | None = None
    """Replacement of failed machines."""
    guard: Guard = Guard()
    """Conditions that end the run early."""
    design: Order
    """Order of blocks, repeats, seed."""

    def undisturbed(self, **changes: object) -> Experiment:
        """Return the experiment without neighbours, faults and failover, and with `changes`."""
        calm = {"interference": Interference(pattern="none"), "faults": (), "failover": None}
        return self.model_copy(update={**calm, **changes})
