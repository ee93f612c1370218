"""Sizes of faults, and the times of their undos."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from core.errors import EnvironmentMissing
from core.runfiles.result import read_result
from experiments.kinds.compare.page import write_page
from experiments.record.dose import dose_of, dose_reasons, doses_json
from experiments.record.revert_time import revert_time_json
from experiments.report.doses import dose_table, dose_words
from experiments.report.revert_time import revert_time_words
from experiments.testbed.downtime import DowntimeMeter, Looks
from experiments.testbed.faults import Tally
from experiments.testbed.schemes.journal import Journal
from experiments.tests.report_fixture import FakeRun, dose, event, fake_run
from experiments.tests.started import LIMIT_S

LIMP = dose(2.0, 2.01, True, "Mbit/s")
NO_LIMP = dose(2.0, 198.0, False, "Mbit/s")
TOO_SHORT = dose(2.0, None, None, "Mbit/s", 0.1)


def reverts(*doses: Any, machine: str = "web-1", **more: Any) -> list[dict[str, Any]]:
    return [
        event(float(at), "fault", "net.limp", "revert", machine=machine, dose=dose_json, **more)
        for at, dose_json in enumerate(doses)
    ]


def test_a_row_holds_the_mean_over_the_time_measured() -> None:
    long = dose(2.0, 2.2, True, "Mbit/s", 15.0)
    [row] = doses_json(reverts(long, dose(2.0, 1.8, True, "Mbit/s", 5.0)))
    assert (row["kind"], row["machine"], row["unit"]) == ("net.limp", "web-1", "Mbit/s")
    assert row["measured"] == pytest.approx(2.1)
    assert (row["answers"]["bit"], row["seconds"]) == (2, 20.0)
    [thin] = doses_json(reverts(LIMP, dose(2.0, 9.0, None, "Mbit/s")))
    assert thin["measured"] == pytest.approx(2.01)


def test_each_machine_has_a_row_and_what_a_block_set_aside_had_does_not_count() -> None:
    events = reverts(LIMP) + reverts(LIMP, machine="web-2") + reverts(NO_LIMP, repeat=3)
    events.append(event(9.0, "block", "a", "spoiled", repeat=3))
    assert [row["machine"] for row in doses_json(events)] == ["web-1", "web-2"]
    assert dose_reasons(doses_json(events)) == []


def test_one_that_did_not_bite_is_named_with_what_was_asked_and_measured() -> None:
    [reason] = dose_reasons(doses_json(reverts(LIMP, NO_LIMP, TOO_SHORT)))
    for part in ("net.limp on web-1", "2 Mbit/s", "198 Mbit/s", "1 of 3"):
        assert part in reason
    past = {**dose(2.0, 2.0, False, "Mbit/s"), "problem": "past its bucket"}
    assert dose_reasons(doses_json(reverts(past)))[0].endswith("past its bucket")


def test_thin_evidence_alone_is_against_a_run_and_beside_a_bite_it_is_not() -> None:
    assert len(dose_reasons(doses_json(reverts(TOO_SHORT, TOO_SHORT)))) == 1
    assert dose_reasons(doses_json(reverts(TOO_SHORT, LIMP))) == []


def test_what_nobody_measured_says_nothing() -> None:
    rows = doses_json(reverts(None, None))
    assert dose_reasons(rows) == []
    assert rows[0]["answers"]["not measured"] == 2
    assert "not measured" in dose_words(rows)
    rows_without_dose = [
        {key: value for key, value in line.items() if key != "dose"} for line in reverts(LIMP)
    ]
    assert doses_json(rows_without_dose)[0]["answers"]["not measured"] == 1


def test_an_agent_leaves_out_what_it_does_not_know() -> None:
    answer_of_agent = {"unit": "%", "how": "so", "samples": 1, "seconds": 0.0, "problem": "none"}
    parsed_dose = dose_of(answer_of_agent)
    assert parsed_dose is not None
    assert (parsed_dose["asked"], parsed_dose["measured"], parsed_dose["bit"]) == (None, None, None)
    assert dose_of(None) is None


def with_limp(run: FakeRun, new_dose: Any) -> FakeRun:
    """Replace the dose of the run's first net.limp."""
    limps = (e for e in run.events if e["kind"] == "net.limp" and e["action"] == "revert")
    next(limps)["dose"] = new_dose
    return run


def test_a_run_whose_faults_bit_is_valid_and_one_that_did_not_makes_it_not(tmp_path: Path) -> None:
    good = read_result(fake_run().write(tmp_path / "good"))
    assert good["valid"]
    bad = read_result(with_limp(fake_run(), NO_LIMP).write(tmp_path / "bad"))
    assert not bad["valid"]
    assert not bad["verdicts"]["injection"]["ok"]
    [reason] = bad["verdicts"]["injection"]["reasons"]
    assert "net.limp on web-2" in reason
    thin = read_result(with_limp(fake_run(), TOO_SHORT).write(tmp_path / "thin"))
    assert thin["valid"]


def test_the_report_shows_asked_against_measured(tmp_path: Path) -> None:
    folder = with_limp(fake_run(), NO_LIMP).write(tmp_path / "run")
    page = write_page(folder).read_text()
    assert 'id="dose-table"' in page
    rows = read_result(folder)["compare"]["faults"]["doses"]
    table = dose_table(rows)
    assert table is not None
    first_row = [cell.text for cell in table.rows[0]]
    assert first_row[:4] == ["net.limp", "web-2", "2.00 Mbit/s", "198 Mbit/s"]
    assert table.rows[0][-1].mood == "bad"
    assert " bit" not in dose_words(rows), "which a reader takes for a unit"
    assert f"<summary>{dose_words(rows)}</summary>" in page


def test_a_run_without_faults_shows_no_dose() -> None:
    assert dose_words([]) == ""
    assert dose_table([]) is None


def looks(*samples: tuple[float, float | None]) -> Looks:
    """Return looks at these times, with the uptime of an agent that answered; power went at 0."""
    all_ = Looks(since=0.0)
    for at, uptime_s in samples:
        all_.add(at, uptime_s)
    return all_


def test_a_machine_that_falls_silent_was_struck_and_its_silence_is_measured() -> None:
    silence = looks((0.1, None), (1.1, None), (2.1, None)).dose(2.5)
    assert (silence["asked"], silence["bit"]) == (2.5, True)
    assert silence["measured"] == pytest.approx(2.0)
    assert looks((0.1, None)).dose(0.5)["bit"] is True


def test_a_machine_that_was_started_again_was_struck_and_one_that_goes_on_was_not() -> None:
    assert looks((0.8, 0.2), (1.8, 1.2)).dose(None)["bit"] is True
    goes_on = looks((0.1, 50.1), (1.1, 51.1), (2.2, 52.2)).dose(2.5)
    assert (goes_on["bit"], goes_on["measured"]) == (False, 0.0)
    assert looks((0.1, 50.1), (1.1, 51.1)).dose(1.5)["bit"] is None
    assert looks().dose(1.0)["measured"] is None


class Slow:
    """An agent that sets `asked` when it is asked, and answers once `go_on` is set."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def health(self, timeout_s: float) -> dict[str, Any]:
        assert timeout_s > 0
        self.asked.set()
        assert self.go_on.wait(LIMIT_S)
        return {"uptime_s": 1000.0}


class Frozen(Slow):
    """An agent that never answers."""

    def health(self, timeout_s: float) -> dict[str, Any]:
        self.go_on.set()
        super().health(timeout_s)
        raise EnvironmentMissing("web-1", expected="an answer", got="none", hint="Nothing.")


def test_an_answer_that_is_overdue_is_silence_and_one_that_comes_later_counts_for_nothing() -> None:
    agent: Any = Slow()
    clock = iter([10.0, 12.0])
    silence = DowntimeMeter(agent, since=9.0, now=lambda: next(clock))
    assert agent.asked.wait(LIMIT_S)
    silence_dose = silence.dose(3.0)
    agent.go_on.set()
    silence.close()
    assert (silence_dose["samples"], silence_dose["bit"]) == (1, True)
    assert silence._looks.samples == [(12.0, True)]


def test_a_machine_is_asked_until_it_is_closed() -> None:
    agent: Any = Frozen()
    silence = DowntimeMeter(agent, since=0.0)
    assert agent.asked.wait(LIMIT_S)
    silence_dose = silence.dose(3.0)
    silence.close()
    agent.asked.clear()
    assert silence_dose["asked"] == 3.0
    assert silence.dose(3.0) == silence_dose
    assert not agent.asked.is_set()


@pytest.mark.parametrize(("silent", "bit"), [(True, True), (False, None)])
def test_a_crash_bit_once_its_machine_missed_its_heartbeats(silent: bool, bit: bool | None) -> None:
    events: list[dict[str, Any]] = []
    journal = Journal(lambda _, **event: events.append(event), Tally(), {"web-1": "web"})
    journal.note_crash("web-1", 5.0)
    if silent:
        journal.note_silence("web-1", 6.0)
    journal.note_recovery("web-1")
    crash_dose = events[-1]["dose"]
    assert (events[-1]["action"], crash_dose["bit"]) == ("revert", bit)
    if silent:
        assert crash_dose["asked"] - crash_dose["measured"] == pytest.approx(1.0)


LEASE_S = 12.0


def _fault(
    number: int, at_s: float, end_s: float | None, asked_s: float | None
) -> list[dict[str, Any]]:
    more = {"machine": f"web-{number}", "id": f"f{number}"}
    lines = [event(at_s, "fault", "net.limp", "inject", **more)]
    if end_s is not None:
        lines.append(event(end_s, "fault", "net.limp", "revert", asked_s=asked_s, **more))
    return lines


def test_the_worst_of_all_undos_is_told_with_its_machine() -> None:
    events = [*_fault(1, 1.0, 9.2, 9.0), *_fault(2, 2.0, 8.75, 8.0), *_fault(3, 3.0, 9.1, 9.0)]
    revert_time: Any = revert_time_json(events, None, LEASE_S)
    assert revert_time == {"count": 3, "unconfirmed": 0,
                     "worst": {"seconds": 0.75, "kind": "net.limp", "machine": "web-2"},
                     "lease_s": LEASE_S}  # fmt: skip
    words = revert_time_words(revert_time)
    assert "0.750 s" in words
    assert "net.limp on web-2" in words
    assert "insufficient" in words
    assert "insufficient" not in revert_time_words({**revert_time, "count": 10})


@pytest.mark.parametrize(
    ("at_s", "asked_s", "seconds"),
    [(9.0, 10.4, 2.0), (9.0, 8.5, 2.5), (12.0, 8.5, 2.5)],
    ids=["the runner heard later", "it was to end before", "it was over before"],
)
def test_a_stop_asks_from_its_own_time_on(at_s: float, asked_s: float, seconds: float) -> None:
    events = [*_fault(1, 1.0, 11.0, asked_s), *_fault(2, 1.0, 5.25, 5.0)]
    revert_time: Any = revert_time_json(events, {"by": "halt", "at_s": at_s}, LEASE_S)
    assert (revert_time["count"], revert_time["worst"]["seconds"]) == (2, seconds)


def test_what_was_never_confirmed_is_said() -> None:
    revert_time: Any = revert_time_json(
        [*_fault(1, 1.0, None, None), *_fault(2, 1.0, 5.0, 4.0)], None, LEASE_S
    )
    assert (revert_time["count"], revert_time["unconfirmed"]) == (1, 1)
    assert "Of 1 no undo was confirmed" in revert_time_words(revert_time)
    unconfirmed = revert_time_json(_fault(1, 1.0, None, None), None, LEASE_S)
    assert unconfirmed["worst"] is None
    assert "Of 1 no undo was confirmed" in revert_time_words(unconfirmed)


def test_a_machine_that_its_scheme_mends_is_asked_of_by_a_stop_alone() -> None:
    events = [*_fault(1, 1.0, 6.0, None), *_fault(2, 7.0, 11.5, None)]
    assert revert_time_json(events, None, LEASE_S)["count"] == 0
    revert_time: Any = revert_time_json(events, {"by": "guard", "at_s": 10.0}, LEASE_S)
    assert (revert_time["count"], revert_time["worst"]["seconds"]) == (1, 1.5)


def test_the_report_says_it(tmp_path: Path) -> None:
    run = fake_run(seed=4, measure_s=20.0, rate_per_s=4.0)
    run.manifest["undone"] = revert_time_json(_fault(1, 1.0, 9.5, 9.0), None, LEASE_S)
    folder = run.write(tmp_path)
    assert revert_time_words(read_result(folder)["undone"]) in write_page(folder).read_text()


def test_without_injections_and_of_an_older_run() -> None:
    assert "nothing was injected" in revert_time_words(revert_time_json([], None, LEASE_S))
    assert revert_time_words(None) == ""
