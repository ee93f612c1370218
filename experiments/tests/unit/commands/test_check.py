"""`sparecraft check` finds everything that is wrong with a design, without a fleet."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments import kinds
from experiments.commands.check import rows_of
from experiments.commands.init import make_design
from experiments.commands.list import question
from experiments.design import designs_available, load_design
from experiments.paths import ROOT
from experiments.run import deep_check
from experiments.run.deep_check import OperationReply
from experiments.tests.called import call, refusal
from experiments.tests.spec_fixture import role

DESIGNS = ROOT / "experiments" / "tests" / "designs"
ROLE = {"summary": "A shop", "protocol": "http", "port": 8080, "calls": [{"roles": ["mariadb"]}]}
WORKLOAD = """\
from experiments.design.workloads import Operation, Population, Workload

WORKLOADS = {
    "wiki-reader": Workload(
        lambda: Population((Operation("cart", "/cart", "total"),), zipf=0.8), ("shop",)
    )
}
"""


def check(design: str | Path) -> tuple[int, dict[str, Any]]:
    result = call("check", str(design), "--json")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.output)


def problems(design: Path) -> list[str]:
    """The places of all problems, without the design's folder."""
    code, report = check(design)
    assert (code, report["valid"]) == (2, False)
    return [problem["place"].replace(f"{design.resolve()}/", "") for problem in report["problems"]]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The small design with a service of its own in front."""
    folder = tmp_path / "shop"
    shutil.copytree(DESIGNS / "small", folder)
    tfvars = folder / "fleet.tfvars"
    tfvars.write_text(tfvars.read_text().replace('"mediawiki"', '"shop"'))
    role(folder, "shop", ROLE, "Dockerfile")
    (folder / "workload.py").write_text(WORKLOAD)
    return folder


@pytest.mark.parametrize("name", designs_available())
def test_every_design_that_comes_with_sparecraft_passes_and_has_a_guard_or_says_why_not(
    name: str,
) -> None:
    code, report = check(name)
    assert (code, report["valid"], report["experiment"]) == (0, True, name)
    design = load_design(name)
    assert len(question(design.directory, name)) > 20
    why_not = kinds.kind_of(design).unguarded or design.experiment.guard.unguarded
    assert design.experiment.guard.ends_runs is not bool(why_not)


def test_each_design_asks_a_question_of_its_own() -> None:
    questions = [question(load_design(name).directory, name) for name in designs_available()]
    assert len(set(questions)) == len(questions)
    assert not [
        text for text in questions if not text[0].isupper() or text[-1] != "?" or "|" in text
    ]


def test_a_guard_that_says_why_it_is_none_ends_no_run(shop: Path) -> None:
    file = shop / "experiment.toml"
    before = file.read_text()
    file.write_text(before + '\n[guard]\nunguarded = "an overload is asked for"\n')
    assert check(shop)[1]["unguarded"] == "an overload is asked for"
    file.write_text(before)
    rows = dict(rows_of(check(shop)[1]))
    assert "[guard]" in rows["guard"]
    file.write_text(before + '\n[guard]\nunguarded = "it is"\ndown_s_max = 30.0\n')
    [place] = problems(shop)
    assert "unguarded" in place


def test_a_price_that_is_unknown_names_the_tiers_without_a_type_of_ec2(shop: Path) -> None:
    tfvars = shop / "fleet.tfvars"
    tfvars.write_text(re.sub(r', instance_type = "[^"]*"', "", tfvars.read_text(), count=1))
    report = check(shop)[1]
    [tier_name] = [name for name, tier in report["tiers"].items() if tier["instance_type"] is None]
    price = dict(rows_of(report))["price"]
    assert f"({tier_name})" in price
    assert "instance_type" in price


def test_it_notes_what_a_sound_design_will_not_give() -> None:
    code, report = check(DESIGNS / "settings")
    assert (code, report["valid"]) == (0, True)
    notes = {(note["tier"], note["code"]) for note in report["notes"]}
    assert notes == {("direct", "no-arbiter"), ("direct", "spare-without-state"),
                     ("store", "spare-without-state")}  # fmt: skip


@pytest.mark.parametrize("where", ["shop", "elsewhere"])
def test_a_role_s_folder_is_said_from_where_one_is_or_from_the_project_s_root(
    shop: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (shop.parent / "elsewhere").mkdir()
    monkeypatch.chdir(shop.parent / where)
    rows = dict(rows_of(check(shop)[1]))
    folder = "roles/shop" if where == "shop" else str(shop.resolve() / "roles" / "shop")
    assert rows["role shop"] == folder
    assert rows["role mariadb"] == "infra/roles/mariadb"


@pytest.mark.parametrize(
    ("tier", "settings", "place"),
    [
        ("web", 'replicas = 1, compare = "count"', "arms.replicated.settings.web.compare"),
        ("web", 'replicas = 2, compare = "often"', "arms.replicated.settings.web.compare"),
        ("db", 'replicas = 2, compare = "refuse"', "arms.replicated.settings.db.compare"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_its_place(
    shop: Path, tier: str, settings: str, place: str
) -> None:
    toml = shop / "experiment.toml"
    before, arm, after = toml.read_text().partition("[arms.replicated.settings]\n")
    line = next(row for row in after.splitlines() if row.startswith(tier))
    toml.write_text(before + arm + after.replace(line, f"{tier} = {{ {settings} }}"))
    assert any(place in problem for problem in problems(shop))


def test_what_is_wrong_in_several_files_comes_at_once(shop: Path) -> None:
    tfvars, toml = shop / "fleet.tfvars", shop / "experiment.toml"
    tfvars.write_text(tfvars.read_text().replace("nodes ", "notes "))
    toml.write_text(toml.read_text().replace('arrivals = "poisson"', 'arrivals = "at-once"'))
    file = shop / "roles" / "shop" / "role.json"
    file.write_text(json.dumps({**ROLE, "protocol": "smtp", "colour": "red"}, indent=2))
    places = problems(shop)
    assert any(place.startswith("roles/shop/role.json") for place in places)
    assert any("tiers.web.notes" in place for place in places)
    assert any("load.arrivals" in place for place in places)


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("roles/shop/start.sh", "#!/bin/sh\nif true\n", "roles/shop/start.sh"),
        ("roles/shop/ready.sh", "#!/usr/bin/env bash\ncase x in\n", "roles/shop/ready.sh"),
        ("roles/shop/start.sh", "exec true\n", "roles/shop/start.sh:1"),
        ("roles/shop/start.sh", None, "roles/shop/role.json"),
        ("roles/shop/Dockerfile", None, "roles/shop"),
        ("workload.py", "WORKLOADS = {", "workload.py:1"),
        ("workload.py", WORKLOAD.replace('"total"', '""'), "workload wiki-reader"),
        ("workload.py", WORKLOAD.replace('"shop"', '"redis"'), "experiment.toml:4: load.user"),
        ("experiment.toml", None, "experiment.toml"),
        ("roles/shop/start.sh", "mode 644", "roles/shop/start.sh"),
    ],
)
def test_a_file_of_its_own_is_looked_into(
    shop: Path, file: str, text: str | None, place: str
) -> None:
    path = shop / file
    if text is None:
        path.unlink()
    elif text == "mode 644":
        path.chmod(0o644)
    else:
        path.write_text(text)
    assert problems(shop) == [place]


def test_a_script_that_others_source_is_only_read(shop: Path) -> None:
    path = shop / "roles" / "shop" / "common.sh"
    path.write_text("# shellcheck shell=bash\nmade=1\n")
    assert check(shop)[0] == 0
    path.write_text("# shellcheck shell=bash\nif true\n")
    assert problems(shop) == ["roles/shop/common.sh"]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"port": 0}, "port"),
        ({"calls": [{"roles": ["oracle"]}]}, "calls.0.roles"),
        ({"calls": [{"environment": {"DB": "{hots}"}}]}, "calls.0.environment.DB"),
        ({"environment": {"ADDRESS": "{host}"}}, "environment.ADDRESS"),
        ({"image_of": "nothing"}, "image_of"),
        ({"files": {"/etc/shop.conf": "shop.conf"}}, "files./etc/shop.conf"),
        ({"settings": {"SIZE": {"summary": "s", "values": [1, 2], "default": 3}}},
         "settings.SIZE.default"),
        ({"fit": {"token_hold": "day"}}, "fit.token_hold"),
    ],
)  # fmt: skip
def test_a_role_that_cannot_be_is_refused_at_its_key(
    shop: Path, changes: dict[str, Any], key: str
) -> None:
    file = shop / "roles" / "shop" / "role.json"
    file.write_text(json.dumps({**ROLE, **changes}, indent=2))
    (place,) = problems(shop)
    assert place.startswith("roles/shop/role.json:")
    assert place.endswith(f": {key}")


def test_a_setting_of_the_role_may_stand_in_an_arm(shop: Path) -> None:
    settings = {"CACHE_MB": {"summary": "size", "minimum": 1, "maximum": 64, "default": 8}}
    file = shop / "roles" / "shop" / "role.json"
    file.write_text(json.dumps({**ROLE, "settings": settings}))
    toml = shop / "experiment.toml"
    text = toml.read_text()
    toml.write_text(text.replace("replicas = 2", "replicas = 2, CACHE_MB = 16"))
    code, report = check(shop)
    assert (code, report["arms"]["replicated"]["web"]["CACHE_MB"]) == (0, 16)
    toml.write_text(text.replace("replicas = 2", "replicas = 2, CACHE_MB = 65"))
    (place,) = problems(shop)
    assert place.endswith("arms.replicated.settings.web.CACHE_MB")


@pytest.mark.parametrize(("outcome", "code"), [("ok", 0), ("bad_status", 1)])
def test_a_deep_check_ends_with_1_where_an_answer_is_not_good(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: str, code: int
) -> None:
    replies = [OperationReply("flag", outcome, 200, 5, 1.25, "", "<html>")]
    monkeypatch.setattr(deep_check, "deep_check", lambda *_: replies)
    make_design(tmp_path / "deep")
    result = call("check", str(tmp_path / "deep"), "--deep", "--json")
    assert result.exit_code == code, result.output
    (reply,) = json.loads(result.output)["asked"]
    assert (reply["operation"], reply["outcome"], reply["begin"]) == ("flag", outcome, "<html>")
    text_result = call("check", str(tmp_path / "deep"), "--deep")
    assert "<html>" in text_result.output


def test_a_deep_check_needs_a_load() -> None:
    error = refusal("check", "failover-paper", "--deep")
    assert error.place == "sparecraft check --deep"
