"""Sequential tests if a run of a fleet keeps the SLO with at least a given probability.

Each simulated run keeps it or not. At each of a few looks, the count of keeping runs is compared
with the binomial law at that probability, in both directions. The error is divided over all fleets
and looks (Bonferroni). With probability at least 1 - KEPT_ERROR, no fleet is called kept that keeps
the SLO less often. With probability at least 1 - BROKEN_ERROR, no fleet is called broken that keeps
it at least as often. The tests are exact for any number of runs, and need no independence between
fleets, so common random numbers are allowed. Sources: Clopper and Pearson 1934 for the tails; Kim
and Nelson 2006 for procedures that spend the error over fleets and looks. These assume normal
means; the share of runs that keep an SLO is not normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

KEPT_ERROR, BROKEN_ERROR = 0.03, 0.02
SELDOM_ERROR = 0.05  # of one fleet
LOOKS = (5, 10, 20, 40, 80, 160, 320)  # runs simulated of a fleet
_KEPT_LOOKS = (40, 80, 160, 320)  # looks at which a fleet may be called kept
FLEETS_MOST = 200
_FUTILE = 20  # least runs before a fleet is given up because it keeps the SLO too seldom


class Verdict(StrEnum):
    """The verdict on a fleet, or on a plan."""

    kept = "kept"
    broken = "broken"
    undecided = "undecided"


@dataclass(frozen=True)
class KeepingTest:
    """The test at one probability `confidence`, of at most FLEETS_MOST fleets."""

    confidence: float

    def verdict(self, kept_runs: int, runs: int) -> Verdict:
        """Return the verdict at a look after `runs` runs, of which `kept_runs` kept the SLO."""
        from scipy.special import bdtr, bdtrc

        p_kept = 1.0 if kept_runs == 0 else float(bdtrc(kept_runs - 1, runs, self.confidence))
        if runs in _KEPT_LOOKS and p_kept <= KEPT_ERROR / FLEETS_MOST / len(_KEPT_LOOKS):
            return Verdict.kept
        p_broken = float(bdtr(kept_runs, runs, self.confidence))
        is_rare = p_broken <= BROKEN_ERROR / FLEETS_MOST / len(LOOKS)
        return Verdict.broken if is_rare else Verdict.undecided

    def seldom(self, kept_runs: int, runs: int) -> bool:
        """True if the fleet keeps the SLO too seldom, with SELDOM_ERROR for it alone."""
        from scipy.special import bdtr

        return float(bdtr(kept_runs, runs, self.confidence)) <= SELDOM_ERROR

    def futile(self, kept_runs: int, runs: int) -> bool:
        """True if more runs are not worth their time, because too few have kept the SLO so far.

        This reduces the power of the test, and does not affect its guarantee."""
        return runs >= _FUTILE and kept_runs < self.confidence * runs
