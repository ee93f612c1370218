"""`[performability]`: the rule for a failure, the rates of faults, and the limits of a year."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

from core.config_file import Positive, Strict
from core.json_object import JsonObject
from experiments.design import Check, Design
from experiments.design.disturbance import Disturbance
from experiments.design.experiment import PHASE_S_MAX
from experiments.design.fleet import TierName
from experiments.design.injections import selected
from optimizer.reproduce.published import published

LOOK_S = 3.0  # an operator judges by the requests of the last LOOK_S seconds
FILLED_PER_S = 1000.0  # rough speed of a fill, for the expected length of a run
PERIODS_MIN = 8  # before the fault and after it; they show the normal service


class FaultRate(Strict):
    """The yearly rate of a fault."""

    per_year: Positive
    """Occurrences a machine and year."""
    repair_s: Positive
    """Length if nobody ends it sooner [s]."""
    source: Annotated[str, Field(min_length=1)]
    """Source of these figures."""


class Fill(Strict):
    """The services of a tier are started anew before each block, and asked as fast as they answer:
    blocks begin warm, and equally so."""

    tier: TierName
    """Tier of the services."""
    requests: Annotated[int, Field(ge=10, le=1_000_000)]
    """Number of requests, drawn as the load draws them."""
    header: Annotated[str, Field(min_length=1)]
    """Header of a reply that names the origin of its content."""


class Operator(Strict):
    """Restarts all services of the struck tier, where users are still failed so long after a
    fault's end: for what does not recover by itself."""

    wait_s: Annotated[float, Field(ge=LOOK_S, le=PHASE_S_MAX)]
    """Time after the fault's end, in the run [s]."""
    year_wait_s: Annotated[float, Field(ge=0)]
    """The same in the year [s]; people are slower."""
    source: Annotated[str, Field(min_length=1)]
    """Source of the second time."""


class YearSlo(Strict):
    """Limits of what a year of faults may cost users."""

    lost_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The largest share of requests that faults may take."""
    demerits_per_request: Positive | None = None
    """The most demerits that faults may add to a request."""


class PerformabilitySection(Strict):
    """Each fault of the design is injected alone, in blocks of its own; `at_s` of it is the time
    before the fault, and what `measure` leaves after its end is for the recovery."""

    period_s: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    """Length of a logging period [s]; the paper's is 5."""
    slow_factor: Annotated[float, Field(gt=1)] = 2.0
    """A period belongs to a failure if its mean latency is above this multiple of the worst one
    before."""
    unfelt_ms: Annotated[float, Field(ge=0)] = 0.0
    """Mean latency up to which a period never belongs to a failure [ms]."""
    lost_share: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Or if its share of good answers is lower by this than the worst one before."""
    rest_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    """Pause after each block, in which a lost replica is filled again [s]."""
    fill: Fill | None = None
    """Filling of a tier's memories before each block."""
    operator: Operator | None = None
    """Restart of services that do not recover."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Version of the report for each arm, for comparison."""
    rates: dict[str, FaultRate] = Field(default_factory=dict)
    """Yearly rates by fault; without them the year is not computed."""
    slo: YearSlo = YearSlo()
    """Limits for a year of faults."""

    def check(self, design: Design) -> None:
        experiment = design.experiment
        names = [fault_name(fault.model_dump()) for fault in experiment.faults]
        unknown = set(self.rates) - {fault.kind for fault in experiment.faults}
        unknown_versions = {*self.versions} - {*experiment.arms}
        unknown_versions |= {*self.versions.values()} - {*published("performability")["versions"]}
        least_s = PERIODS_MIN * self.period_s
        filled_tier = design.fleet.tiers.get(self.fill.tier) if self.fill else None
        protocol = design.roles[filled_tier.role].protocol if filled_tier else "none"
        checks: Iterable[Check] = (
            ("faults", not names, "at least one fault", "none"),
            ("faults", len(set(names)) < len(names), "each fault once", ", ".join(names)),
            ("interference", experiment.interference.pattern != "none", "no neighbours",
             experiment.interference.pattern),
            ("performability.rates", bool(unknown), "rates of the design's faults",
             ", ".join(sorted(unknown))),
            ("performability.versions", bool(unknown_versions),
             "arms, and versions that the report has", ", ".join(sorted(unknown_versions))),
            ("performability.fill", self.fill is not None and protocol != "http",
             "an entry tier that is asked by HTTP", protocol),
            ("performability.fill", self.fill is not None and bool(experiment.load.operations),
             "a user of a workload.py, whose pages it asks", "[[load.operations]]"),
            ("performability.slo", self.slo != YearSlo() and not self.rates,
             "rates, of which a year follows", "none"),
        )  # fmt: skip
        design.refuse(checks)
        for index, fault in enumerate(experiment.faults):
            struck = selected(fault.select, design.fleet)
            place = f"faults.{index}"
            if len(struck) != 1 and not fault.select.all:
                got = ", ".join(struck) or "none"
                raise design.error(f"{place}.select", "one machine, or all", got)
            if fault.for_s is None:
                raise design.error(f"{place}.sticky", "for_s", "sticky")
            if fault.repeat is not None:
                expected = "a fault that comes once in a block: a year counts its rate"
                got = f"up to {fault.repeat.times_max} times"
                raise design.error(f"{place}.repeat", expected, got)
            left_s = experiment.phases.measure - fault.at_s - fault.for_s
            left_s -= self.operator.wait_s if self.operator else 0.0
            if min(fault.at_s, left_s) < least_s:
                raise design.error(
                    place,
                    f"{PERIODS_MIN} periods of {self.period_s:g} s before and after it",
                    f"{fault.at_s:g} s before, {left_s:g} s after it, or after its operator",
                    "Move it, or make phases.measure longer.",
                )

    def restarts(self, design: Design) -> list[Disturbance]:
        """Restarts beside the design's faults, for `sparecraft check`."""
        return [*self._fill_restarts(design), *self._operator_restarts(design)]

    def _fill_restarts(self, design: Design) -> list[Disturbance]:
        if self.fill is None:
            return []
        names = design.fleet.nodes_of(self.fill.tier)
        commands = "the role's service is stopped and started, then asked"
        parameters = {"requests": self.fill.requests}
        return [_restart_disturbance("fill", parameters, names, commands, "before each block")]

    def _operator_restarts(self, design: Design) -> list[Disturbance]:
        if self.operator is None:
            return []
        tiers = {
            tier
            for fault in design.experiment.faults
            for tier in tiers_of(fault.select.model_dump(), design.fleet.tiers)
        }
        names = [name for tier in sorted(tiers) for name in design.fleet.nodes_of(tier)]
        commands = "the role's service is stopped and started, on all of them at once"
        when = "once in a block where its fault is over and users are still failed"
        return [
            _restart_disturbance(
                "operator", {"wait_s": self.operator.wait_s}, names, commands, when
            )
        ]


def _restart_disturbance(
    subject: str, parameters: JsonObject, names: Sequence[str], commands: str, when: str
) -> Disturbance:
    """Return the restart of all these machines at once, as `sparecraft check` shows it."""
    return {
        "what": subject,
        "kind": "restart",
        "parameters": parameters,
        "at_s": None,
        "machines": dict.fromkeys(names),
        "at_once": len(names),
        "commands": commands,
        "undo": "none is needed",
        "when": when,
    }


def fault_name(fault: JsonObject) -> str:
    """Return a fault's name in tables: "net.limp (factor 100) on store-2"."""
    parameters = ", ".join(f"{key} {value}" for key, value in (fault["parameters"] or {}).items())
    select = fault["select"]
    if select.get("all"):
        where = "all machines"
    else:
        where = select["machine"] or " ".join(filter(None, (select["place"], select["tier"])))
    return f"{fault['kind']}{f' ({parameters})' if parameters else ''} on {where}"


def tiers_of(select: JsonObject, tiers: Iterable[str]) -> list[str]:
    """Return the tiers that a fault strikes: its machine's, or all of `tiers`."""
    if select.get("all"):
        return list(tiers)
    return [str(select["tier"] or str(select["machine"]).rpartition("-")[0])]
