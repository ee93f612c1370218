"""Bit flips in programs, and their outcomes by variant. Read measure.py first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.kinds.bitflips.section import BitflipsSection
from experiments.run.kind import Kind

if TYPE_CHECKING:
    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.testbed.platforms import Platform


class BitflipsKind(Kind[BitflipsSection]):
    """One bit of one result of a run is flipped, again and again (PCRAFT V, Table I; HAFT)."""

    name = "bitflips"
    summary = "what a flipped bit does to a program as it is, and hardened (PCRAFT Table I)"
    unguarded = (
        "nothing is disturbed but a program that is struck once a run, "
        "under a time limit of its own"
    )
    Section = BitflipsSection
    measures = "measure.Campaign"
    needs_fleet = False
    needs_load = False

    def check_host(self, design: Design, section: BitflipsSection, platform: Platform) -> None:
        """Check that the hardening compiler exists or can be built."""
        from experiments.kinds.bitflips.build import make_compiler

        del design, section, platform
        make_compiler()

    def row(self, result: Result) -> Mapping[str, Any]:
        from experiments.report.text import percent

        pooled = result[self.name]["pooled"]
        return {f"{row['variant']}, silent": percent(row["shares"]["silent"]) for row in pooled}


KIND = BitflipsKind()
