"""Limplock due to a slow card or disk, by row of the paper's Table 1.

Read judge/rule.py first, then measure/blocks.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.kinds.limplock.section import LimplockSection
from experiments.run.kind import Kind

if TYPE_CHECKING:
    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.design.disturbance import Disturbance
    from experiments.testbed.platforms import Platform


class LimplockKind(Kind[LimplockSection]):
    """Rows of limpbench (Do et al., SoCC 2013): one part limps, and the slowdown is measured."""

    name = "limplock"
    summary = "which limplock a slow card or disk leads to: operation, node, cluster (Do et al.)"
    unguarded = (
        "no load is measured: "
        "every operation ends at its limit, and one machine of a tier limps at a time"
    )
    Section = LimplockSection
    is_open_ended = True
    measures = "measure.blocks.Rows"
    analyses = "judge.result.analyse"
    draws = "page.report.write_page"
    prints = "page.report.print_result"
    needs_load = False

    def check_host(self, design: Design, section: LimplockSection, platform: Platform) -> None:
        """Check the memory for all machines and clients, if the machines are on this host."""
        from experiments.kinds.limplock.dry_run import check_memory

        del section
        if platform.on_this_host:
            check_memory(design)

    def disturbs(self, design: Design, section: LimplockSection) -> Sequence[Disturbance]:
        """Return each scenario of each row, on one machine at a time."""
        from experiments.kinds.limplock.dry_run import disturbances

        return disturbances(design, section)

    def row(self, result: Result) -> Mapping[str, Any]:
        """Operation, node and cluster of each row at its worst, as letters."""
        return dict(result[self.name]["letters"])


KIND = LimplockKind()
