"""Kinds of experiment: the guide to adding one, followed to the letter, and what the others ask."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from experiments import kinds
from experiments.commands.check import check_design
from experiments.design import designs_available, load_design
from experiments.paths import ROOT
from experiments.tests.called import sparecraft

SMALL = ROOT / "experiments" / "tests" / "designs" / "small"
GUIDE = ROOT / "experiments" / "kinds" / "README.md"
HEAD = {"promise", "schema", "kind", "experiment", "run", "platform", "valid", "disturbed",
        "infeasible", "verdicts", "stopped", "undone", "found", "slo", "cost", "started", "commit",
        "host"}  # fmt: skip


def design_of_kind(folder: Path, kind: str, sections: str = "") -> Path:
    """The small design as another kind's, without its faults."""
    shutil.copytree(SMALL, folder)
    toml = folder / "experiment.toml"
    text = re.sub(r"\[\[faults\]\].*?\n\n", "", toml.read_text(), flags=re.DOTALL)
    text = re.sub(r"^kind = .*\n", "", text, flags=re.MULTILINE)
    toml.write_text(f'kind = "{kind}"\n{text}\n{sections}')
    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Step 1 and 2 of the guide: a folder of one's own with the kind that the guide shows."""
    folder = tmp_path_factory.mktemp("own") / "kinds" / "dice"
    folder.mkdir(parents=True)
    [code] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    (folder / "__init__.py").write_text(code)
    return folder.parent


def said(own: Path, *arguments: str, code: int = 0) -> str:
    """The output of `sparecraft` with the kinds in a folder of one's own."""
    process = sparecraft(*arguments, SPARECRAFT_KINDS=str(own), PYTHONPATH=str(ROOT))
    assert process.returncode == code, process.stdout + process.stderr
    return process.stdout if code == 0 else process.stderr


@pytest.fixture(scope="module")
def ran(own: Path) -> tuple[Path, Path, dict[str, Any]]:
    """A design of that kind, the folder of its one run, and what the run printed."""
    design, results = design_of_kind(own.parent / "mine", "dice"), own.parent / "results"
    output = said(own, "run", str(design), "--results", str(results), "--json")
    return design, results, json.loads(output)


def test_the_guide_to_adding_a_kind_has_at_most_three_steps() -> None:
    guide = GUIDE.read_text().split("## To add a kind")[1].split("```python")[0]
    assert len(re.findall(r"^\d\. ", guide, flags=re.MULTILINE)) <= 3


def test_a_kind_of_ones_own_is_run_listed_and_reported(
    own: Path, ran: tuple[Path, Path, dict[str, Any]]
) -> None:
    _, results, printed = ran
    assert set(printed) == HEAD | {"dice"}
    assert printed["valid"] is True
    assert printed["slo"] is None
    folder = results.resolve() / "tst-small" / printed["run"]
    assert json.loads((folder / "result.json").read_text()) == printed
    assert (results / "tst-small" / "latest").resolve() == folder
    sixes = json.loads((folder / "thrown.json").read_text()).count(6)
    rows = json.loads(said(own, "list", "--results", str(results), "--json"))["runs"]
    [row] = rows
    assert (row["kind"], row["valid"], row["found"]) == ("dice", True, {"sixes": sixes})
    (folder / "report.html").unlink()
    assert str(folder) in said(own, "report", str(folder)).replace("\n", "")
    assert (folder / "report.html").is_file()


def test_a_kind_that_is_not_here_is_refused_and_its_runs_are_still_listed(
    ran: tuple[Path, Path, dict[str, Any]], tmp_path: Path
) -> None:
    design, results, _ = ran
    no_kinds = tmp_path / "nowhere"
    assert "kind dice" in said(no_kinds, "run", str(design), code=2)
    [row] = json.loads(said(no_kinds, "list", "--results", str(results), "--json"))["runs"]
    assert (row["kind"], row["found"]) == ("dice", {})


def test_every_kind_here_is_named_like_its_folder_and_says_what_it_does() -> None:
    assert set(kinds.names()) >= {"capacity", "compare", "schemes", "tune"}
    for name in kinds.names():
        kind = kinds.find(name)
        assert kind.name == name
        assert kind.summary


def test_every_design_here_is_one_of_its_kind() -> None:
    names = designs_available()
    assert len(set(names)) == len(names)
    for name in names:
        design = check_design(load_design(name))
        kind = kinds.kind_of(design)
        assert (design.directory / "README.md").is_file()
        is_capacity = name.endswith(("-capacity", "-variants"))
        assert (kind.name == "capacity") == is_capacity
        assert (design.experiment.failover is not None) == kind.replaces_machines


@pytest.mark.parametrize(
    ("kind", "more", "key"),
    [
        ("schemes", "", "failover"),
        ("compare", "[failover]\nheartbeat_s = 1.0\n", "failover"),
        ("compare", "[compare]\nwide = 1.0\n", "compare.wide"),
        ("capacity", "", "interference"),
        ("tune", "", "tune.target"),
        ("tune", '[tune]\ntarget = "p95"\nwindow_s = 1.0\n', "tune.window_s"),
        ("tune", '[tune]\ntarget = "p95"\nwide = 1.0\n', "tune.wide"),
        ("tune", '[tune]\ntarget = "p95"\narm = "third"\n', "tune.arm"),
        ("tune", '[tune]\ntarget = "p95"\nrequests_max = 10\n', "tune.requests_max"),
    ],
)
def test_what_does_not_fit_a_kind_is_refused_with_its_key(
    tmp_path: Path, kind: str, more: str, key: str
) -> None:
    with pytest.raises(InputError) as error:
        check_design(load_design(design_of_kind(tmp_path / "mine", kind, more)))
    assert error.value.place.endswith(key)


def test_options_go_before_what_the_design_says(tmp_path: Path) -> None:
    folder = design_of_kind(tmp_path / "mine", "tune", '[tune]\ntarget = "p95"\nwindow_s = 20.0\n')
    design, tune = load_design(folder), kinds.find("tune")
    section: Any = kinds.section_of(tune, design, {"target": "mean"})
    assert (section.target, section.window_s) == ("mean", 20.0)
    with pytest.raises(InputError) as error:
        kinds.section_of(tune, design, {"window_s": 0.1})
    assert error.value.place.endswith("tune.window_s")
