"""Blast radius: the number of disturbed machines of a tier, and the admission of a further one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping


class BlastRadius:
    """Machines by how many injections hold them; thread-safe.

    Parameters: tiers, by machine (a machine of no tier does not count); per_tier_max, the most
    machines of a tier that may be disturbed at once, None for all.
    """

    def __init__(self, tiers: Mapping[str, str], per_tier_max: int | None) -> None:
        self._tiers = tiers
        self._per_tier_max = per_tier_max
        self._holds: Counter[str] = Counter()
        self._guard = threading.Lock()

    def take(self, machines: Collection[str]) -> bool:
        """Hold these machines, all or none of them; returns False if that would be too many."""
        with self._guard:
            counts = Counter(self._tiers.get(name, "") for name in {*self._holds, *machines})
            del counts[""]
            tiers = {self._tiers[name] for name in machines if name in self._tiers}
            if self._per_tier_max is not None and any(
                counts[tier] > self._per_tier_max for tier in tiers
            ):
                return False
            self._holds.update(set(machines))
            return True

    def give(self, machines: Collection[str]) -> None:
        """Release machines that an injection no longer disturbs."""
        with self._guard:
            self._holds.subtract(set(machines))
            self._holds = +self._holds  # without the zeros

    @property
    def disturbed(self) -> frozenset[str]:
        """Machines that an injection holds."""
        with self._guard:
            return frozenset(self._holds)
