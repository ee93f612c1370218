"""Time of an undo: from the moment it was asked for, by whatever asked for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.runfiles.result import read_result
from experiments.kinds.compare.page import write_report
from experiments.record.revert_time import revert_time_json
from experiments.report.revert_time import revert_time_words
from experiments.tests.report_fixture import event, fake_run

LEASE_S = 12.0


def _fault(
    number: int, at_s: float, end_s: float | None, asked_s: float | None
) -> list[dict[str, Any]]:
    more = {"machine": f"web-{number}", "id": f"f{number}"}
    found = [event(at_s, "fault", "net.limp", "inject", **more)]
    if end_s is not None:
        found.append(event(end_s, "fault", "net.limp", "revert", asked_s=asked_s, **more))
    return found


def test_the_worst_of_all_undos_is_told_with_its_machine() -> None:
    events = [*_fault(1, 1.0, 9.2, 9.0), *_fault(2, 2.0, 8.75, 8.0), *_fault(3, 3.0, 9.1, 9.0)]
    found = revert_time_json(events, None, LEASE_S)
    assert found == {
        "count": 3,
        "unconfirmed": 0,
        "worst": {"seconds": 0.75, "kind": "net.limp", "machine": "web-2"},
        "lease_s": LEASE_S,
    }
    words = revert_time_words(found)
    assert "0.750 s" in words
    assert "net.limp on web-2" in words
    assert "insufficient" in words
    assert "insufficient" not in revert_time_words({**found, "count": 10})


@pytest.mark.parametrize(
    ("at_s", "asked_s", "seconds"),
    [(9.0, 10.4, 2.0), (9.0, 8.5, 2.5), (12.0, 8.5, 2.5)],
    ids=["the runner heard later", "it was to end before", "it was over before"],
)
def test_a_stop_asks_from_its_own_time_on(at_s: float, asked_s: float, seconds: float) -> None:
    events = [*_fault(1, 1.0, 11.0, asked_s), *_fault(2, 1.0, 5.25, 5.0)]
    found = revert_time_json(events, {"by": "halt", "at_s": at_s}, LEASE_S)
    assert (found["count"], found["worst"]["seconds"]) == (2, seconds)


def test_what_was_never_confirmed_is_said() -> None:
    found = revert_time_json(
        [*_fault(1, 1.0, None, None), *_fault(2, 1.0, 5.0, 4.0)], None, LEASE_S
    )
    assert (found["count"], found["unconfirmed"]) == (1, 1)
    assert "Of 1 no undo was confirmed" in revert_time_words(found)
    lost = revert_time_json(_fault(1, 1.0, None, None), None, LEASE_S)
    assert lost["worst"] is None
    assert "Of 1 no undo was confirmed" in revert_time_words(lost)


def test_a_machine_that_its_scheme_mends_is_asked_of_by_a_stop_alone() -> None:
    events = [*_fault(1, 1.0, 6.0, None), *_fault(2, 7.0, 11.5, None)]
    assert revert_time_json(events, None, LEASE_S)["count"] == 0
    found = revert_time_json(events, {"by": "guard", "at_s": 10.0}, LEASE_S)
    assert (found["count"], found["worst"]["seconds"]) == (1, 1.5)


def test_the_report_says_it(tmp_path: Path) -> None:
    run = fake_run(seed=4, measure_s=20.0, rate_per_s=4.0)
    run.manifest["undone"] = revert_time_json(_fault(1, 1.0, 9.5, 9.0), None, LEASE_S)
    folder = run.write(tmp_path)
    assert revert_time_words(read_result(folder)["undone"]) in write_report(folder).read_text()


def test_without_injections_and_of_an_older_run() -> None:
    assert "nothing was injected" in revert_time_words(revert_time_json([], None, LEASE_S))
    assert revert_time_words(None) == ""
