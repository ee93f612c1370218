"""The replicator of sPARE (Alg. 1) on a live fleet. Read replicator.py first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.kinds.tune.section import TuneSection
from experiments.run.kind import Kind

if TYPE_CHECKING:
    from core.runfiles.result import Result
    from experiments.design import Design


class TuneKind(Kind[TuneSection]):
    """The replication factors of every tier, found on the live fleet with a test at each step."""

    name = "tune"
    summary = "the replication factors, found on the live fleet (sPARE Alg. 1)"
    Section = TuneSection
    measures = "measure.Tuning"
    is_open_ended = True
    analyses = "result.analyse"
    calibrates = True

    def check(self, design: Design, section: TuneSection) -> None:
        """Check that the budget is enough for a test, and that the arm and the simulator exist."""
        from experiments.kinds.tune.measure import check

        check(design, section)

    def adapted(self, design: Design, section: TuneSection) -> Design:
        """Return an arm for every r, windows instead of phases, neighbours and no faults."""
        from experiments.kinds.tune.measure import tuning_design

        return tuning_design(design, section)

    def row(self, result: Result) -> Mapping[str, Any]:
        return {"r": result[self.name]["chosen"]}


KIND = TuneKind()
