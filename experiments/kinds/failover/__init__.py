"""Fail-over as a client meets it, by strategy. Read measure.py first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.kinds.failover.section import FailoverSection
from experiments.run.kind import Kind

if TYPE_CHECKING:
    from rich.console import Console

    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.design.disturbance import Disturbance
    from experiments.record.result import Findings
    from experiments.testbed.testbed import Testbed


class FailoverKind(Kind[FailoverSection]):
    """The server that a client uses is struck again and again (Lawrance et al., the seed on
    real-time fault tolerance)."""

    name = "failover"
    summary = "how long a client's call takes when its server dies, strategy by strategy"
    unguarded = "no load is measured:clients call for a stated time, and one server fails at a time"
    Section = FailoverSection
    needs_load = False

    def check(self, design: Design, section: FailoverSection) -> None:
        """A tier whose role says how its clients are started, and a strategy for each arm."""
        section.check(design)

    def disturbs(self, design: Design, section: FailoverSection) -> Sequence[Disturbance]:
        """Each fault, on the server in use."""
        from experiments.design.disturbance import of_fault
        from experiments.design.schedule import blocks

        times = len(blocks(design.experiment)) * len(section.clients) * section.strikes
        return [
            {
                **of_fault(
                    fault.kind, fault.parameters, design.fleet.nodes_of(fault.tier or section.tier)
                ),
                "at_once": fault.servers,
                "when": f"{times} times, every {section.every_s:g} s, "
                + ("in turn" if fault.tier else "on the server in use"),
            }
            for fault in section.faults
        ]

    def load_s(self, design: Design, section: FailoverSection) -> float:
        """All blocks."""
        from experiments.design.schedule import blocks

        return len(blocks(design.experiment)) * len(section.cases()) * section.block_s()

    def measure(self, testbed: Testbed, section: FailoverSection) -> None:
        """Every block."""
        from experiments.kinds.failover.measure import Blocks

        Blocks(testbed, section).measure()

    def analyse(self, folder: Path) -> Findings:
        """Fail-over times, their parts and bounds."""
        from experiments.kinds.failover.analysis import analyse

        return analyse(folder)

    def write_page(self, folder: Path) -> Path:
        """Strategy by fault; each over time; the parts; the distribution."""
        from experiments.kinds.failover.page import write_page

        return write_page(folder)

    def print_result(self, result: Result, console: Console, page: Path) -> None:
        """The table, and the report's path."""
        from experiments.kinds.failover.page import print_failover
        from experiments.record.result import flat

        print_failover(flat(result), console, page)

    def row(self, result: Result) -> Mapping[str, Any]:
        """The longest fail-over of each arm."""
        longest: dict[str, float] = {}
        for row in result[self.name]["rows"]:
            longest[row["arm"]] = max(longest.get(row["arm"], 0.0), row["max_ms"] or 0.0)
        return {f"{arm}, longest": f"{ms:.0f} ms" for arm, ms in longest.items()}


KIND = FailoverKind()
