"""The command plan and its file."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import Result

from core.errors import InputError
from optimizer.plan.inputs.overrides import Overrides, request_from_file, slo_of_run
from optimizer.plan.inputs.plan_file import read_plan
from optimizer.plan.planner import plan_from_file
from optimizer.tests.command_line import invoke

STATED = """
scheme = "cloud"
arrival_per_s = 20.0
[prices]
region = "us-east-1"
[slo]
availability = 0.999
p99_ms = 400.0
[limits]
max_nodes = 5
max_replicas = 1
[[tiers]]
name = "web"
role = "mediawiki"
processing_s = 0.03
memory_mb = 900
instance_types = ["t3.micro", "t3.small", "c5.large"]
[[tiers]]
name = "db"
role = "mariadb"
processing_s = 0.002
requests_per_copy = 4.0
memory_mb = 900
instance_types = ["t3.micro", "t3.small", "c5.large"]
"""


@pytest.fixture(scope="module")
def stated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text(STATED)
    return path


@pytest.fixture(scope="module")
def whole(stated: Path) -> Result:
    """Run `plan` with all options at once; it writes its files beside the input."""
    folder = stated.parent
    files = ("--output", f"{folder}/out/plan.json", "--tfvars", f"{folder}/out/fleet.tfvars")
    options = ("--pareto", "--figures", f"{folder}/figures", "--sensitivity")
    return invoke("plan", "--input", str(stated), *files, *options)


def test_a_plan_from_a_file_is_printed_with_its_reasons(whole: Result) -> None:
    assert whole.exit_code == 0, whole.output
    titles = ("What binds", "marginal prices", "cost against availability", "cost against p99")
    for text in (*titles, "USD a month (cloud, us-east-1", "next nine", "if it were", "Assumed"):
        assert text in whole.output
    assert "\x1b" not in whole.output  # no colours where no terminal is
    tables = whole.output.split("Assumed")[0].splitlines()
    assert max(map(len, tables)) <= 100
    assert "…" not in whole.output  # nothing is cut off at 100 columns


def test_the_files_hold_what_was_printed(whole: Result, stated: Path) -> None:
    body = json.loads((stated.parent / "out" / "plan.json").read_text())
    assert f"{body['usd_per_month']:.2f} USD a month" in whole.output
    assert body["tfvars"] == (stated.parent / "out" / "fleet.tfvars").read_text()
    assert set(body["marginal"]) == {"availability", "p99_ms"}
    assert [front["limit"] for front in body["pareto"]] == ["availability", "p99_ms"]
    for front in body["pareto"]:
        assert sum(point["chosen"] for point in front["points"]) == 1
        svg = stated.parent / "figures" / f"front-{front['limit'].removesuffix('_ms')}.svg"
        texts = [e.text for e in ElementTree.parse(svg).iter() if e.tag.endswith("text")]
        assert f"plan: {body['usd_per_month']:,.2f} USD" in texts
        assert any(str(text).startswith("SLO ") for text in texts)
        assert f"Wrote {svg}" in whole.output
    increased = {row["input"]: row for row in body["sensitivity"] if row["factor"] > 1}
    assert increased["arrival_rate"]["usd_more"] >= 0


@pytest.mark.parametrize("option", ["--output", "--tfvars", "--figures"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(
    option: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" if option == "--figures" else tmp_path
    result = invoke("plan", "--input", str(tmp_path / "none.toml"), "--pareto", option, str(target))
    assert result.exit_code == 2
    assert option in result.output


def test_a_fleet_that_is_the_plan_costs_no_more(stated: Path, tmp_path: Path) -> None:
    tiers = json.loads(invoke("plan", "--input", str(stated), "--json").stdout)["tiers"]
    lines = []
    for line in STATED.splitlines():
        lines.append(line)
        if line.startswith("name"):
            tier = tiers[line.split('"')[1]]
            present = f"""instance_type = "{tier["instance_type"]}", nodes = {tier["nodes"]}"""
            lines.append(f"present = {{ {present} }}")
    file = tmp_path / "plan.toml"
    file.write_text("\n".join(lines))
    printed = invoke("plan", "--input", str(file)).output
    table = printed.partition("against today")[2].partition("The present fleet")[0]
    assert table.count("the same") == 2
    increments = [line.split()[-1] for line in table.splitlines()[2:5]]
    assert increments == ["0.00", "0.00", "0.00"]


def test_json_is_one_document_and_the_command_line_goes_before_the_file(stated: Path) -> None:
    strict = ("--availability", "0.9999", "--p99-ms", "900", "--region", "eu-west-1")
    result = invoke("plan", "--input", str(stated), *strict, "--json")
    assert result.exit_code == 0, result.output
    body = json.loads(result.stdout)
    assert body["inputs"]["slo"]["availability"] == 0.9999
    assert body["inputs"]["slo"]["p99_ms"] == 900.0
    assert body["region"] == "eu-west-1"
    assert "pareto" not in body


def test_what_cannot_be_met_is_explained_with_what_would_help(stated: Path) -> None:
    result = invoke("plan", "--input", str(stated), "--p99-ms", "147", "--json")
    assert result.exit_code == 1
    body = json.loads(result.stdout)
    assert not body["feasible"]
    (latency,) = [row for row in body["relaxation"]["alone"] if row["limit"] == "p99_ms"]
    relaxed = invoke("plan", "--input", str(stated), "--p99-ms", repr(latency["value"]), "--json")
    assert relaxed.exit_code == 0
    assert json.loads(relaxed.stdout)["usd_per_month"] == latency["usd_per_month"]
    tighter = invoke(
        "plan", "--input", str(stated), "--p99-ms", repr(latency["value"] * (1 - 1e-6))
    )
    assert tighter.exit_code == 1
    assert "No fleet meets the SLOs" in tighter.output
    assert "is the least with the other limits kept" in tighter.output


def test_a_file_is_said_to_be_written_only_if_it_was(stated: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.tfvars", tmp_path / "new.tfvars"
    old.write_text("# of earlier")
    words = ("plan", "--input", str(stated), "--p99-ms", "147", "--output", f"{tmp_path}/plan.json")
    result = invoke(*words, "--tfvars", str(old))
    assert result.exit_code == 1, result.output
    assert f"Wrote {tmp_path}/plan.json" in result.output
    assert f"Wrote {old}" not in result.output
    assert f"Not written: {old}" in result.output
    assert old.read_text() == "# of earlier"
    assert str(new) not in invoke(*words, "--tfvars", str(new)).output
    assert not new.exists()


@pytest.mark.usefixtures("unexplained")
def test_a_run_is_held_to_its_own_slo(run_dir: Path) -> None:
    run_slo = {"availability": 0.999, "p95_ms": 500.0, "p99_ms": 1000.0}
    assert slo_of_run(run_dir) == run_slo
    options = ("--scheme", "cloud", "--p95-ms", "450", "--law-only", "--json")
    result = invoke("plan", "--from", str(run_dir), *options)
    assert result.exit_code == 0, result.output
    body = json.loads(result.stdout)
    slo = {key: body["inputs"]["slo"][key] for key in run_slo}
    assert slo == {**run_slo, "p95_ms": 450.0}
    assert body["scheme"] == "cloud"


@pytest.mark.usefixtures("unexplained")
def test_a_file_without_tiers_leaves_them_to_the_run(run_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[slo]\navailability = 0.9999\np95_ms = 1500\n[rates]\nrepair_s = 86400\n")
    result = invoke("plan", "--from", str(run_dir), "--input", str(file), "--json")
    assert result.exit_code == 0, result.output
    body = json.loads(result.stdout)
    assert set(body["tiers"]) == {"web", "db"}
    assert body["inputs"]["slo"]["availability"] == 0.9999
    without_run = invoke("plan", "--input", str(file))
    assert isinstance(without_run.exception, InputError)


def test_on_a_narrow_terminal_no_table_is_cut_and_no_assumption(stated: Path) -> None:
    result = invoke("plan", "--input", str(stated), columns=80)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "…" not in result.output
    assert "..." not in result.output.split("Assumed")[1]
    assert {"cores", "standby", "availability"} <= {
        line.split()[0] for line in result.output.splitlines() if line.strip()
    }, "one row for each figure"


def test_the_example_is_a_plan_toml_that_can_be_planned(tmp_path: Path) -> None:
    result = invoke("plan", "--example")
    assert result.exit_code == 0
    path = tmp_path / "plan.toml"
    path.write_text(result.stdout)
    assert request_from_file(path, None, Overrides()).case.tiers


def test_a_price_book_named_on_the_command_line_is_found_from_where_one_stands(
    stated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from optimizer.prices import BUILT_IN

    (tmp_path / "mine.toml").write_text(BUILT_IN["ec2"].read_text())
    monkeypatch.chdir(tmp_path)
    request = request_from_file(stated, None, Overrides(book="mine.toml"))
    assert request.case.book.as_of


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "--from RESULTS, --input plan.toml, or both"),
        (("--from", "/nowhere"), "manifest.json"),
        (("--input", "/nowhere/plan.toml"), "/nowhere/plan.toml"),
        (("--example", "--figures"), "requires an argument"),
    ],
)
def test_wrong_input_is_refused_by_name(words: tuple[str, ...], named: str) -> None:
    result = invoke("plan", *words)
    message = str(result.exception) if isinstance(result.exception, InputError) else result.output
    assert named in message
    assert result.exit_code != 0


@pytest.mark.parametrize(
    ("words", "named"),
    [(("--figures", "here"), "--figures: expected --pareto, or [load] day"),
     (("--availability", "1.0"), "slo.availability"), (("--p99-ms", "-5"), "slo.p99_ms"),
     (("--p95-ms", "500"), "slo.p99_ms"), (("--p99-ms", "nan"), "slo.p99_ms"),
     (("--p99-ms", "0.5"), "p99_ms: expected at least"),
     (("--confidence", "1.5"), "slo.confidence"), (("--region", "moon-1"), "moon-1"),
     (("--book", "no-such.toml"), "no-such.toml"),
     (("--output", "/proc/plan.json"), "a file that can be written")],
)  # fmt: skip
def test_a_bad_value_is_refused_by_name(stated: Path, words: tuple[str, ...], named: str) -> None:
    result = invoke("plan", "--input", str(stated), *words)
    assert isinstance(result.exception, InputError)
    assert named in str(result.exception)


@pytest.mark.parametrize("text", ["not json", "[]", '{"spec": {}}', '{"spec": {"slo": 3}}'])
def test_a_run_without_an_slo_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json"):
        slo_of_run(tmp_path)


@pytest.mark.usefixtures("unexplained")
def test_an_arm_whose_policy_has_no_model_is_left_out_and_named(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    for settings in manifest["spec"]["arms"]["replicated"]["settings"].values():
        settings["policy"] = "c3"
    (run / "manifest.json").write_text(json.dumps(manifest))
    options = ("--scheme", "cloud", "--p95-ms", "450", "--law-only", "--json")
    result = invoke("plan", "--from", str(run), *options)
    assert result.exit_code == 0, result.output
    [warning] = [w for w in json.loads(result.stdout)["warnings"] if "replicated" in w]
    assert warning.startswith("not used to calibrate latencies")


def test_a_run_that_asks_for_a_confidence_is_planned_with_it(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["spec"]["slo"] = {"p95_ms": 900.0, "p99_ms": 1500.0, "confidence": 0.8}
    (run / "manifest.json").write_text(json.dumps(manifest))
    words = ("plan", "--from", str(run), "--scheme", "cloud", "--law-only", "--json")
    body = json.loads(invoke(*words).stdout)
    assert body["inputs"]["slo"]["confidence"] == 0.8
    assert body["margin"]["p95_ms"]["probability_kept"] >= 0.8
    (assumption,) = (text for text in body["assumptions"] if "uncertain" in text)
    assert "at least 0.8" in assumption


EXAMPLE = Path(__file__).parents[3] / "plan" / "example.toml"


def _changed(tmp_path: Path, key: str, line: str, *, nth: int = 1) -> Path:
    """Write the example with its nth line of `key` replaced; return the path."""
    lines = EXAMPLE.read_text().splitlines()
    indices = [
        i for i, text in enumerate(lines) if re.match(rf"{re.escape(key)}(\s*=|\s*#|$)", text)
    ]
    lines[indices[nth - 1]] = line
    path = tmp_path / "plan.toml"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    return plan_from_file(EXAMPLE).to_json_dict()


def test_the_example_has_a_plan_that_keeps_its_limits(plan: dict[str, Any]) -> None:
    example = tomllib.loads(EXAMPLE.read_text())
    assert plan["feasible"]
    assert plan["predicted"]["availability"] >= example["slo"]["availability"]
    assert plan["predicted"]["p95_ms"] <= example["slo"]["p95_ms"]
    assert plan["predicted"]["p99_ms"] <= example["slo"]["p99_ms"]
    for tier in plan["tiers"].values():
        assert tier["nodes"] + tier["spares"] <= example["limits"]["max_nodes"]
        assert tier["utilisation"] <= example["limits"]["max_utilisation"]
        assert 1 <= tier["replicas"] <= tier["needed"]
    assert plan["confidence"]["probability_kept"] >= 0.9, "the share of draws that keep the target"
    total = sum(tier["usd_per_month"] for tier in plan["tiers"].values())
    assert plan["usd_per_month"] == pytest.approx(total, abs=0.02)


@pytest.mark.parametrize(
    ("key", "line", "named"),
    [
        ("availability", "availability = 1.0", r"slo\.availability"),
        ("p95_ms", "p95_ms = -1.0", r"slo\.p95_ms"),
        ("p95_ms", "p95_ms = 1.0", r"slo\.p95_ms.*at least"),
        ("p99_ms", "p99_ms = nan", r"slo\.p99_ms"),
        ("confidence", "confidence = 2", r"slo\.confidence"),
        ("nodes_down", "nodes_down = -1", r"slo\.degraded\.nodes_down"),
        ("arrival_per_s", "arrival_per_s = 0", "arrival_per_s"),
        ("arrival_per_s", "arrival_per_s = inf", "arrival_per_s"),
        ("scheme", 'scheme = "moon"', "scheme.*cloud"),
        ("book", 'book = "none.toml"', r"none\.toml"),
        ("max_replicas", "max_replicas = 13", r"limits\.max_replicas"),
        ("max_nodes", "max_nodes = 0", r"limits\.max_nodes"),
        ("max_collision", "max_collision = 1.5", r"limits\.max_collision"),
        ("crash_per_year", "crash_per_year = { count = -3, node_years = 1 }",
         r"rates\.crash_per_year\.count"),
        ("crash_per_year", "crash_per_year = { count = 3, years = 1 }",
         r"rates\.crash_per_year\.years"),
        ("failover_s", "failover_s = { samples = [12.1] }", r"rates\.failover_s"),
        ("repair_s", "repair_s = 0", r"rates\.repair_s"),
        ("repair_s", "repair_crew = 2", r"rates\.repair_crew"),
        ("repair_s", "common_cause_nodes = 3", r"rates\.common_cause_nodes"),
        ("scheme", 'scheme = "cloud"', r"rates\.repair_s"),
        ("processing_s", "processing_s = 0", r"tiers\.0\.processing_s"),
        ("processing_s", "speed = 0.035", r"tiers\.0\.speed"),
        ("processing_s", "", r"tiers\.0\.processing_s"),
        ("gamma", "gamma = 1.4", r"tiers\.0\.gamma"),
        ("mechanisms", 'instance_types = ["slice-0.26"]', r"slice-0\.26"),
        ("mechanisms", 'mechanisms = ["hope"]', r"tiers\.0\.mechanisms"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(tmp_path: Path, key: str, line: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        plan_from_file(_changed(tmp_path, key, line))


def test_files_that_are_none_and_tiers_of_one_name_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tiers\.1\.name"):
        plan_from_file(_changed(tmp_path, "name", 'name = "web"', nth=2))
    (tmp_path / "bad.toml").write_text("scheme = ")
    for name in ("none", "bad"):
        with pytest.raises(InputError, match=rf"{name}\.toml"):
            read_plan(tmp_path / f"{name}.toml")
    (tmp_path / "book.toml").write_text(
        'as_of = "2026-01-01"\nsource = "us"\ncurrency = "USD"\n[instances]\n[usd_per_hour]\n'
    )
    with pytest.raises(InputError, match=r"book\.toml"):
        plan_from_file(_changed(tmp_path, "book", 'book = "book.toml"'))
