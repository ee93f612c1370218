"""The experiment, `experiment.toml`: what is asked, for how long, and what goes wrong."""

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
from experiments.design.workers import DEFAULT, PYTHON

# Load is bounded in time and count: a third of what the native worker sends in time on one core,
# and what one process of Python does.
RATE_PER_NATIVE_MAX = 10_000.0
RATE_PER_WORKER_MAX = 2000.0
WORKERS_MAX = 16
RATE_PER_S_MAX = 32_000.0
PHASE_S_MAX = 3600.0
BUDGET_S_MAX = 86400.0
TIMES_MAX = 1000  # of a fault in a block
NOBODY = "nobody"  # the user where a design has no [load]
OPERATIONS = "operations"  # the user whose requests are [[load.operations]]
LOCUSTFILE = "locustfile"  # the user whose tasks a locustfile has
TASK_TIMEOUT_S = 30.0

User = Annotated[str, Field(min_length=1, max_length=64)]  # the name of a workload
Rate = Annotated[float, Field(gt=0, le=RATE_PER_S_MAX)]
Utilisation = Annotated[float, Field(ge=0.01, le=0.9)]
Seconds = Annotated[float, Field(gt=0, le=PHASE_S_MAX)]
LONGER_MOST = 2.0  # times `measure`, for the sake of `requests`
Pattern = Literal["none", "front", "back", "both"]
Figure = Literal["mean", "p50", "p95", "p99"]


class Requests(Strict):
    """Users, requests and limits: all of a load but its rate."""

    user: User
    """Which workload."""
    arrivals: Arrivals
    """How they are spaced."""
    connect_timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    """Limit of a connection."""
    response_timeout_s: Annotated[float, Field(gt=0, le=60)] = 6.0
    """Limit of a whole answer, from the send."""
    max_in_flight: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Requests under way at most, and so connections; what is beyond is counted as dropped."""
    keep_alive: bool = True
    """Connections are used again; false: each request has one of its own."""
    worker: str = DEFAULT
    """What sends it: `native`, `locust`, or a program of the design."""
    workers: Annotated[int, Field(ge=1, le=WORKERS_MAX)] = 1
    """Threads or processes that share the load."""

    @property
    def rate_per_s_max(self) -> float:
        """The most that may be asked of all workers together."""
        return min(self._rate_per_worker_max * self.workers, RATE_PER_S_MAX)

    @property
    def _rate_per_worker_max(self) -> float:
        return RATE_PER_NATIVE_MAX if self.worker == DEFAULT else RATE_PER_WORKER_MAX

    @model_validator(mode="after")
    def _each_worker_sends(self) -> Requests:
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
    def _bounded(self) -> SentLoad:
        self._check_rate(self.rate_per_s)
        return self


class Load(Requests):
    """The open-loop load: arrivals are drawn ahead and do not wait for answers."""

    user: User = OPERATIONS
    """Name of the workload; not beside operations, which are one."""
    rate_per_s: Rate | None = None
    """Requests a second, on average; either this or `utilisation`. A session of five steps counts
    as five. With a locustfile, tasks that begin in a second."""
    utilisation: Utilisation | None = None
    """Share of the CPU of the tier that binds, under the first arm: a calibration before the first
    block finds the rate. Only in kinds compare, schemes and tune."""
    stages: Annotated[tuple[Stage, ...], Field(strict=False, max_length=STAGES_MAX)] = ()
    """The rate during the measurement, as long as that together; `rate_per_s` is that of the
    warm-up, from which the first goes on. Figures are by stage too."""
    trace: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """A CSV file of the design's folder with arrival times, `at_s`, from the block's start on [s]:
    each block has these. `rate_per_s` stretches its clock to another mean rate."""
    operations: Operations = ()
    """Requests over HTTP, in place of a `user`."""
    sessions: Sessions = ()
    """Several steps of one user."""
    parameters: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """A CSV file of the design's folder: each arrival has a row of it, drawn evenly, a session one
    for all of its steps."""
    locustfile: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """A Locust file of the design's folder, in place of a `user`: each arrival starts a task of one
    of its users, of which `max_in_flight` wait."""
    task_timeout_s: Annotated[float, Field(gt=0, le=600)] | None = None
    """Limit of a task of the locustfile; 30 s where it is not said."""
    target: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """URL of a service that somebody else runs, in kind endpoint; `--target` goes before it."""
    ca: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """A file of the design's folder, PEM: those who may sign certificates of https, in place of
    those whom this host trusts."""
    tls_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The name that certificates are for, where operations ask a fleet's entry by https: a tier
    whose role speaks tcp, since an arbiter does not read what it passes on."""
    insecure: bool = False
    """Any certificate will do, and the report says so."""
    allow_hosts: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=253)], ...],
        Field(strict=False, max_length=20),
    ] = ()
    """Hosts that a `target` may name beside this machine; `--allow-host` adds to them."""

    @model_validator(mode="after")
    def _who(self) -> Load:
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
    def _users_of_a_locustfile(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("locustfile") is not None:
            return {"user": LOCUSTFILE, **data}
        return data

    @model_validator(mode="after")
    def _locustfile_alone(self) -> Load:
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
    def _how_much(self) -> Load:
        if (self.arrivals == "trace") != (self.trace is not None):
            raise refusal(
                'arrivals = "trace" with a trace, and another without',
                got=f"{self.arrivals} {'without' if self.trace is None else 'with'} one",
                key="arrivals",
            )
        if self.insecure and self.ca is not None:
            raise refusal("ca, or insecure = true", got="both", key="insecure")
        for key in ("stages", "trace"):
            both = bool(self.stages) and self.trace is not None
            if getattr(self, key) and (self.utilisation is not None or both):
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
        """The highest rate of any time. Raises ValueError as `sent_per_s` does."""
        return max(self.sent_per_s, *(one.target for one in self.stages), 0.0)

    @property
    def varies(self) -> bool:
        """The rate is another at other times."""
        return bool(self.stages) or self.trace is not None

    @property
    def sent_per_s(self) -> float:
        """Arrivals a second. Raises ValueError where a calibration has yet to find them."""
        if self.rate_per_s is None:
            raise ValueError("expected a load with a rate (got one that is not calibrated yet)")
        return self.rate_per_s

    def at(self, rate_per_s: float) -> Load:
        """The same load with this rate [1/s]."""
        return self.model_copy(update={"rate_per_s": rate_per_s, "utilisation": None})

    @property
    def sent(self) -> SentLoad:
        """The load as a worker is told it."""
        asked = self.model_dump(include=set(SentLoad.model_fields))
        return SentLoad.model_validate({**asked, "rate_per_s": self.sent_per_s})


class Phases(Strict):
    """Seconds of warm-up, which is not counted, and of measurement, in every arm block.

    settle: once, before the first block, the same load without neighbours and faults; of it nothing
    is kept. For servers that are slower at first (a JVM compiles), which would be the first arm's.
    """

    warm_up: Annotated[float, Field(ge=0, le=PHASE_S_MAX)]
    """Load that is not counted, in every block [s]."""
    measure: Seconds
    """Load that is counted, in every block [s]."""
    requests: Annotated[int, Field(ge=1)] | None = None
    """Measure longer where the calibration finds a rate too low for so many in a block."""
    settle: Annotated[float, Field(ge=0, le=PHASE_S_MAX)] = 0.0
    """The same load once, before the first block, undisturbed and not counted [s]."""

    def at(self, rate_per_s: float) -> Phases:
        """The same for a calibrated rate [1/s]: `measure` is long enough for `requests`, and at
        most LONGER_MOST times as long as stated."""
        if self.requests is None:
            return self
        wanted_s = min(self.requests / rate_per_s, LONGER_MOST * self.measure)
        return self.model_copy(
            update={"measure": max(self.measure, round(wanted_s, 1)), "requests": None}
        )


class Interference(Strict):
    """Neighbours' load: Poisson gaps and exponential runs on each machine (sPARE section 6.1)."""

    pattern: Pattern
    """Which tiers have neighbours: the first, the last, both."""
    kinds: Annotated[tuple[Literal["cpu", "iperf"], ...], Field(strict=False, min_length=1)] = (
        "iperf",
    )
    """Neighbours that take processors, or the network."""
    mean_gap_s: Seconds = 40.0
    """Mean time between two neighbours."""
    mean_run_s: Seconds = 10.0
    """Mean time that one stays."""
    cpu_workers: Annotated[int, KINDS[CPU].limits("workers")] = 4
    iperf_mbps: Annotated[float, KINDS[IPERF].limits("mbps")] = 100.0


class Selector(Strict):
    """Which machines: the first `count` of a tier, its first or all others, one by name, or all."""

    tier: TierName | None = None
    """Of which tier."""
    count: Annotated[int, Field(ge=1)] | None = None
    """How many of it."""
    place: Literal["first", "others"] | None = None
    """Its first machine, or all others."""
    machine: str | None = None
    """One by its name, as web-1."""
    all: bool = False
    """Every machine of every tier, as where a switch fails."""

    @model_validator(mode="after")
    def _selects(self) -> Selector:
        given = self.model_dump(exclude_defaults=True)
        forms = ({"machine"}, {"tier"}, {"tier", "count"}, {"tier", "place"}, {"all"})
        if set(given) not in forms:
            raise refusal(
                "{ tier = NAME, count = N }, { tier = NAME, place = PLACE }, { machine = NAME } "
                "or { all = true }",
                got=repr(given) if given else "an empty selector",
                hint="Say which machines are meant.",
            )
        return self


class Repeat(Strict):
    """Repetition of a fault: gaps from its end to its next begin, drawn ahead from the seed."""

    distribution: Literal["fixed", "poisson", "gaussian"]
    """Gaps that are always the same, exponential, or Gaussian about their mean."""
    gap_s: Seconds
    """Their mean [s]."""
    spread_s: Annotated[float, Field(gt=0, le=PHASE_S_MAX)] | None = None
    """Their standard deviation, of a gaussian distribution [s]."""
    times_max: Annotated[int, Field(ge=2, le=TIMES_MAX)]
    """It comes so often in a block at most, the first time counted."""

    @model_validator(mode="after")
    def _spread(self) -> Repeat:
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
    """What goes wrong."""
    select: Selector
    """On which machines."""
    at_s: Annotated[float, Field(ge=0, le=PHASE_S_MAX)]
    """When, from the start of the measurement [s]."""
    for_s: Seconds | None = None
    """For how long [s]."""
    sticky: bool = False
    """Until the block ends."""
    repeat: Repeat | None = None
    """How it comes again after `for_s`."""
    parameters: JsonObject = Field(default_factory=dict)
    """Of the kind."""

    @model_validator(mode="after")
    def _possible(self) -> Fault:
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
    """How its arbiter chooses servers."""
    replicas: Annotated[int, Field(ge=1)] = 1
    """Servers that are asked for each read."""
    tokens: Tokens | None = None
    """Requests that a server is given at a time; else the fleet's."""
    look_ahead: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Servers that TAD looks at beyond the replicas that it needs (sPARE's n); else all of them."""
    compare: Annotated[str, OneOf(tuple(COMPARE_MODES))] = COMPARE_OFF
    """What its arbiter does with the replies of a read's replicas."""

    @property
    def role(self) -> JsonObject:
        """The role's own settings."""
        return dict(self.model_extra or {})


class Arm(Strict):
    """One configuration under comparison; a tier that is not named has the defaults."""

    settings: dict[TierName, TierSettings] = Field(default_factory=dict)
    """By tier: what is not named has the defaults."""
    allow_infeasible: bool = False
    """Run it though its copies break sPARE's limits: the result says so."""

    def of(self, tier: str) -> TierSettings:
        """The settings of a tier."""
        return self.settings.get(tier, TierSettings())

    @property
    def replicas(self) -> dict[str, int]:
        """Replicas of the tiers that are named."""
        return {tier: one.replicas for tier, one in self.settings.items()}

    def tokens_of(self, tier: str, fleet: Fleet) -> int:
        """Tokens per server of a tier's arbiter: the arm's, else the fleet's."""
        stated = self.of(tier).tokens
        return fleet.arbiters[tier].tokens if stated is None else stated


class OperationSlo(Strict):
    """The promise of an operation or kind of session, by its own requests and think times."""

    p95_ms: Annotated[float, Field(gt=0)] | None = None
    """Limit of the 95th percentile."""
    p99_ms: Annotated[float, Field(gt=0)] | None = None
    """Limit of the 99th percentile."""
    max_error_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of its requests that may fail."""

    @model_validator(mode="after")
    def _asks_something(self) -> OperationSlo:
        if (self.p95_ms, self.p99_ms, self.max_error_share) == (None, None, None):
            raise refusal("p95_ms, p99_ms or max_error_share", got="none")
        _check_order(self.p95_ms, self.p99_ms)
        return self


def _check_order(p95_ms: float | None, p99_ms: float | None) -> None:
    if p95_ms is not None and p99_ms is not None and p99_ms < p95_ms:
        raise refusal(
            f"at least p95_ms ({p95_ms:g}): a p99 is never below the p95",
            got=f"{p99_ms:g}",
            key="p99_ms",
        )


class Slo(Strict):
    """The service's promise to its users."""

    availability: Annotated[float, Field(gt=0, lt=1)]
    """Share of a year with enough nodes up."""
    p95_ms: Annotated[float, Field(gt=0)]
    """Limit of the 95th percentile."""
    p99_ms: Annotated[float, Field(gt=0)] | None = None
    """Limit of the 99th percentile; a short run has too few requests to decide one."""
    max_error_share: Annotated[float, Field(ge=0, le=1)]
    """Share of requests that may fail; a comparison is not valid either where any arm has more."""
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """With at least this probability the run's plan keeps all of it, whatever its law is off by."""
    preregistered: bool | None = None
    """True: the limits were chosen before the first run that showed what is reached."""
    operations: dict[str, OperationSlo] = Field(default_factory=dict)
    """Limits of single operations, by name: each is one of the whole. A plan keeps none."""
    sessions: dict[str, OperationSlo] = Field(default_factory=dict)
    """Limits of whole sessions, by name; likewise."""

    @model_validator(mode="after")
    def _p99_is_the_larger(self) -> Slo:
        _check_order(self.p95_ms, self.p99_ms)
        return self


class Rates(Strict):
    """`[rates]`: how machines fail, for the plan; what is not said is the planner's default."""

    crash_per_year: Annotated[float, Field(gt=0)] | None = None
    """Crashes of a machine in a year."""
    failover_s: Annotated[float, Field(gt=0)] | None = None
    """Time until another one serves [s]."""
    repair_s: Annotated[float, Field(gt=0)] | None = None
    """Time until a machine is repaired [s]."""


def new_seed() -> int:
    """Short enough to be typed again."""
    return secrets.randbelow(10**9)


class Order(Strict):
    """`[design]`: the order of arms (A is the first arm in the file), repeats of it, the seed.

    One that states no seed has another each time that it is read: `sparecraft run --seed` repeats.

    With `decide` the run ends as soon as every arm is told from the first one by that figure (the
    interval of their ratio leaves 1 out, or lies within 15 % of it), or, where `[slo]` was set
    before, as soon as every arm is known to meet or to miss it. The error of 5 % is spent over the
    looks.
    """

    order: Annotated[str, Field(pattern=r"^[A-Z]{1,64}$")]
    """Blocks by arm: A is the first arm of the file."""
    repeats: Annotated[int, Field(ge=1, le=100)]
    """How often that order is gone through; with `decide` at most."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(default_factory=new_seed)
    """The seed of all random draws; a new one for each run unless stated."""
    decide: Figure | None = None
    """The figure that ends the run once it is decided; without it all repeats are measured."""
    min_repeats: Annotated[int, Field(ge=1, le=100)] | None = None
    """With `decide`: repeats before the first look; 2 where it is not said."""
    looks: Annotated[int, Field(ge=1, le=20)] | None = None
    """With `decide`: how often to look, the last time after all repeats; 3 where it is not said."""
    budget_s: Annotated[float, Field(gt=0, le=BUDGET_S_MAX)] | None = None
    """With `decide`: no repeat begins that would probably end later than this, counted from the
    first block [s]."""

    @model_validator(mode="after")
    def _looks_only_to_decide(self) -> Order:
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
        """The file has a seed, or `--seed` gave one."""
        return "seed" in self.model_fields_set

    @property
    def repeats_first(self) -> int:
        """Repeats before the first look."""
        return 2 if self.min_repeats is None else self.min_repeats

    @property
    def looked_after(self) -> tuple[int, ...]:
        """Repeats after which a design that decides is looked at, ascending."""
        from core.statistics.sequential import look_times  # SciPy, which `--help` does not need

        return look_times(self.repeats_first, self.repeats, self.looks or 3)


class Experiment(Strict):
    """The whole of `experiment.toml`, but for the section that a kind of experiment has."""

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")] = "compare"
    """What is done: see kinds."""
    load: Load = Load(user=NOBODY, arrivals="constant", rate_per_s=1.0)
    """Who asks what; not in kinds that bring their own clients."""
    phases: Phases = Phases(warm_up=0.0, measure=1.0)
    """How long; likewise."""
    interference: Interference = Interference(pattern="none")
    """Neighbours."""
    faults: Annotated[tuple[Fault, ...], Field(strict=False)] = ()
    """What goes wrong on purpose."""
    arms: Annotated[dict[str, Arm], Field(min_length=1)]
    """What is compared; the first is the baseline."""
    slo: Slo = Slo(availability=0.5, p95_ms=PHASE_S_MAX * 1e3, p99_ms=PHASE_S_MAX * 1e3,
                   max_error_share=1.0)  # fmt: skip
    """What is promised; likewise."""
    rates: Rates = Rates()
    """How machines fail."""
    failover: Failover | None = None
    """What becomes of lost machines."""
    guard: Guard = Guard()
    """What ends the run before its time."""
    design: Order
    """In which order."""
