"""[[domains]] of plan.toml: zones, racks and hosts, which fail as a whole, and their use by tiers.

From the widest to the narrowest, each `count` times in every domain of the previous level. The
failure rate of a domain is stated directly, or as the share `beta` of a machine's crashes that its
domain causes (the other crashes are then correspondingly rarer).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated

from pydantic import Field, model_validator

from core.config_file import Positive, Problem, Seconds, Strict, Text, named_twice, refusal
from optimizer.availability import FailureRates, Level
from optimizer.plan.solve.deadline import Check, unbounded
from optimizer.plan.solve.options import NODES_MAX, Covers, Limits, TierDemand, rates_of
from optimizer.plan.solve.spread import Rule, SpreadCovers, Spreads

Count = Annotated[int, Field(ge=1, le=10_000)]


class Domain(Strict):
    """One of [[domains]]. `source`: where the failure figures are from."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,18}$")]
    count: Count
    failures_per_year: Positive | None = None
    beta: Annotated[float, Field(gt=0, lt=1)] | None = None
    repair_s: Seconds
    source: Text
    max_per_domain: Annotated[int, Field(ge=1, le=NODES_MAX)] | None = None
    min_domains: Annotated[int, Field(ge=2, le=NODES_MAX)] | None = None
    copies_apart: bool = False
    survive: bool = False

    @model_validator(mode="after")
    def _can_be(self) -> Domain:
        if (self.failures_per_year is None) == (self.beta is None):
            got = "neither" if self.beta is None else "both"
            raise refusal("failures_per_year or beta", got=got)
        return self

    @property
    def rule(self) -> Rule:
        """The rules for a tier's machines in domains of this kind."""
        return Rule(self.survive, self.max_per_domain, self.min_domains, self.copies_apart)

    def level(self, crash_per_year: float) -> Level:
        """Return the domain as the availability model takes it."""
        per_year = self.failures_per_year
        if per_year is None:
            assert self.beta is not None
            per_year = self.beta * crash_per_year
        return Level(self.name, self.count, per_year, self.repair_s)


def spreads_of(domains: Sequence[Domain], rates: FailureRates, scheme: str) -> Spreads:
    """Return the placements over these domains."""
    levels = tuple(domain.level(rates.crash_per_year) for domain in domains)
    return _spreads(levels, tuple(domain.rule for domain in domains), scheme)


@lru_cache(maxsize=8)  # each one stores its placements, up to ten thousand
def _spreads(levels: tuple[Level, ...], rules: tuple[Rule, ...], scheme: str) -> Spreads:
    return Spreads(levels, rules, scheme)


def covers_of(
    domains: Sequence[Domain],
    rates: FailureRates,
    scheme: str,
    limits: Limits,
    nodes_down: int,
    demand: TierDemand,
    check: Check = unbounded,
) -> Covers:
    """Return the mechanisms that may cover a tier's failures, with placements if it has domains."""
    tier_rates, least = rates_of(own_rates(domains, rates), demand=demand), demand.min_nodes
    if not domains:
        return Covers(tier_rates, scheme, limits, nodes_down, check, demand.state, least)
    spreads = spreads_of(domains, rates, scheme)
    return SpreadCovers(tier_rates, scheme, limits, nodes_down, spreads, check, least)


def own_rates(domains: Sequence[Domain], rates: FailureRates) -> FailureRates:
    """Return the machines' rates without the crashes that their domains cause."""
    own_share = 1.0 - math.fsum(domain.beta for domain in domains if domain.beta is not None)
    return replace(rates, crash_per_year=rates.crash_per_year * own_share)


def problems_of(domains: Sequence[Domain], limp_per_year: object) -> Iterator[Problem]:
    """Yield errors of the list as a whole."""
    yield from named_twice([domain.name for domain in domains], "domains")
    existing = 1
    for number, domain in enumerate(domains):
        existing *= domain.count
        if domain.min_domains is not None and domain.min_domains > existing:
            expected = f"at most the {existing} that there are"
            yield Problem(("domains", number, "min_domains"), expected, str(domain.min_domains))
        if domain.survive and existing == 1:
            yield Problem(("domains", number, "survive"), "it where there are two", "one domain")
    shares = math.fsum(domain.beta for domain in domains if domain.beta is not None)
    if shares >= 1.0:
        yield Problem(("domains",), "shares beta of the crashes below 1 together", f"{shares:g}")
    if domains and limp_per_year:
        yield Problem(
            ("domains",), "it without [rates] limp_per_year: they are not modelled together",
            "both", "Leave one out.",
        )  # fmt: skip
