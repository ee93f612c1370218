"""Machines that fail, and are replaced or repaired: time at full strength beside PCRAFT's model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.kinds.compare import CompareKind
from experiments.run.kind import NoSection

if TYPE_CHECKING:
    from core.runfiles.result import Result


class SchemesKind(CompareKind[NoSection]):
    """A comparison (of one arm, as a rule) with `[failover]` at work in its blocks."""

    name = "schemes"
    summary = "fail-over and repair of crashed machines, and time at full strength"
    replaces_machines = True
    analyses = "strength.analyse"
    prints = "page.print_result"

    def row(self, result: Result) -> Mapping[str, Any]:
        from experiments.kinds.schemes.tables import strength_shares

        row = dict(super().row(result))
        shares = strength_shares(result[self.name]) if result["valid"] else {}
        if shares:
            row.pop("arms", None)
        return {**shares, **row}


KIND = SchemesKind()
