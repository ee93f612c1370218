"""`[limplock]`: the rows to run, their scales, and the limits of waits."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated

from pydantic import Field

from core.config_file import Share, Strict
from core.errors import InputError
from experiments.design import Check, Design
from experiments.design.injections import HELD_S_MAX
from experiments.kinds.limplock.clients.system import MODULE, adapter_of
from experiments.kinds.limplock.judge.rule import Rule
from experiments.kinds.limplock.judge.search import Search
from experiments.kinds.limplock.measure.endure import Endure
from experiments.kinds.limplock.row import Row, rows
from experiments.kinds.limplock.scenarios import Scenario, scenarios_of

Names = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]  # each once: `check`
Factor = Annotated[float, Field(gt=1, le=1e6)]
Seconds = Annotated[float, Field(gt=0, le=3600)]
PASS_THROUGH = "STORE_FAULTS"  # the agents' setting: agents/README.md
_REPEATS_LEAST = 3  # with fewer, no bound holds with confidence 0.95: slowdown.py


def system_tier(design: Design, system: str) -> str:
    return next(name for name, tier in design.fleet.tiers.items() if tier.role == system)


def injected_tier(design: Design, row: Row) -> str:
    """Return the tier whose machine limps: the system's tier, or a tier that it calls. Raises
    InputError.
    """
    tiers, tier = design.fleet.tiers, system_tier(design, row.system)
    candidates = (tier,) if row.injected_role is None else tiers[tier].calls
    role = row.injected_role or row.system
    for name in candidates:
        if tiers[name].role == role:
            return name
    raise InputError(
        f"{design.directory / 'fleet.tfvars'}: tiers.{tier}.calls",
        expected=f"a tier of {role}, whose {', '.join(row.injected)} limps in {row.name}",
        got=", ".join(candidates) or "none",
        hint="Add it, or take the row out.",
    )


class LimplockSection(Strict):
    """Each repeat of a row is a run without a fault, one in each scenario, and one without a fault
    again: the part limps `severities` times slower, or crashes, in an order that is drawn for each
    repeat from the design's seed. Arms are generations or settings."""

    rows: Names
    """Rows of Limplock's Table 1."""
    severities: Annotated[tuple[Factor, ...], Field(strict=False, max_length=8)] = (10, 100, 1000)
    """Slowdowns of the card or disk, each a scenario."""
    crash: bool = True
    """Add a scenario in which the node crashes."""
    scale: Share = 1.0
    """Number of operations as a share of the paper's; sizes are the paper's."""
    scales: dict[str, Share] = Field(default_factory=dict)
    """The same for single rows, by name."""
    timeout_factor: Annotated[float, Field(gt=1)] | None = None
    """Wait for an operation as a multiple of its base, at most an hour; by default the row's. If
    bases differ, the proved slowdown is lower."""
    window_s_min: Seconds = 5.0
    """Least length of a base and of a fault [s]."""
    trial_run: bool = True
    """Begin each repeat with a run that does not count."""
    base_max_s: Seconds = 120.0
    """Longest wait for an operation without a fault [s]."""
    warm_up_s: Annotated[float, Field(ge=0, le=600)] = 10.0
    """Load on a newly started arm before anything counts [s]."""
    recover_max_s: Seconds = 60.0
    """Longest recovery after a fault; then the system is started anew [s]."""
    probe_gap_s: Annotated[float, Field(ge=0.01, le=60)] = 0.15
    """Time between two probes of a stream [s]."""
    probe_timeout_s: Seconds = 10.0
    """Time-out of a probe [s]."""
    pace_per_s: Annotated[float, Field(gt=0, le=1000)] | None = None
    """Largest rate of the row's operations; by default each follows the one before [1/s]."""
    endure: Endure | None = None
    """Continue the operation under a fault until a server dies."""
    rule: Rule = Rule()
    """Limits of the rule."""
    search: Search | None = None
    """Danger zones of one row, in place of `severities` and `crash`."""
    reference: str | None = None
    """Arm with the release as it is, if the other arms are remedies."""

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Scenarios of a node; each repeat draws its own order. Of a search, its ends."""
        if self.search is not None:
            return (self.search.scenario(self.search.low), self.search.scenario(self.search.high))
        return scenarios_of(self.severities, self.crash)

    def chosen_rows(self) -> tuple[Row, ...]:
        known = rows()
        return tuple(known[name] for name in self.rows)

    def scale_of(self, row: Row) -> float:
        return self.scales.get(row.name, self.scale)

    def count_of(self, row: Row) -> int:
        """Return the scaled number of operations; 0 if they have no end."""
        count = row.workload.count
        return 0 if count is None else max(1, round(count * self.scale_of(row)))

    def limit_s(self, row: Row, base_s: float) -> float:
        """Return the time-out of an operation under a fault, from the time of its base [s]."""
        if self.endure is not None:
            return self.endure.for_s
        factor_s = max(self.window_s_min, (self.timeout_factor or row.timeout_factor) * base_s)
        return min(factor_s, HELD_S_MAX)

    def check(self, design: Design) -> None:
        """Check the rows. Raises InputError if one is unknown, stated twice, or of a system that
        the fleet does not run."""
        known = rows()
        for name in self.rows:
            if name not in known:
                near = get_close_matches(name, known, n=1, cutoff=0.3)
                hint = f"Did you mean {near[0]}?" if near else "Name one of these."
                raise design.error("limplock.rows", f"one of {', '.join(known)}", name, hint)
        if self.search is not None:
            self._check_search(design, self.search)
        arms, longest = design.experiment.arms, self.timeout_factor
        unknown = sorted(
            self.scales.keys() - known
        )  # a row that is not run may have a scale: a suite selects rows
        checks: Iterable[Check] = (
            ("limplock.rows", len(set(self.rows)) < len(self.rows), "each row once",
             ", ".join(self.rows)),
            ("limplock.reference", self.reference not in (None, *arms),
             f"one of the arms {', '.join(arms)}", str(self.reference)),
            ("limplock.scales", bool(unknown), f"one of {', '.join(known)}", ", ".join(unknown)),
            ("limplock.severities", not self.scenarios, "one at least, or crash = true", "neither"),
            ("limplock.timeout_factor", longest is not None and longest <= self.rule.factor,
             f"more than {self.rule.factor:g}, the factor of [limplock.rule]: an operation that is "
             "cut by then could not be told to lock up", f"{longest}"),
        )  # fmt: skip
        design.refuse(checks)
        roles = {tier.role for tier in design.fleet.tiers.values()}
        for row in self.chosen_rows():
            if row.system not in roles:
                got = f"{row.name}, of {row.system}"
                expected = f"rows of what the tiers run ({', '.join(sorted(roles))})"
                raise design.error("limplock.rows", expected, got)
            role = design.roles[row.system]
            if not (role.directory / MODULE).is_file():
                expected = f"{MODULE} in the folder of role {row.system}, which asks it"
                raise design.error("limplock.rows", expected, "none", "Write it, or take it out.")
            adapter_of(role.directory).check(row)
            if self.endure is not None and row.workload.keys is None:
                expected = "rows of operations over so many `keys`, which can go on without end"
                raise design.error("limplock.endure", expected, row.name)
            tier = injected_tier(design, row)
            if self.search is not None and self.search.axis == "io_latency":
                self._check_pass_through(design, tier)

    def _check_search(self, design: Design, search: Search) -> None:
        repeats = design.experiment.design.repeats
        if idle := self.model_fields_set & {"severities", "crash", "reference", "endure"}:
            raise design.error(f"limplock.{sorted(idle)[0]}", "nothing beside search", "a value")
        if len(self.rows) > 1:
            raise design.error("limplock.rows", "one, as it is searched", ", ".join(self.rows))
        if repeats < _REPEATS_LEAST:
            expected = f"[design] repeats = {_REPEATS_LEAST} or more, without which nothing is told"
            raise design.error("limplock.search", expected, f"{repeats}")
        if problem := search.problem_of(self.chosen_rows()[0]):
            raise design.error("limplock.search", *problem)

    def _check_pass_through(self, design: Design, tier: str) -> None:
        """Check that each arm has the pass-through below its data, by which I/Os are delayed."""
        role = design.fleet.tiers[tier].role
        for name, arm in design.experiment.arms.items():
            got = arm.of(tier).role.get(PASS_THROUGH, "off")
            if got != "on":
                expected = f'{PASS_THROUGH} = "on" for tier {tier} in arm {name}'
                hint = (
                    f"Set it under [arms.{name}.settings]; role.json of {role} says if it has it."
                )
                raise design.error("limplock.search", expected, str(got), hint)
