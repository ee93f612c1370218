"""Bit flips in programs, and their outcomes by variant. Read measure.py first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.kinds.bitflips.section import BitflipsSection
from experiments.run.kind import Kind

if TYPE_CHECKING:
    from rich.console import Console

    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.record.result import Findings
    from experiments.testbed.platforms import Platform
    from experiments.testbed.testbed import Testbed


class BitflipsKind(Kind[BitflipsSection]):
    """One bit of one result of a run is flipped, again and again (PCRAFT V, Table I; HAFT)."""

    name = "bitflips"
    summary = "what a flipped bit does to a program as it is, and hardened (PCRAFT Table I)"
    unguarded = (
        "nothing is disturbed but a program that is struck once a run, "
        "under a time limit of its own"
    )
    Section = BitflipsSection
    needs_fleet = False
    needs_load = False

    def check_host(self, design: Design, section: BitflipsSection, platform: Platform) -> None:
        """The hardening compiler is there, or can be made."""
        from experiments.kinds.bitflips.build import make_compiler

        del design, section, platform
        make_compiler()

    def measure(self, testbed: Testbed, section: BitflipsSection) -> None:
        """Every injection into every program and variant, then the price in speed."""
        from experiments.kinds.bitflips.measure import Campaign

        Campaign(testbed, section).measure()

    def analyse(self, folder: Path) -> Findings:
        """Shares of outcomes with intervals, per program and pooled."""
        from experiments.kinds.bitflips.analysis import analyse

        return analyse(folder)

    def write_page(self, folder: Path) -> Path:
        """Bars of outcomes, where silent ones came from, the price, Table I beside ours."""
        from experiments.kinds.bitflips.page import write_page

        return write_page(folder)

    def print_result(self, result: Result, console: Console, page: Path) -> None:
        """The pooled table, and the report's path."""
        from experiments.kinds.bitflips.page import print_bitflips
        from experiments.record.result import flat

        print_bitflips(flat(result), console, page)

    def row(self, result: Result) -> Mapping[str, Any]:
        """Silent corruptions of each variant."""
        from experiments.report.text import percent

        pooled = result[self.name]["pooled"]
        return {f"{one['variant']}, silent": percent(one["shares"]["silent"]) for one in pooled}


KIND = BitflipsKind()
