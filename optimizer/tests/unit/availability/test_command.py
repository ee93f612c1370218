"""`sparecraft availability` as a user and as a program call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from optimizer.tests.command_line import output_of

PF = ["--mechanism", "pf", "--scheme", "on-prem", "--nodes", "10", "--crash-per-year", "1"]

CLOUD_PF = ["--mechanism", "pf", "--scheme", "cloud", "--nodes", "3", "--crash-per-year", "2"]
ARA = ["--mechanism", "ara", "--nodes", "10", "--extra", "1", "--crash-per-year", "1", "--scheme"]


def _json(*arguments: str, code: int = 0) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(output_of("availability", *arguments, "--json", code=code))
    return body


def test_a_fleet_has_its_availability_error_states_and_time() -> None:
    body = _json(*PF, "--extra", "18")
    assert body["availability"] == pytest.approx(0.99937200122151555, abs=1e-10)
    assert 0 < body["error_bound"] < 1e-9
    assert body["states"] > 1
    assert body["seconds"] > 0
    assert body["steady_state"] is None


def test_a_target_is_answered_by_the_least_size_and_the_one_below() -> None:
    body = _json(*PF, "--target", "0.999")
    assert body["extra"] == 18
    assert body["one_fewer"] < 0.999 <= body["availability"]
    assert "17 reach 0.99865 < 0.999" in body["reason"]


def test_a_target_out_of_reach_has_no_size_and_says_why() -> None:
    body = _json(*PF[:-1], "2", "--failover-s", "1800", "--target", "0.999", code=1)
    assert body["extra"] is None
    assert "fail-over alone costs 10 h" in body["reason"]


def test_where_no_size_reaches_the_target_nothing_is_said_or_drawn_of_an_empty_pool(
    tmp_path: Path,
) -> None:
    slow = [*PF[:-1], "2", "--failover-s", "1800", "--repair-s", "86400", "--target", "0.999"]
    assert _json(*slow, code=1)["notes"] == []
    figure = tmp_path / "course.svg"
    body = _json(*slow, "--course", "10", "--figure", str(figure), code=1)
    assert body["extra"] is None
    assert len(body["notes"]) == 1
    assert "course" not in body
    assert not figure.exists()


def test_the_clouds_pool_has_no_end() -> None:
    assert _json(*CLOUD_PF)["availability"] > 0.999
    assert _json(*CLOUD_PF, "--target", "0.999")["extra"] == 0


def test_an_empty_pool_takes_no_repaired_node_and_says_so() -> None:
    (note,) = _json(*PF, "--extra", "0", "--repair-s", "86400")["notes"]
    assert "Fig. 1a" in note
    assert not _json(*PF, "--extra", "1", "--repair-s", "86400")["notes"]
    assert "Fig. 1a" in output_of("availability", *PF, "--extra", "0", "--repair-s", "86400")


def test_observed_crashes_give_an_interval_and_a_size_at_confidence(tmp_path: Path) -> None:
    rates = tmp_path / "rates.toml"
    rates.write_text("[rates]\ncrash_per_year = { count = 3, node_years = 2.1 }\nrepair_s = 9e4\n")
    given = [*PF[:-2], "--rates", str(rates), "--confidence", "0.9"]
    found = _json(*given, "--extra", "2")["interval"]
    assert found["low"] < found["median"] < found["high"]
    sized = _json(*given, "--target", "0.999")
    assert sized["at_confidence"]["extra"] >= sized["extra"]


def test_the_time_course_is_printed_and_drawn(tmp_path: Path) -> None:
    figure = tmp_path / "course.svg"
    body = _json(*PF, "--extra", "2", "--course", "10", "--figure", str(figure))
    assert len(body["course"]) == 11
    assert body["course"][0] == [0.0, 1.0]
    assert "Probability that enough nodes are up" in figure.read_text()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([*PF, "--extra", "1", "--target", "0.9"], "--extra"),
        (PF, "--extra"),
        ([*PF, "--target", "1"], "--target"),
        ([*PF, "--extra", "-1"], "--extra"),
        ([*PF, "--extra", "1", "--nodes", "0"], "--nodes"),
        ([*PF[:-1], "-2", "--extra", "1"], "--crash-per-year"),
        ([*PF, "--extra", "1", "--failover-s", "0"], "--failover-s"),
        ([*PF, "--extra", "1", "--horizon-s", "nan"], "--horizon-s"),
        ([*PF, "--extra", "1", "--rates", "/dev/null/rates"], "/dev/null/rates"),
        ([*PF[:-2], "--extra", "1"], "--crash-per-year"),
        ([*ARA, "cloud", "--repair-s", "9"], "--repair-s"),
        ([*ARA, "cloud", "--standby-fraction", "0.5"], "--standby-fraction"),
        ([*ARA, "cloud", "--common-cause-nodes", "3"], "--common-cause-nodes"),
        ([*ARA, "cloud", "--common-cause-nodes", "3", "--common-cause", "0"], "--common-cause-nod"),
        ([*ARA, "on-prem", "--repair-crew", "3"], "--repair-crew"),
        ([*ARA, "on-prem", "--failover-s", "3"], "--failover-s"),
        ([*ARA, "cloud", "--limp-capacity", "0.5"], "--limp-capacity"),
        ([*ARA, "cloud", "--limp-recovery-s", "5"], "--limp-recovery-s"),
        ([*ARA, "cloud", "--confidence", "0.9"], "--confidence"),
        ([*ARA, "cloud", "--seed", "2"], "--seed"),
        ([*CLOUD_PF, "--extra", "2"], "--extra"),
        ([*PF, "--target", "0.9999999999999"], "--target"),
    ],
)
def test_bad_input_is_named(arguments: list[str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        output_of("availability", *arguments)
