"""The slowdown of a block store may be a run's of kind limplock, with what it may be off by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError, PlannerError
from optimizer.limplock import Cluster, LimpRates, Year, year, year_range
from optimizer.tests.command_line import json_of, output_of

ASKED = ("limplock", "--nodes", "100", "--blocks", "3200")
RATES = ("--limp-per-year", "0.1", "--limp-hours", "24", "--repair-hours", "0.12")
SLOW = {"factor": 250.0, "at_least": False, "low": 180.0, "high": 309.0}
CUT = {"factor": 60.0, "at_least": True, "low": 40.0, "high": None}
QUICKER = {"factor": 0.9, "at_least": False, "low": 0.8, "high": 1.2}


def scenario(name: str, slowdown: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    """Return a scenario of row F8 as it stands in result.json."""
    return {"row": "F8", "part": "datanode", "scenario": name, "arm": "new", "slowdown": slowdown,
            "repeats": 3, "operation": "yes", "reason": "", **more}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    few = {"repeats": 2, "operation": "insufficient", "reason": "too few repeats for 0.95"}
    noisy = {"operation": "insufficient", "reason": "the base differs by 1.7 from itself"}
    scenarios = [
        scenario("1000", SLOW), scenario("100", CUT), scenario("10", QUICKER),
        scenario("crash", None, **few), scenario("50", SLOW, **noisy),
        scenario("1000", SLOW, row="F11", part="leaving"), scenario("10", SLOW, row="Z3"),
        scenario("base", None, operation="insufficient", reason="a base run did not end well"),
        scenario("far", {**SLOW, "high": 1e6}),
        scenario("1000", {**SLOW, "factor": 9.0}, row="F11", part="remaining"),
    ]  # fmt: skip
    body = {"experiment": "limplock-hdfs-regeneration", "run": "20261125T000000Z", "valid": True,
            "limplock": {"rule": {"confidence": 0.95}, "scenarios": scenarios}}  # fmt: skip
    (tmp_path / "result.json").write_text(json.dumps(body))
    return tmp_path


def _json(*words: str) -> Any:
    return json_of(*ASKED, *RATES, *words)


def _of(run: Path, scenario: str, row: str = "F8") -> tuple[str, ...]:
    return ("--measured", str(run), "--row", row, "--scenario", scenario)


def test_a_measured_slowdown_gives_the_year_at_it_and_at_both_bounds(run: Path) -> None:
    body = _json(*_of(run, "1000"))
    for key, slowdown in (("per_year", 250), ("per_year_at_low", 180), ("per_year_at_high", 309)):
        assert body[key] == _json("--slowdown", f"{slowdown}")["per_year"]
    assert {key: body["measured"][key] for key in SLOW} == SLOW
    assert body["measured"]["confidence"] == 0.95
    assert body["measured"]["insufficient"] == ""


def test_waits_that_were_cut_short_leave_hours_that_are_at_least(run: Path) -> None:
    body = _json(*_of(run, "100"))
    assert body["measured"]["at_least"] is True
    assert body["per_year_at_high"] is None
    assert body["per_year_at_low"] == _json("--slowdown", "40")["per_year"]
    printed = " ".join(output_of(*ASKED, *RATES, *_of(run, "100")).split())
    assert "at least 60 times as long (from 40; no upper bound" in printed
    assert "h or more)" in printed
    assert "or fewer)" in printed


def test_a_model_that_has_no_answer_at_the_upper_bound_gives_the_others(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(cluster: Cluster, rates: LimpRates) -> Year:
        if rates.slowdown > 1e5:
            raise PlannerError("crash_per_year", expected="fewer crashes", got="too many")
        return year(cluster, rates)

    monkeypatch.setitem(year_range.__globals__, "year", refuse)
    body = _json(*_of(run, "far"))
    assert body["per_year"] == _json("--slowdown", "250")["per_year"]
    assert body["per_year_at_high"] is None
    assert "fewer crashes (got too many" in body["per_year_at_high_reason"]
    assert "upper bound there is no answer" in output_of(*ASKED, *RATES, *_of(run, "far"))
    assert _json(*_of(run, "1000"))["per_year_at_high_reason"] == ""


def test_an_operation_that_was_quicker_beside_a_limping_node_was_not_slowed(run: Path) -> None:
    body = _json(*_of(run, "10"))
    assert body["measured"]["factor"] == 0.9
    assert body["per_year"] == body["per_year_at_low"] == _json("--slowdown", "1")["per_year"]


def test_a_slowdown_that_the_run_does_not_judge_is_taken_and_said(run: Path) -> None:
    assert _json(*_of(run, "50"))["measured"]["insufficient"].startswith("the base differs")
    assert "(insufficient): the base differs by 1.7" in output_of(*ASKED, *RATES, *_of(run, "50"))


def test_the_part_tells_scenarios_of_one_row_apart(run: Path) -> None:
    words = (*_of(run, "1000", row="F11"), "--part", "remaining")
    assert _json(*words)["measured"]["factor"] == 9.0


@pytest.mark.parametrize(
    ("words", "place", "named"),
    [
        (("--row", "F9", "--scenario", "10"), "--measured", r"the rows F8, F11, Z3 \(got none"),
        (("--row", "F8", "--scenario", "7"), "--measured", "row F8, scenario 1000, arm new"),
        (("--row", "F11", "--scenario", "1000"), "--measured", "part remaining.*2 of them"),
        (("--row", "F8", "--scenario", "crash"), "--measured", "2 repeats, insufficient: too few"),
        (("--row", "F8", "--scenario", "crash"), "--measured", "repeats = 3 or more"),
        (("--row", "F8", "--scenario", "base"), "--measured", "Its page says why"),
        (("--row", "Z3", "--scenario", "10"), "--row", r"F8, F9, F10, F11 \(got Z3"),
        (("--row", "", "--scenario", "10"), "--row", "empty"),
        (("--row", "F8", "--scenario", ""), "--scenario", "empty"),
        (("--row", "F8", "--scenario", "10", "--part", ""), "--part", "empty"),
        (("--row", "F8", "--scenario", "10", "--arm", ""), "--arm", "empty"),
        (("--row", "F8"), "--scenario", "beside --measured"),
        (("--scenario", "10"), "--row", "beside --measured"),
        (("--row", "F8", "--scenario", "10", "--slowdown", "3"), "--slowdown", "both"),
    ],
)  # fmt: skip
def test_a_run_that_does_not_say_it_is_refused(
    run: Path, words: tuple[str, ...], place: str, named: str
) -> None:
    with pytest.raises(InputError, match=named) as error:
        output_of(*ASKED, *RATES, "--measured", str(run), *words)
    assert error.value.place == place


def test_a_folder_without_such_a_run_and_choices_without_a_run_are_refused(run: Path) -> None:
    with pytest.raises(InputError, match="kind limplock"):
        output_of(*ASKED, *RATES, *_of(run / "elsewhere", "1000"))
    with pytest.raises(InputError, match="expected --measured") as error:
        output_of(*ASKED, *RATES, "--row", "F8")
    assert error.value.place == "--row"
    with pytest.raises(InputError, match="this option beside --measured") as error:
        output_of(*ASKED, *_of(run, "1000"))
    assert error.value.place == "--limp-per-year"
