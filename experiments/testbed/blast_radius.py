"""Blast radius: the number of disturbed machines of a tier, and the admission of a further one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping


class BlastRadius:
    """Machines by how many injections hold them; thread-safe.

    Parameters: tiers, by machine (one of no tier does not count); most, of a tier at once, None
    for all.
    """

    def __init__(self, tiers: Mapping[str, str], most: int | None) -> None:
        self._tiers = tiers
        self._most = most
        self._held: Counter[str] = Counter()
        self._guard = threading.Lock()

    def take(self, machines: Collection[str]) -> bool:
        """Hold these machines, all or none of them; False where that would be too many."""
        with self._guard:
            after = Counter(self._tiers.get(name, "") for name in {*self._held, *machines})
            del after[""]
            touched = {self._tiers[name] for name in machines if name in self._tiers}
            if self._most is not None and any(after[tier] > self._most for tier in touched):
                return False
            self._held.update(set(machines))
            return True

    def give(self, machines: Collection[str]) -> None:
        """Release machines that an injection no longer disturbs."""
        with self._guard:
            self._held.subtract(set(machines))
            self._held = +self._held  # without the zeros

    @property
    def disturbed(self) -> frozenset[str]:
        """Machines that something is held on."""
        with self._guard:
            return frozenset(self._held)
