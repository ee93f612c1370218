"""result.json: one head for every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from core.runfiles.result import read_result, results_in
from experiments.record.records import point_latest
from experiments.record.result import (
    Findings,
    flat,
    not_measured,
    passed,
    result_of,
)
from experiments.tests.called import call
from experiments.tests.manifest_fixture import VERDICTS

MANIFEST: dict[str, Any] = {
    "experiment": "shop", "run": "20261123T100000Z", "platform": "local",
    "started_at": "2026-11-23T10:00:00+00:00", "ended_at": "2026-11-23T10:30:00+00:00",
    "versions": {"commit": "abc"}, "host": {"cores": 2, "blocks": [{"repeat": 0}]},
    "fleet": {"machines": [{"usd_per_hour": 0.2, "standby": False},
                           {"usd_per_hour": 0.4, "standby": False},
                           {"usd_per_hour": 9.0, "standby": True}]},
}  # fmt: skip


def bad(name: str) -> dict[str, Any]:
    return {**VERDICTS, name: {"ok": False, "reasons": ["why"]}}


def test_the_head_says_when_where_from_what_and_at_what_cost() -> None:
    result = result_of("dice", MANIFEST, Findings({"sixes": 3}, VERDICTS))
    assert result["cost"] == {"usd": pytest.approx(0.3), "usd_per_hour": pytest.approx(0.6)}
    assert (result["started"], result["commit"]) == (MANIFEST["started_at"], "abc")
    assert result["host"] == {"cores": 2}
    assert result["dice"] == {"sixes": 3}
    assert flat(result)["sixes"] == 3


def test_a_price_that_is_not_known_makes_the_cost_unknown() -> None:
    for machine in ({"usd_per_hour": None}, {}):
        manifest = {**MANIFEST, "fleet": {"machines": [{"usd_per_hour": 1.0}, machine]}}
        assert result_of("dice", manifest, Findings({}, VERDICTS))["cost"]["usd"] is None
    assert result_of("dice", {}, Findings({}, VERDICTS))["cost"]["usd"] is None


@pytest.mark.parametrize(
    ("found", "valid", "good"),
    [
        (Findings({}, VERDICTS), True, True),
        (Findings({}, not_measured(VERDICTS, ["nothing was found"])), False, False),
        (Findings({}, bad("measurement")), False, False),
        (Findings({}, bad("revert")), False, False),
        (Findings({}, bad("cleanup")), True, False),
        (Findings({}, VERDICTS, slo={"met": True}), True, True),
        (Findings({}, VERDICTS, slo={"met": None}), True, True),
        (Findings({}, VERDICTS, slo={"met": False}), True, False),
    ],
)
def test_a_run_passes_that_is_valid_met_its_slo_and_left_nothing(
    found: Findings, valid: bool, good: bool
) -> None:
    result = result_of("dice", MANIFEST, found)
    assert (result["valid"], passed(result)) == (valid, good)


def test_what_a_kind_did_not_find_stands_beside_the_runner_s_reasons() -> None:
    reasons = not_measured(bad("measurement"), ["no die was thrown"])
    assert reasons["measurement"] == {"ok": False, "reasons": ["why", "no die was thrown"]}
    assert not_measured(VERDICTS, []) == VERDICTS


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"valid": "yes"}, "valid"), ({"cost": None}, "cost"), ({"slo": {"met": 1}}, "slo.met"),
     ({"verdicts": {**VERDICTS, "revert": {"ok": True}}}, "verdicts.revert.reasons"),
     ({"dice": []}, "dice"), ({"schema": 99}, "schema")],
)  # fmt: skip
def test_a_head_of_another_form_is_refused_by_file_and_key(
    tmp_path: Path, changes: dict[str, Any], key: str
) -> None:
    result = result_of("dice", MANIFEST, Findings({}, VERDICTS))
    file = tmp_path / "result.json"
    file.write_text(json.dumps({**result, "zone": "of a later version"}))
    assert read_result(tmp_path)["zone"] == "of a later version"
    file.write_text(json.dumps({**result, **changes}))
    with pytest.raises(InputError) as caught:
        read_result(tmp_path)
    assert caught.value.place == f"{file}: {key}"


def test_what_is_torn_or_missing_is_refused_and_left_out_of_a_listing(tmp_path: Path) -> None:
    with pytest.raises(InputError) as missing:
        read_result(tmp_path)
    assert missing.value.place == str(tmp_path)
    for folder in ("shop/torn", "shop/deep", "shop/headless", "shop/whole", "shop/tune/whole"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "shop/torn/result.json").write_text('{"kind": "dice"')
    (tmp_path / "shop/deep/result.json").write_text(100_000 * "[")
    (tmp_path / "shop/headless/result.json").write_text('{"kind": "dice", "dice": {}}')
    result_text = json.dumps(result_of("dice", MANIFEST, Findings({}, VERDICTS)))
    for folder in ("shop/whole", "shop/tune/whole"):
        (tmp_path / folder / "result.json").write_text(result_text)
    (tmp_path / "shop/latest").symlink_to("whole")
    with pytest.raises(InputError) as torn:
        read_result(tmp_path / "shop/torn")
    assert torn.value.place.endswith("result.json")
    left_out: list[InputError] = []
    folders = [str(f.relative_to(tmp_path)) for f, _ in results_in(tmp_path, left_out.append)]
    assert folders == ["shop/tune/whole", "shop/whole"]
    listing = call("list", "--results", str(tmp_path), "--json")
    assert [row["folder"] for row in json.loads(listing.stdout)["runs"]] == [
        str(tmp_path / name) for name in folders
    ]
    for error, line in zip(left_out, listing.stderr.splitlines(), strict=True):
        assert line.startswith(f"{error.place}: ")
        assert error.got in line


BROKEN: dict[str, dict[str, Any]] = {
    "later": {"schema": 99},
    "headless": {"cost": None},
    "verdicts": {"verdicts": []},
    "other-kind": {"kind": "capacity", "capacity": {"workloads": {"wiki": 7}}},
    "listed": {"kind": "compare", "compare": []},
    "empty": {"kind": "compare", "compare": {}},
}


@pytest.fixture
def beside_broken(tmp_path: Path) -> Path:
    """A results folder with two good runs among broken ones."""
    good = result_of("dice", MANIFEST, Findings({}, VERDICTS))
    for name, changes in {"a": {}, **BROKEN, "z": {}}.items():
        (tmp_path / "shop" / name).mkdir(parents=True)
        text = json.dumps({**good, **changes}).replace("NaN", "null")
        (tmp_path / "shop" / name / "result.json").write_text(text)
    return tmp_path


def test_no_bad_result_stops_the_list(beside_broken: Path) -> None:
    outcome = call("list", "--results", str(beside_broken), "--json")
    assert outcome.exit_code == 0, outcome.output
    rows = json.loads(outcome.stdout)["runs"]
    assert [Path(row["folder"]).name for row in rows] == ["a", "z"]
    assert all(f"shop/{name}/" in outcome.stderr for name in BROKEN)


def test_no_bad_result_stops_the_comparison_of_the_others(beside_broken: Path) -> None:
    folders = [str(beside_broken / "shop" / name) for name in ("a", *BROKEN, "z")]
    outcome = call("compare", *folders, "--json")
    assert outcome.exit_code == 2
    assert [row["folder"] for row in json.loads(outcome.stdout)["runs"]] == [
        folders[0],
        folders[-1],
    ]
    assert all(f"shop/{name}/" in outcome.stderr for name in BROKEN)


def test_latest_is_the_newest_run_that_reached_its_end_else_the_newest(tmp_path: Path) -> None:
    targets = []
    for number, cut_short in enumerate((True, True, False, True, False)):
        run = tmp_path / f"run-{number}"
        run.mkdir()
        (run / "manifest.json").write_text(json.dumps({"cut_short": cut_short}))
        point_latest(run)
        targets.append((tmp_path / "latest").resolve().name)
    assert targets == ["run-0", "run-1", "run-2", "run-2", "run-4"]
