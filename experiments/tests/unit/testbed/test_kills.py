"""Parts of a live fleet are killed at random moments: no fault stays, no sample is lost, nothing is
left behind. Ten kills, or as many as SPARECRAFT_KILLS says (`ci/kills`).
"""

from __future__ import annotations

import random

from experiments.tests.kills import TARGETS, draw, not_recorded
from experiments.tests.load_fixture import make_plan


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
