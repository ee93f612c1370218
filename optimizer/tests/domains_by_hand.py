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
    """All domains that hold a machine; machines are numbered from the left."""
    found: list[Domain] = []
    count = itertools.count()

    def walk(depth: int, content: Any) -> frozenset[int]:
        if isinstance(content, int):
            inside = frozenset(itertools.islice(count, content))
        else:
            inside = frozenset().union(*(walk(depth + 1, one) for one in content))
        found.append(Domain(levels[depth], inside))
        return inside

    for content in placement:
        walk(0, content)
    return found


def dark_machines(domains: Sequence[Domain], dark: Sequence[bool]) -> frozenset[int]:
    """Machines of which any domain is dark."""
    return frozenset().union(
        *(one.machines for one, off in zip(domains, dark, strict=True) if off), frozenset()
    )


def patterns(domains: Sequence[Domain]) -> Iterator[tuple[float, frozenset[int]]]:
    """The probability of every pattern of dark domains, and the machines that are dark then."""
    for dark in itertools.product((False, True), repeat=len(domains)):
        chances = [one.level.dark if off else 1.0 - one.level.dark
                   for one, off in zip(domains, dark, strict=True)]  # fmt: skip
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
    at = {state: i for i, state in enumerate(states)}
    flows = np.zeros((len(states), len(states)))
    for state in states:
        for place, rate in _out_of(state, domains, machines, rates, scheme):
            after = (*state[:place], not state[place], *state[place + 1 :])
            flows[at[state], at[after]] += rate
            flows[at[state], at[state]] -= rate
    short, start = np.zeros(len(states)), np.zeros(len(states))
    for state, i in at.items():
        down = dark_machines(domains, state[: len(domains)])
        broken = {m for m in range(machines) if state[len(domains) + m]}
        short[i] = float(machines - len(down | broken) < needed)
        if not broken:
            start[i] = np.prod(
                [d.level.dark if off else 1 - d.level.dark
                 for d, off in zip(domains, state, strict=False)]
            )  # fmt: skip
    # the integral of exp(Q s) short over the year, by one exponential of a larger matrix
    larger = np.zeros((len(states) + 1, len(states) + 1))
    larger[:-1, :-1], larger[:-1, -1] = flows, short
    return float(start @ expm(larger)[:-1, -1])


def _out_of(
    state: tuple[bool, ...], domains: Sequence[Domain], machines: int, rates: FailureRates,
    scheme: str,
) -> Iterator[tuple[int, float]]:  # fmt: skip
    """The next changes, and their rates a year."""
    for index, one in enumerate(domains):
        yield index, YEAR_S / one.level.repair_s if state[index] else one.level.failures_per_year
    broken = [m for m in range(machines) if state[len(domains) + m]]
    back = 0.0
    if scheme == "cloud":
        back = YEAR_S / rates.failover_s
    elif rates.repair_s is not None:
        back = YEAR_S / rates.repair_s * min(len(broken), rates.repair_crew)
    for m in range(machines):
        down = m in broken
        yield len(domains) + m, back / len(broken) if down else rates.crash_per_year


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
        """(rate a year, what, of which) of all that may happen next."""
        lit, per_s = self.lit(), YEAR_S
        serving = self.active & lit
        found = [(self.rates.crash_per_year, "crash", m) for m in sorted(serving)]
        for i, one in enumerate(self.domains):
            rate = per_s / one.level.repair_s if self.dark[i] else one.level.failures_per_year
            found.append((rate, "domain", i))
        standing_by = (self.spare & lit) - self.active
        if standing_by:
            empty = self.needed - len(self.active)
            if empty > 0:
                found.append((per_s / self.rates.failover_s, "start", min(standing_by)))
            for i, one in enumerate(self.domains):
                here = self.active & one.machines
                if self.dark[i] and here:
                    found.append((per_s / self.rates.failover_s, "move", i))
        if self.broken and self.rates.repair_s is not None:
            crew = min(len(self.broken), self.rates.repair_crew)
            found.append((crew * per_s / self.rates.repair_s, "repair", 0))
        return found

    def apply(self, what: str, which: int) -> None:
        """Let it happen."""
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
    """The share of each year, from all machines whole, in which fewer than `needed` serve."""
    domains, shares = domains_of(levels, placement), []
    machines = list(range(needed + pool))
    for _ in range(years):
        rng.shuffle(machines)  # which of them are active is nobody's choice
        dark = [rng.random() < one.level.dark for one in domains]
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
    """Share of the year without `needed` machines up in domains that are up, of one placement: as
    `solve.spread` has it of all at once."""
    short = short_by_lit(needed, extra, rates, mechanism=mechanism, scheme=scheme)
    found = float(lit_law(levels, placement) @ short)
    if stands_in(mechanism, scheme):
        for depth, level in enumerate(levels):
            shares = moving_by_size(needed, needed + extra, rates, level)
            found += float(shares[sizes_at(placement, depth)].sum())
    return min(1.0, max(found, U_FLOOR))
