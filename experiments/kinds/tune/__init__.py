"""The replicator of sPARE (Alg. 1) on a live fleet. Read replicator.py first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.kinds.tune.section import TuneSection
from experiments.run.kind import Kind

if TYPE_CHECKING:
    from rich.console import Console

    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.record.result import Findings
    from experiments.testbed.testbed import Testbed


class TuneKind(Kind[TuneSection]):
    """The replication factors of every tier, found on the live fleet with a test at each step."""

    name = "tune"
    summary = "the replication factors, found on the live fleet (sPARE Alg. 1)"
    Section = TuneSection
    calibrates = True

    def check(self, design: Design, section: TuneSection) -> None:
        """The budget is for a test, the arm and the simulator are there."""
        from experiments.kinds.tune.measure import check

        check(design, section)

    def adapted(self, design: Design, section: TuneSection) -> Design:
        """An arm for every r, windows instead of phases, neighbours and no faults."""
        from experiments.kinds.tune.measure import tuning_design

        return tuning_design(design, section)

    def load_s(self, design: Design, section: TuneSection) -> None:
        """As many windows as it takes."""

    def measure(self, testbed: Testbed, section: TuneSection) -> None:
        """The search."""
        from experiments.kinds.tune.measure import Tuning

        Tuning(testbed, section).measure()

    def analyse(self, folder: Path) -> Findings:
        """The search as it was written down."""
        from experiments.kinds.tune.result import analyse

        return analyse(folder)

    def write_page(self, folder: Path) -> Path:
        """The trajectory as in sPARE Fig. 7."""
        from experiments.kinds.tune.page import write_page

        return write_page(folder)

    def print_result(self, result: Result, console: Console, page: Path) -> None:
        """Steps and answer."""
        from experiments.kinds.tune.page import print_tuning
        from experiments.record.result import flat

        print_tuning(flat(result), console, page)

    def row(self, result: Result) -> Mapping[str, Any]:
        """The chosen r."""
        return {"r": result[self.name]["chosen"]}


KIND = TuneKind()
