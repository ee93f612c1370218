"""Parts of a live fleet are killed at random moments: no fault stays, no sample is lost, nothing is
left behind. Ten kills, or as many as SPARECRAFT_KILLS says (`ci/kills`).
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import polars as pl
import pytest

from experiments.record.result import flat, read_result
from experiments.report.undone import undone_words
from experiments.tests.called import sparecraft
from experiments.tests.fleets import nothing_stays
from experiments.tests.kill_session import Session
from experiments.tests.kills import EXPERIMENT, TARGETS, draw, not_recorded
from experiments.tests.load_fixture import make_plan

COUNT = int(os.environ.get("SPARECRAFT_KILLS", "10"))
DESIGN = Path(__file__).parent / "designs" / "kills"


def test_a_seed_repeats_its_kills_and_every_target_has_its_turn() -> None:
    kills = draw(random.Random(3), 12)
    assert kills == draw(random.Random(3), 12)
    assert kills != draw(random.Random(4), 12)
    assert {kill.target for kill in kills} == set(TARGETS)
    assert kills[-1].target == "influxdb"


def test_a_request_that_was_in_flight_may_be_missing_and_no_other() -> None:
    plan = make_plan("http://127.0.0.1:1/", ["good"] * 100, gap_s=0.1)
    limit_s = plan.load.connect_timeout_s + plan.load.response_timeout_s
    records = [
        {"index": n, "intended_s": 7.0 + at_s, "done_s": 7.0 + at_s}
        for n, at_s in enumerate(plan.offsets_s)
    ]
    in_flight = [n for n, at_s in enumerate(plan.offsets_s) if at_s + limit_s > plan.offsets_s[-1]]
    answered = [one for one in records if one["index"] not in in_flight[:-1]]
    assert not_recorded(records, plan) == not_recorded(answered, plan) == []
    assert not_recorded([one for one in answered if one["index"] != 3], plan) == [3]


@pytest.mark.real
@pytest.mark.fleet
@pytest.mark.timeout(300 + 60 * COUNT)
def test_whatever_is_killed_no_fault_stays_no_sample_is_lost_and_nothing_is_left(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = int(request.config.getoption("--hypothesis-seed"))
    kills = draw(random.Random(seed), COUNT)
    runners = [number for number, kill in enumerate(kills) if kill.target == "runner"]
    with nothing_stays(EXPERIMENT):
        session = Session(tmp_path, DESIGN)
        session.up()
        session.begin()
        for number, kill in enumerate(kills):
            print(f"kill {number + 1} of {COUNT}: {kill}", flush=True)
            print(f"  {session.strike(kill, last=number == COUNT - 1)}", flush=True)
            if number in runners:
                if number == runners[-1]:
                    session.down()
                    session.up()
                session.begin()
        _ends_in_order(session)
        session.nothing_is_left()  # a run takes its fleet with it, also one that is halted
    for target, times_s in session.undone_s.items():
        print(f"{target}: {len(times_s)} killed, undone after at most {max(times_s):.1f} s")


def _ends_in_order(session: Session) -> None:
    """The last run is halted while InfluxDB is away: what it had waits in its folder."""
    plan, folder = session.plan, session.run
    done = sparecraft("halt", EXPERIMENT, "--reason", "enough")
    assert done.returncode == 0, done.stderr
    session.started.ended(1)
    manifest = json.loads((folder / "manifest.json").read_text())
    telemetry = manifest["telemetry"]
    spooled = (folder / "telemetry.lp").read_text().count("\n")
    assert (telemetry["lost"], telemetry["rejected"]) == (0, 0)
    assert spooled == telemetry["spooled"] > 0
    assert telemetry["written"] + spooled == telemetry["accepted"]
    requests = pl.read_parquet(folder / "requests.parquet")
    assert not_recorded(requests.to_dicts(), plan) == []
    assert manifest["fingerprint_clean"] is True
    assert manifest["undone"]["count"] > 0
    print(undone_words(manifest["undone"]))
    result = flat(read_result(folder))
    assert result["valid"] is False
    assert (result["stopped"]["by"], result["stopped"]["reason"]) == ("halt", "enough")
    stops = [event for event in session.started.events() if event["what"] == "guard"]
    assert [(event["kind"], event["text"]) for event in stops] == [("halt", "enough")]
    reasons = " ".join(result["verdicts"]["measurement"]["reasons"])
    assert all(f"machine {name} was lost" in reasons for name in session.lost), reasons
    assert result["verdicts"]["cleanup"]["ok"], result["verdicts"]
