"""A kind that counts to three, without a fleet. For tests only; nothing here measures anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.console import Narrator
from experiments.design import load_design
from experiments.paths import ROOT
from experiments.record.records import write_json
from experiments.record.result import Findings
from experiments.run.kind import Kind, NoSection
from experiments.run.lifecycle import Outcome, run_experiment
from experiments.testbed.guard import Stopped
from experiments.testbed.platforms import Platform, entry
from experiments.testbed.testbed import Testbed
from experiments.tests.quiet import NOBODY

SMALL = ROOT / "experiments" / "tests" / "designs" / "small"


class Counting(Kind[NoSection]):
    """Counts to three, and then does as it is told."""

    name = "counting"
    summary = "one, two, three"
    needs_fleet = False

    def __init__(self, then: Callable[[], object] = lambda: None, counts: bool = True) -> None:
        self.then = then
        self.counts = counts

    def measure(self, testbed: Testbed, section: NoSection) -> None:
        assert section == NoSection()
        numbers = [1, 2, 3] if self.counts else []

        def write(folder: Path) -> dict[str, Any] | None:
            write_json(folder / "seen.json", numbers)
            return {"counted": len(numbers)} if numbers else None

        testbed.keep(write)
        self.then()

    def analyse(self, folder: Path) -> Findings:
        manifest: Any = manifest_if_any(folder)
        return Findings({"counted": manifest["counted"]}, manifest["verdicts"])

    def write_page(self, folder: Path) -> Path:
        (folder / "report.html").write_text("counted")
        return folder / "report.html"


def carried_out(
    kind: Kind[NoSection],
    results: Path,
    platform: Platform | None = None,
    narrator: Narrator = NOBODY,
    **how: Any,
) -> Outcome:
    return run_experiment(
        kind, load_design(SMALL), NoSection(), results=results,
        platform=platform or entry("local").for_run("tst-small"),
        keep=False, command=["sparecraft", "run"], narrator=narrator, **how,
    )  # fmt: skip


def stopped(kind: Counting, results: Path) -> tuple[Stopped, dict[str, Any]]:
    """Carry out a run that something stops; return the error that ends it, and its result."""
    with pytest.raises(Stopped) as caught:
        carried_out(kind, results)
    return caught.value, read_result(results / "tst-small" / "counting" / "latest")
