"""Sequential tests of a fleet: if a run of it keeps the SLO with at least a given probability.

Each simulated run keeps it or not. At each of a few looks the count of keeping runs is compared
with the binomial law at that probability, both ways, with the error divided over all fleets and
looks (Bonferroni): with probability 1 - KEPT_ERROR at least no fleet is called kept that keeps it
less often, and with 1 - BROKEN_ERROR at least none is called broken that keeps it at least as
often. The tests are exact for any number of runs, and need no independence between fleets, so that
common random numbers are allowed. Sources: Clopper and Pearson 1934 for the tails; Kim and Nelson
2006 for procedures that spend the error over fleets and looks. Theirs take means for normal; the
share of runs that keep an SLO is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

KEPT_ERROR, BROKEN_ERROR = 0.03, 0.02
LOOKS = (5, 10, 20, 40, 80, 160, 320)  # runs simulated of a fleet
_KEPT_LOOKS = (40, 80, 160, 320)  # at which one may be called kept
FLEETS_MOST = 200
_FUTILE = 20  # runs from which on a fleet is given up that does worse than it has to


class Verdict(StrEnum):
    """A fleet's, or a plan's."""

    kept = "kept"
    broken = "broken"
    undecided = "undecided"


@dataclass(frozen=True)
class KeepingTest:
    """The test at one probability `confidence`, of at most so many `fleets`."""

    confidence: float
    fleets: int = FLEETS_MOST

    def verdict(self, kept: int, of: int) -> Verdict:
        """At a look after `of` runs of which `kept` kept the SLO."""
        from scipy.special import bdtr, bdtrc

        as_many = 1.0 if kept == 0 else float(bdtrc(kept - 1, of, self.confidence))
        if of in _KEPT_LOOKS and as_many <= KEPT_ERROR / self.fleets / len(_KEPT_LOOKS):
            return Verdict.kept
        as_few = float(bdtr(kept, of, self.confidence))
        is_rare = as_few <= BROKEN_ERROR / self.fleets / len(LOOKS)
        return Verdict.broken if is_rare else Verdict.undecided

    def futile(self, kept: int, of: int) -> bool:
        """True if more runs are not worth their time: fewer keep it than have to. This gives up
        power, and takes nothing from the guarantee."""
        return of >= _FUTILE and kept < self.confidence * of
