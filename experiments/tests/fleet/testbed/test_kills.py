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

from core.runfiles.result import read_result
from experiments.paths import ROOT
from experiments.record.result import flat
from experiments.report.revert_time import revert_time_words
from experiments.tests.called import sparecraft
from experiments.tests.fleets import nothing_stays
from experiments.tests.kill_session import Session
from experiments.tests.kills import EXPERIMENT, draw, not_recorded

pytestmark = pytest.mark.long

COUNT = int(os.environ.get("SPARECRAFT_KILLS", "10"))
DESIGN = ROOT / "experiments" / "tests" / "designs" / "kills"


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
    """The last run is halted while InfluxDB is down: its points are in a file of its folder."""
    plan, folder = session.plan, session.run
    process = sparecraft("halt", EXPERIMENT, "--reason", "enough")
    assert process.returncode == 0, process.stderr
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
    print(revert_time_words(manifest["undone"]))
    result = flat(read_result(folder))
    assert result["valid"] is False
    assert (result["stopped"]["by"], result["stopped"]["reason"]) == ("halt", "enough")
    stops = [event for event in session.started.events() if event["what"] == "guard"]
    assert [(event["kind"], event["text"]) for event in stops] == [("halt", "enough")]
    reasons = " ".join(result["verdicts"]["measurement"]["reasons"])
    assert all(f"machine {name} was lost" in reasons for name in session.lost), reasons
    assert result["verdicts"]["cleanup"]["ok"], result["verdicts"]
