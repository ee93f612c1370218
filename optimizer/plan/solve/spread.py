"""Spread of a tier's machines over domains: the best of all placements that the rules allow.

A placement costs nothing, and affects only the unavailability and the rules. So each option of a
tier gets the placement of least unavailability among all that keep the rules, and is left out if no
placement does. The search over options is unchanged, and its optimum is the optimum over options
and placements.

`survive` demands `needed` machines, standbys included, outside of any one domain. `needed` machines
keep the limits on utilisation, collision and latency, so these are kept without that domain, in all
tiers at once. Nothing cheaper is missed: if c of a fleet's n machines keep the limits, the fleet is
also an option with c needed machines and n - c extra ones, at the same cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from core.arrays import Floats, Ints, Mask
from core.tolerances import PROBABILITY_ROUNDING, U_FLOOR
from core.vocabulary import Mechanism, Scheme
from optimizer.availability import FailureRates, Level, lit_law, placements, sizes_at
from optimizer.availability.domains import moving_by_size, short_by_lit, stands_in
from optimizer.availability.placement import Placement
from optimizer.plan.solve.deadline import Check
from optimizer.plan.solve.options import Covers, Limits, Redundancy


@dataclass(frozen=True)
class Rule:
    """The demand of one level of domains on each tier, its standbys included.

    survive         with any one domain gone, as many machines as are needed are left
    max_per_domain  machines of the tier in one domain, at most
    min_domains     domains that have a machine of the tier, at least
    copies_apart    never all copies of a request in one domain: with r > 1, at most r - 1 machines
    """

    survive: bool = False
    max_per_domain: int | None = None
    min_domains: int | None = None
    copies_apart: bool = False

    def most(self, machines: int, replicas: int) -> int:
        """Return the most machines that one domain may have."""
        limit = machines if self.max_per_domain is None else min(machines, self.max_per_domain)
        return min(limit, replicas - 1) if self.copies_apart and replicas > 1 else limit

    def allowed(self, largest: Ints, used: Ints, machines: int, needed: int) -> Mask:
        """Return a mask of the allowed placements.

        Parameters: largest, machines of the fullest domain; used, number of domains with any.
        """
        mask: Mask = used >= (self.min_domains or 1)
        return mask & (machines - largest >= needed) if self.survive else mask


@dataclass(frozen=True)
class Spread:
    """A placement of a tier's machines, and the tier's unavailability with it."""

    placement: Placement
    unavailability: float


@dataclass(frozen=True, eq=False)
class _Placements:
    """All n placements of a number of machines.

    `domains`: per level, how many domains have 0, 1, 2, ... of the machines."""

    placements: tuple[Placement, ...]
    laws: Floats  # (n, machines + 1)
    domains: tuple[Ints, ...]  # of (n, machines + 1)

    def largest(self, level: int) -> Ints:
        """Return the machines of the fullest domain: (n,)."""
        sizes = np.arange(self.laws.shape[1])
        fullest: Ints = ((self.domains[level] > 0) * sizes).max(axis=1, initial=0)
        return fullest


class Spreads:
    """The best placement of any tier; `levels` from the widest, each with its rule."""

    def __init__(self, levels: Sequence[Level], rules: Sequence[Rule], scheme: str) -> None:
        self._levels, self._rules, self._scheme = tuple(levels), tuple(rules), scheme
        self._placements = cache(self._list_placements)

    def replica_key(self, replicas: int) -> int:
        """Return a key that is equal for numbers of replicas with the same allowed placements."""
        return replicas if any(rule.copies_apart for rule in self._rules) else 1

    def best(
        self, needed: int, extra: int, rates: FailureRates, mechanism: str, replicas: int
    ) -> Spread | None:
        """Return the most even of the placements with the least unavailability.

        None if the rules allow no placement. In the cloud a pool has no machines of its own to
        place, so `extra` does not count.
        """
        if mechanism == Mechanism.pf and self._scheme == Scheme.cloud:
            extra = 0
        machines = needed + extra
        most = tuple(rule.most(machines, self.replica_key(replicas)) for rule in self._rules)
        candidates = self._placements(machines, most)
        allowed = np.ones(len(candidates.placements), dtype=bool)
        for depth, rule in enumerate(self._rules):
            used = candidates.domains[depth].sum(axis=1)
            allowed &= rule.allowed(candidates.largest(depth), used, machines, needed)
        if not allowed.any():
            return None
        short = short_by_lit(needed, extra, rates, mechanism=mechanism, scheme=self._scheme)
        lost = candidates.laws @ short
        if stands_in(mechanism, self._scheme):
            for level, counts in zip(self._levels, candidates.domains, strict=True):
                lost += counts @ moving_by_size(needed, machines, rates, level)
        least = float(lost[allowed].min())
        equal = np.flatnonzero(allowed & (lost <= least * (1.0 + PROBABILITY_ROUNDING)))
        most_even = int(equal[candidates.largest(0)[equal].argmin()])
        return Spread(
            candidates.placements[most_even], min(1.0, max(float(lost[most_even]), U_FLOOR))
        )

    def _list_placements(self, machines: int, most: tuple[int, ...]) -> _Placements:
        all_placements = placements(self._levels, machines, most)
        laws = [lit_law(self._levels, placement) for placement in all_placements]
        counts = [
            [
                np.bincount(sizes_at(placement, level), minlength=machines + 1)
                for placement in all_placements
            ]
            for level in range(len(self._levels))
        ]
        shape = (len(all_placements), machines + 1)
        return _Placements(
            all_placements,
            np.array(laws).reshape(shape),
            tuple(np.array(level, dtype=np.int64).reshape(shape) for level in counts),
        )


class SpreadCovers(Covers):
    """Redundancies whose machines are placed as well as the rules allow."""

    def __init__(
        self,
        rates: FailureRates,
        scheme: str,
        limits: Limits,
        nodes_down: int,
        spreads: Spreads,
        check: Check,
        min_nodes: int,
    ) -> None:
        super().__init__(rates, scheme, limits, nodes_down, check, min_nodes=min_nodes)
        self._spreads = spreads

    def replica_key(self, replicas: int) -> int:
        return self._spreads.replica_key(replicas)

    def _find_worthwhile(
        self, needed: int, mechanism: str, rates: FailureRates, replicas: int
    ) -> Iterator[Redundancy]:
        """Yield each redundancy that is required, or better than all with fewer extra nodes."""
        most = self._limits.max_nodes - needed
        if mechanism == Mechanism.pf and self._scheme == Scheme.cloud:
            most = 0
        spared = self._required_extra(needed, mechanism)
        best = math.inf
        for extra in range(most + 1):
            self._check()
            spread = self._spreads.best(needed, extra, rates, mechanism, replicas)
            if spread is None:
                continue
            if spread.unavailability < best or extra <= spared:
                yield Redundancy(mechanism, extra, spread.unavailability)
            best = min(best, spread.unavailability)
            if best <= U_FLOOR and extra >= spared:
                return
