"""Capacity of one node: the load in steps, NodT, the knee. Read measure.py first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.kinds.capacity.section import CapacitySection
from experiments.run.kind import Kind

if TYPE_CHECKING:
    from core.runfiles.result import Result


class CapacityKind(Kind[CapacitySection]):
    """The load is raised step by step until p95 passes its limit (PCRAFT V.B)."""

    name = "capacity"
    summary = "what one node carries within a limit of p95, step by step (PCRAFT V.B)"
    Section = CapacitySection
    measures = "measure.Sweeps"
    is_open_ended = True
    analyses = "result.analyse"

    def levels(self, result: Result) -> Mapping[str, float]:
        return {
            f"{figure}/{user}": float(value)
            for user, workload in result[self.name]["workloads"].items()
            for figure, value in (
                ("nodt_per_s", (workload["nodt_per_s"] or {}).get("value")),
                ("utilisation", workload["utilisation"]),
            )
            if value is not None
        }

    def row(self, result: Result) -> Mapping[str, Any]:
        workloads = result[self.name]["workloads"]
        return {
            user: (workload["nodt_per_s"] or {}).get("value")
            for user, workload in workloads.items()
        }


KIND = CapacityKind()
