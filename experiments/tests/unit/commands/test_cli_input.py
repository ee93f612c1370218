"""Wrong input, for every command that takes some: one message that says where, what was expected,
what came and what to do; never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import SparecraftError
from experiments.tests.called import call, refusal, sparecraft
from experiments.tests.nightly_fixture import suite_file
from experiments.tests.report_fixture import fake_run

FILES = ("nowhere", "folder", "binary", "empty", "{}", "[1")
READERS = (
    ("simulate", "--input"),
    ("simulate", "--from"),
    ("simulate", "--replay"),
    ("prices", "list", "--book"),
    ("availability", "--mechanism=ara", "--scheme=cloud", "--nodes=3", "--extra=1", "--rates"),
    ("nightly", "--suite"),
    ("replay",),
    ("report",),
    ("report", "--path"),
    ("adopt",),
    ("plan", "--input"),
    ("plan", "--from"),
)
ARA = ("availability", "--mechanism=ara", "--scheme=cloud", "--nodes=3")
INTEGRITY = ("integrity", "--node=native")


@pytest.fixture
def odd(tmp_path: Path) -> dict[str, Path]:
    """A path for each of FILES."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "empty").touch()
    for text in ("{}", "[1"):
        (tmp_path / text).write_text(text)
    return {name: tmp_path / name for name in FILES}


def _all_said(error: SparecraftError) -> None:
    for part in ("place", "expected", "got", "hint"):
        assert getattr(error, part), f"{part}: {error}"
        assert "Errno" not in getattr(error, part)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_file_that_is_none_of_the_kind_is_named(
    odd: dict[str, Path], words: tuple[str, ...], kind: str
) -> None:
    error = refusal(*words, str(odd[kind]))
    assert error.exit_code == 2
    assert error.place.startswith(str(odd[kind]))
    _all_said(error)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ((*ARA, "--extra=1", "--crash-per-year=-1"), "--crash-per-year"),
        ((*ARA, "--extra=1", "--crash-per-year=nan"), "--crash-per-year"),
        ((*ARA, "--extra=1", "--crash-per-year=1", "--horizon-s=-4"), "--horizon-s"),
        ((*ARA, "--extra=1", "--crash-per-year=1", "--failover-s=1e99"), "--failover-s"),
        ((*ARA, "--extra=1", "--crash-per-year=1", "--figure=here"), "--figure"),
        ((*ARA, "--extra=1"), "--crash-per-year"),
        ((*ARA, "--extra=1", "--crash-per-year=1", "--course=1000000000"), "--course"),
        ((*ARA, "--extra=-1", "--crash-per-year=1"), "--extra"),
        ((*ARA, "--target=2", "--crash-per-year=1"), "--target"),
        ((*ARA, "--crash-per-year=1"), "--extra"),
        (("integrity", "--faults-per-month=-1"), "--faults-per-month"),
        (("integrity", "--faults-per-month=1"), "--corrupt-p"),
        (("integrity", "--faults-per-month=1", "--corrupt-p=2", "--crash-p=0"), "--corrupt-p"),
        ((*INTEGRITY, "--faults-per-month=inf"), "--faults-per-month"),
        ((*INTEGRITY, "--faults-per-month=1", "--sdc-recovery-s=-1"), "--sdc-recovery-s"),
        ((*INTEGRITY, "--faults-per-month=1", "--pool=-1", "--scheme=on-prem"), "--pool"),
        ((*INTEGRITY, "--faults-per-month=1", "--repair-s=1"), "--repair-s"),
        (("prices", "list", "--region=nowhere"), "--region"),
        (("simulate",), "--input"),
    ],
)
def test_a_figure_that_cannot_be_is_named_by_its_option(
    words: tuple[str, ...], option: str
) -> None:
    error = refusal(*words)
    assert (error.exit_code, error.place) == (2, option)
    _all_said(error)


def test_a_night_without_a_suite_is_told_of_one_to_begin_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = refusal("nightly")
    assert error.place == "nightly.toml"
    assert "ci/nightly/short.toml" in error.hint


def _not_before_it_is_said(*_: object) -> None:
    raise AssertionError("a night was begun")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8086", "http://[", "http://127.0.0.1:99999", "nonsense"]
)
def test_an_address_that_is_none_is_said(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.nightly.night.nightly", _not_before_it_is_said)
    run = fake_run(measure_s=40.0).write(tmp_path / "run")
    night = ("nightly", "--suite", str(suite_file(tmp_path / "suite", "mediawiki-noisy")))
    for words in (("watch", "--once"), ("replay", str(run)), night):
        error = refusal(*words, "--influxdb", url)
        assert error.exit_code == 3
        assert url in error.place
        _all_said(error)


def test_a_folder_that_cannot_be_made_is_said(odd: dict[str, Path]) -> None:
    _all_said(refusal("init", str(odd["empty"] / "shop")))


def test_a_path_that_the_system_refuses_is_an_error_and_no_traceback(
    odd: dict[str, Path],
) -> None:
    asked = ("run", "mediawiki-noisy", "--results", str(odd["empty"] / "results"), "--json")
    done = sparecraft(*asked, PATH="/nowhere", DOCKER_HOST=f"unix://{odd['nowhere']}")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == error["exit_code"] == 2
    assert error["place"].startswith(str(odd["empty"]))


def test_doctor_says_that_results_are_no_folder(odd: dict[str, Path]) -> None:
    lines = json.loads(call("doctor", "--results", str(odd["empty"]), "--json").stdout)["lines"]
    [told] = [line for line in lines if line["what"] == "results"]
    assert not told["ok"]
    assert told["hint"]


def test_the_models_examples_come_to_an_answer() -> None:
    assert call("integrity", "--faults-per-month", "3", "--node", "native").exit_code == 0
