"""Arms of one design, compared block by block. Begin with measure.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.kinds.kind import Kind
from experiments.report.text import factor, interval

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.record.result import Findings, Result
    from experiments.stage.stage import Stage


class CompareKind(Kind):
    """Interleaved blocks of arms, each pair on the same arrivals, neighbours and faults."""

    name = "compare"
    summary = "arms of one design, block by block, with improvement factors and a plan"

    def measure(self, stage: Stage, section: Any) -> None:
        """Every block of the design."""
        from experiments.kinds.compare.measure import measure

        del section
        measure(stage)

    def analyse(self, folder: Path) -> Findings:
        """Every figure of the arms; plan.json, simulated.json and histograms.json beside it."""
        from experiments.kinds.compare.analysis import analyse

        return analyse(folder)

    def write_page(self, folder: Path) -> Path:
        """Figures and tables of the arms."""
        from experiments.kinds.compare.page import write_report

        return write_report(folder)

    def print_result(self, result: Result, console: Console, page: Path) -> None:
        """Arms, factors, verdicts; then the sentences of the page's first screen."""
        from experiments.kinds.compare.folder import read_folder
        from experiments.kinds.compare.terminal import print_summary

        del result  # the folder has it
        print_summary(read_folder(page.parent), console, page)

    def figures(self, result: Result) -> Mapping[str, Any]:
        """Gains of the last arm, then what each arm's requests took."""
        body = result[result["kind"]]
        gains = {
            f"{what} gain": f"{factor(one['factor'])} ({interval(one['ci_low'], one['ci_high'])})"
            for what, one in (body.get("improvement") or {}).items()
            if one.get("factor") is not None and one.get("ci_low") is not None
        }
        arms = {
            f"{arm} {name}": one.get(name)
            for arm, one in body["arms"].items()
            for name in ("requests", "error_share", "p50_ms", "p95_ms", "p99_ms")
        }
        return {**gains, **arms}

    def row(self, result: Result) -> Mapping[str, Any]:
        """How many arms."""
        return {"arms": len(result[result["kind"]]["arms"])}


KIND = CompareKind()
