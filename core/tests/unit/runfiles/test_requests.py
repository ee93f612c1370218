"""Measured is with the faults; a plan is fitted to what was without them."""

from __future__ import annotations

import polars as pl

from core.runfiles.requests import measured, without_faults

PHASES = ["warm-up", "measure", "fault", "recovery"]


def test_measured_has_the_faults_and_not_the_warm_up() -> None:
    rows = pl.DataFrame({"phase": PHASES})
    assert measured(rows)["phase"].to_list() == PHASES[1:]
    assert without_faults(rows)["phase"].to_list() == ["measure"]


def test_a_run_of_other_phases_has_all_that_was_measured() -> None:
    rows = pl.DataFrame({"phase": ["warm-up", "fault"]})
    assert without_faults(rows)["phase"].to_list() == ["fault"]
