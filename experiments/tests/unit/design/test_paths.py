"""A path is a path: what can be no name is never looked for among the designs that have one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from core.errors import InputError
from experiments.commands.report import newest
from experiments.design import designs_available, load_design
from experiments.design.design import DESIGNS
from experiments.tests.called import call, refusal
from experiments.tests.spec_fixture import write

BUILT_IN = "mediawiki-noisy"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a design of its own, named as a built-in one."""
    folder = tmp_path / "work" / BUILT_IN
    folder.mkdir(parents=True)
    write(folder)
    monkeypatch.chdir(folder.parent)
    return folder


@pytest.mark.parametrize("text", [f"./{BUILT_IN}", f"../work/{BUILT_IN}", f"{BUILT_IN}/", "{}"])
def test_a_path_is_never_taken_for_a_built_in_design_s_name(here: Path, text: str) -> None:
    assert load_design(text.format(here)).directory == here.resolve()
    assert load_design(Path(BUILT_IN)).directory == here.resolve()


@pytest.mark.parametrize("text", [".", "./", "../mediawiki-noisy", "../../work/mediawiki-noisy"])
def test_check_reads_the_folder_that_one_stands_in(
    here: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(here)
    done = call("check", text, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["experiment"] == load_design(here).fleet.experiment


@pytest.mark.parametrize("text", ["./none", "..", "/", "./mediawiki-policies"])
def test_a_path_without_a_design_is_refused(here: Path, text: str) -> None:
    del here
    with pytest.raises(InputError):
        load_design(text)
    assert refusal("check", text).exit_code == 2


def test_a_name_that_is_a_folder_here_too_is_refused_with_both(here: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_design(BUILT_IN)
    assert f"./{BUILT_IN}" in caught.value.hint
    assert str(DESIGNS / BUILT_IN) in caught.value.hint
    (here / "experiment.toml").unlink()  # a folder of something else is in nobody's way
    assert load_design(BUILT_IN).directory == (DESIGNS / BUILT_IN).resolve()


def test_where_the_designs_are_their_names_are_no_second_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(DESIGNS)
    assert load_design(BUILT_IN).directory == (DESIGNS / BUILT_IN).resolve()


def test_init_makes_no_design_that_a_built_in_one_would_hide(tmp_path: Path) -> None:
    name = designs_available()[0]
    assert refusal("init", str(tmp_path / name)).exit_code == 2
    assert os.listdir(tmp_path) == []


def test_report_looks_below_a_path_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "results" / "shop" / "R" / "report.html"
    page.parent.mkdir(parents=True)
    page.touch()
    monkeypatch.chdir(tmp_path)
    for text in ("shop", "results/shop", "./results/shop", "results/shop/R", str(page.parent)):
        assert newest(text, Path("results")).resolve() == page
    with pytest.raises(InputError):
        newest("./shop", Path("results"))
