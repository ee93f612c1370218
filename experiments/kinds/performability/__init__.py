"""Users' view of each fault, by phase, and of a year of faults. Read phases.py first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.kinds.performability.section import FILLED_PER_S, PerformabilitySection
from experiments.run.kind import Kind

if TYPE_CHECKING:
    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.design.disturbance import Disturbance
    from experiments.testbed.testbed import Testbed


class PerformabilityKind(Kind[PerformabilitySection]):
    """Each of the design's faults alone in a block, on every arm, repeat by repeat."""

    name = "performability"
    summary = "what users get under each fault, phase by phase, and in a year of them"
    Section = PerformabilitySection

    def disturbs(self, design: Design, section: PerformabilitySection) -> Sequence[Disturbance]:
        """Return the operator's restarts where a tier does not recover."""
        return section.restarts(design)

    def load_s(self, design: Design, section: PerformabilitySection) -> float:
        """Return the length of the load [s], with a block for each fault in place of one block."""
        experiment = design.experiment
        settle_s = experiment.phases.settle
        one_fault_s = super().load_s(design, section) or 0.0
        blocks_s = (one_fault_s - settle_s) * len(experiment.faults)
        rests = experiment.design.repeats * len(experiment.design.order) * len(experiment.faults)
        fill_s = section.fill.requests / FILLED_PER_S if section.fill else 0.0
        return settle_s + blocks_s + rests * (section.rest_s + fill_s)

    def measure(self, testbed: Testbed, section: PerformabilitySection) -> None:
        from experiments.kinds.performability.measure import measure

        measure(testbed, section)

    def row(self, result: Result) -> Mapping[str, Any]:
        longest_s: dict[str, float] = {}
        for fault in result[self.name]["faults"]:
            for arm, figures in fault["arms"].items():
                longest_s[arm] = max(longest_s.get(arm, 0.0), figures["failure_s"]["median"])
        return {f"{arm}, longest failure": f"{seconds:.1f} s" for arm, seconds in longest_s.items()}


KIND = PerformabilityKind()
