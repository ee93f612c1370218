"""Capacity of one node: the load in steps, NodT, the knee. Read measure.py first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.kinds.capacity.section import CapacitySection
from experiments.run.kind import Kind

if TYPE_CHECKING:
    from rich.console import Console

    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.record.result import Findings
    from experiments.testbed.testbed import Testbed


class CapacityKind(Kind[CapacitySection]):
    """The load is raised step by step until p95 passes its limit (PCRAFT V.B)."""

    name = "capacity"
    summary = "what one node carries within a limit of p95, step by step (PCRAFT V.B)"
    Section = CapacitySection

    def check(self, design: Design, section: CapacitySection) -> None:
        """One node, nothing that disturbs it."""
        section.check(design)

    def load_s(self, design: Design, section: CapacitySection) -> None:
        """As many steps as it takes."""

    def measure(self, testbed: Testbed, section: CapacitySection) -> None:
        """Every sweep of every workload."""
        from experiments.kinds.capacity.measure import Sweeps

        Sweeps(testbed, section).measure()

    def analyse(self, folder: Path) -> Findings:
        """NodT, knee and cost of each workload."""
        from experiments.kinds.capacity.result import analyse

        return analyse(folder)

    def write_page(self, folder: Path) -> Path:
        """Latency and CPU against throughput."""
        from experiments.kinds.capacity.page import write_page

        return write_page(folder)

    def print_result(self, result: Result, console: Console, page: Path) -> None:
        """A line for each workload."""
        from experiments.kinds.capacity.page import print_capacity
        from experiments.record.result import flat

        print_capacity(flat(result), console, page)

    def levels(self, result: Result) -> Mapping[str, float]:
        """NodT of each workload [1/s], and the node's utilisation at it."""
        return {
            f"{figure}/{user}": float(value)
            for user, one in result[self.name]["workloads"].items()
            for figure, value in (
                ("nodt_per_s", (one["nodt_per_s"] or {}).get("value")),
                ("utilisation", one["utilisation"]),
            )
            if value is not None
        }

    def row(self, result: Result) -> Mapping[str, Any]:
        """NodT of each workload [1/s]."""
        found = result[self.name]["workloads"]
        return {user: (one["nodt_per_s"] or {}).get("value") for user, one in found.items()}


KIND = CapacityKind()
