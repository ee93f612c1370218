"""Machines that fail, and are replaced or repaired: time at full strength beside PCRAFT's model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.kinds.compare import CompareKind
from experiments.run.kind import NoSection

if TYPE_CHECKING:
    from rich.console import Console

    from core.runfiles.result import Result
    from experiments.record.result import Findings


class SchemesKind(CompareKind[NoSection]):
    """A comparison (of one arm, as a rule) with `[failover]` at work in its blocks."""

    name = "schemes"
    summary = "fail-over and repair of crashed machines, and time at full strength"
    replaces_machines = True

    def analyse(self, folder: Path) -> Findings:
        """Return the arms' figures, and `strength`."""
        from experiments.kinds.schemes.strength import strength_of

        found = super().analyse(folder)
        return replace(found, body={**found.body, "strength": strength_of(folder)})

    def write_page(self, folder: Path) -> Path:
        """Return the page of a comparison with a section on fail-over."""
        from experiments.kinds.schemes.page import write_page

        return write_page(folder)

    def print_result(self, result: Result, console: Console, page: Path) -> None:
        """Time at full strength, then what a comparison says."""
        from experiments.kinds.schemes.tables import strength_table
        from experiments.report.terminal import print_table

        print_table(strength_table(result[self.name]), console)
        super().print_result(result, console, page)

    def row(self, result: Result) -> Mapping[str, Any]:
        """Return the time of its tiers at full strength, where something follows from the run."""
        from experiments.kinds.schemes.tables import strength_words

        found = dict(super().row(result))
        words = strength_words(result[self.name]) if result["valid"] else {}
        if words:
            found.pop("arms", None)
        return {**words, **found}


KIND = SchemesKind()
