"""Machines in domains, written down once more: every state of a small tier, and a simulation."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from core.tolerances import U_FLOOR
from core.units import YEAR_S
from optimizer.availability import FailureRates, Level, lit_law, sizes_at
from optimizer.availability.domains import moving_by_size, short_by_lit, stands_in
from optimizer.availability.placement import Placement


@dataclass(frozen=True)
class Domain:
    """One domain by name, and the machines in it, whatever is between."""

    level: Level
    machines: frozenset[int]


def domains_of(levels: Sequence[Level], placement: Placement) -> list[Domain]:
    """List the domains that hold a machine; machines are numbered from the left."""
    domains: list[Domain] = []
    count = itertools.count()

    def walk(depth: int, content: Any) -> frozenset[int]:
        if isinstance(content, int):
            machines = frozenset(itertools.islice(count, content))
        else:
            machines = frozenset().union(*(walk(depth + 1, part) for part in content))
        domains.append(Domain(levels[depth], machines))
        return machines

    for content in placement:
        walk(0, content)
    return domains


def dark_machines(domains: Sequence[Domain], dark: Sequence[bool]) -> frozenset[int]:
    """Return the machines that are in at least one dark domain."""
    return frozenset().union(
        *(d.machines for d, is_dark in zip(domains, dark, strict=True) if is_dark), frozenset()
    )


def patterns(domains: Sequence[Domain]) -> Iterator[tuple[float, frozenset[int]]]:
    """The probability of every pattern of dark domains, and the machines that are dark then."""
    for dark in itertools.product((False, True), repeat=len(domains)):
        chances = [domain.level.dark if is_dark else 1.0 - domain.level.dark
                   for domain, is_dark in zip(domains, dark, strict=True)]  # fmt: skip
        yield float(np.prod(chances)), dark_machines(domains, dark)


def exact_active(
    needed: int, machines: int, rates: FailureRates, levels: Sequence[Level], placement: Placement,
    scheme: str,
) -> float:  # fmt: skip
    """Unavailability of active machines over a year: the chain of all domains and all machines.

    Domains start in their long run and all machines up. No common shocks.
    """
    from scipy.linalg import expm

    domains = domains_of(levels, placement)
    states = list(itertools.product((False, True), repeat=len(domains) + machines))
    index = {state: i for i, state in enumerate(states)}
    flows = np.zeros((len(states), len(states)))
    for state in states:
        for place, rate in _out_of(state, domains, machines, rates, scheme):
            after = (*state[:place], not state[place], *state[place + 1 :])
            flows[index[state], index[after]] += rate
            flows[index[state], index[state]] -= rate
    short, start = np.zeros(len(states)), np.zeros(len(states))
    for state, i in index.items():
        down = dark_machines(domains, state[: len(domains)])
        broken = {m for m in range(machines) if state[len(domains) + m]}
        short[i] = float(machines - len(down | broken) < needed)
        if not broken:
            start[i] = np.prod(
                [d.level.dark if is_dark else 1 - d.level.dark
                 for d, is_dark in zip(domains, state, strict=False)]
            )  # fmt: skip
    # the integral of exp(Q s) short over the year, by one exponential of a larger matrix
    larger = np.zeros((len(states) + 1, len(states) + 1))
    larger[:-1, :-1], larger[:-1, -1] = flows, short
    return float(start @ expm(larger)[:-1, -1])


def _out_of(
    state: tuple[bool, ...], domains: Sequence[Domain], machines: int, rates: FailureRates,
    scheme: str,
) -> Iterator[tuple[int, float]]:  # fmt: skip
    """Yield each component that may change next, and its rate a year."""
    for index, domain in enumerate(domains):
        yield (
            index,
            YEAR_S / domain.level.repair_s if state[index] else domain.level.failures_per_year,
        )
    broken = [m for m in range(machines) if state[len(domains) + m]]
    return_rate = 0.0
    if scheme == "cloud":
        return_rate = YEAR_S / rates.failover_s
    elif rates.repair_s is not None:
        return_rate = YEAR_S / rates.repair_s * min(len(broken), rates.repair_crew)
    for m in range(machines):
        down = m in broken
        yield len(domains) + m, return_rate / len(broken) if down else rates.crash_per_year


@dataclass
class Fleet:
    """A tier with a pool, machine by machine: what happens next is drawn.

    A crash is taken up by a lit standby, one after the other; so are, beside that, the machines of
    each dark domain. A domain that is lit again takes its machines back; those that stood in for
    them are standbys again. Broken machines are repaired where they stand.
    """

    needed: int
    rates: FailureRates
    domains: list[Domain]
    active: set[int]
    spare: set[int]
    broken: list[int] = field(default_factory=list)
    dark: list[bool] = field(default_factory=list)

    def lit(self) -> set[int]:
        """Machines in domains that are up."""
        down = dark_machines(self.domains, self.dark)
        return {m for m in self.active | self.spare if m not in down}

    def events(self) -> list[tuple[float, str, int]]:
        """List the possible next events: rate a year, kind, index of machine or domain."""
        lit, per_s = self.lit(), YEAR_S
        serving = self.active & lit
        events = [(self.rates.crash_per_year, "crash", m) for m in sorted(serving)]
        for i, domain in enumerate(self.domains):
            rate = per_s / domain.level.repair_s if self.dark[i] else domain.level.failures_per_year
            events.append((rate, "domain", i))
        standing_by = (self.spare & lit) - self.active
        if standing_by:
            empty = self.needed - len(self.active)
            if empty > 0:
                events.append((per_s / self.rates.failover_s, "start", min(standing_by)))
            for i, domain in enumerate(self.domains):
                dark_active = self.active & domain.machines
                if self.dark[i] and dark_active:
                    events.append((per_s / self.rates.failover_s, "move", i))
        if self.broken and self.rates.repair_s is not None:
            crew = min(len(self.broken), self.rates.repair_crew)
            events.append((crew * per_s / self.rates.repair_s, "repair", 0))
        return events

    def apply(self, what: str, which: int) -> None:
        """Change the state by one event: its kind, and its machine or domain."""
        if what == "crash":
            self.active.discard(which)
            self.broken.append(which)
        elif what == "domain":
            self.dark[which] = not self.dark[which]
        elif what == "repair":
            self.spare.add(self.broken.pop(0))
        else:
            if what == "move":
                gone = min(self.active & self.domains[which].machines)
                self.active.discard(gone)
                self.spare.add(gone)
                which = min((self.spare & self.lit()) - {gone})
            self.spare.discard(which)
            self.active.add(which)


def simulated_pool(
    needed: int, pool: int, rates: FailureRates, levels: Sequence[Level], placement: Placement,
    rng: random.Random, years: int,
) -> list[float]:  # fmt: skip
    """Simulate years that start with all machines up; return the share without `needed` of them."""
    domains, shares = domains_of(levels, placement), []
    machines = list(range(needed + pool))
    for _ in range(years):
        rng.shuffle(machines)  # which of them are active is nobody's choice
        dark = [rng.random() < domain.level.dark for domain in domains]
        fleet = Fleet(needed, rates, domains, set(machines[:needed]), set(machines[needed:]))
        fleet.dark = dark
        now, short = 0.0, 0.0
        while now < 1.0:
            events = fleet.events()
            step = min(rng.expovariate(sum(rate for rate, *_ in events)), 1.0 - now)
            if len(fleet.active & fleet.lit()) < needed:
                short += step
            now += step
            if now < 1.0:
                ((_, what, which),) = rng.choices(events, [rate for rate, *_ in events])
                fleet.apply(what, which)
        shares.append(short)
    return shares


def spread_unavailability(
    needed: int,
    extra: int,
    rates: FailureRates,
    levels: Sequence[Level],
    placement: Placement,
    *,
    mechanism: str,
    scheme: str,
) -> float:
    """Return the share of the year without `needed` machines up in lit domains, for one placement;
    `solve.spread` computes it for all placements at once."""
    short = short_by_lit(needed, extra, rates, mechanism=mechanism, scheme=scheme)
    unavailability = float(lit_law(levels, placement) @ short)
    if stands_in(mechanism, scheme):
        for depth, level in enumerate(levels):
            shares = moving_by_size(needed, needed + extra, rates, level)
            unavailability += float(shares[sizes_at(placement, depth)].sum())
    return min(1.0, max(unavailability, U_FLOOR))
