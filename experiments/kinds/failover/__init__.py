"""Fail-over as a client meets it, by strategy. Read measure.py first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.kinds.failover.section import FailoverSection
from experiments.run.kind import Kind

if TYPE_CHECKING:
    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.design.disturbance import Disturbance


class FailoverKind(Kind[FailoverSection]):
    """The server in use by a client is struck again and again (Lawrance et al., the seed on
    real-time fault tolerance)."""

    name = "failover"
    summary = "how long a client's call takes when its server dies, strategy by strategy"
    unguarded = (
        "no load is measured: clients call for a stated time, and one server fails at a time"
    )
    Section = FailoverSection
    measures = "measure.Blocks"
    needs_load = False

    def disturbs(self, design: Design, section: FailoverSection) -> Sequence[Disturbance]:
        """Return each fault, on the server in use."""
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
        from experiments.design.schedule import blocks

        return len(blocks(design.experiment)) * len(section.cases()) * section.block_s()

    def row(self, result: Result) -> Mapping[str, Any]:
        longest: dict[str, float] = {}
        for row in result[self.name]["rows"]:
            longest[row["arm"]] = max(longest.get(row["arm"], 0.0), row["max_ms"] or 0.0)
        return {f"{arm}, longest": f"{ms:.0f} ms" for arm, ms in longest.items()}


KIND = FailoverKind()
