"""Help, wrong usage and odd files: each is answered by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from core.errors import EnvironmentMissing, SparecraftError
from experiments.cli import COMMANDS, app, command, first_paragraph, main
from experiments.tests.called import all_commands, call, refusal
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


def test_a_path_that_the_system_refuses_is_an_error_and_no_traceback(
    odd: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _all_said(refusal("init", str(odd["empty"] / "shop")))
    arguments = ("run", "mediawiki-noisy", "--results", str(odd["empty"] / "results"), "--json")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{odd['nowhere']}")
    monkeypatch.setattr(sys, "argv", ["sparecraft", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        main()
    error = json.loads(capsys.readouterr().out)["error"]
    assert exit_info.value.code == error["exit_code"] == 2
    assert error["place"].startswith(str(odd["empty"]))


def test_doctor_says_that_results_are_no_folder(odd: dict[str, Path]) -> None:
    lines = json.loads(call("doctor", "--results", str(odd["empty"]), "--json").stdout)["lines"]
    [results_line] = [line for line in lines if line["what"] == "results"]
    assert not results_line["ok"]
    assert results_line["hint"]


ALL = all_commands()


def _words(text: str) -> str:
    """The text as it is, but for where lines break: also behind a hyphen."""
    return "".join(text.split())


@pytest.mark.parametrize("name", ALL, ids=" ".join)
def test_help_is_shown_as_it_was_written(name: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*name, "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    output = _words(result.output)
    for paragraph in ALL[name].help.split("\n\n"):
        assert _words(paragraph) in output
    for parameter in ALL[name].params:
        help_text = getattr(parameter, "help", None)
        assert help_text, f"{parameter.name} has no help"
        assert _words(help_text) in output


def test_the_commands_below_a_command_are_shown_with_what_they_do() -> None:
    for subcommand in ALL["reproduce",].commands.values():
        assert len(subcommand.get_short_help_str()) > 20


HEAVY = ("altair", "boto3", "httpx", "numpy", "polars", "pydantic", "pyomo", "rich", "scipy")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_the_first_paragraph_of_each_command_s_help(name: str) -> None:
    first = command(name).help.split("\n\n")[0]
    assert first_paragraph(name) == " ".join(first.split())


def test_help_imports_nothing_that_takes_long() -> None:
    code = f"""
import sys
from experiments.cli import app
try:
    app(["--help"])
except SystemExit:
    print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stderr.split() == []
    assert all(name in process.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("plan --p95-ms fast --json", "sparecraft plan --p95-ms"),
        ("availability --nodes 1.5 --json", "sparecraft availability --nodes"),
        ("plan --fast --json", "sparecraft plan"),
        ("fly --json", "sparecraft"),
        ("run --json", "sparecraft run design"),
        ("run no-such-design --json", "design no-such-design"),
        ("report no-such-run --json", "no-such-run"),
    ],
)
def test_wrong_usage_is_json_with_its_place_and_what_was_expected(
    words: str, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sparecraft", *words.split()])
    with pytest.raises(SystemExit) as exit_info:
        main()
    error = json.loads(capsys.readouterr().out)["error"]
    assert exit_info.value.code == error["exit_code"] == 2
    assert set(error) == {"place", "expected", "got", "hint", "also", "exit_code"}
    assert error["place"] == place
    assert all(error[key] for key in ("expected", "got", "hint"))


def test_version_is_printed() -> None:
    assert call("--version").output.startswith("sparecraft 0.")


def test_a_message_has_one_full_stop_where_what_came_ends_with_one() -> None:
    message = str(EnvironmentMissing("port", expected="a free one", got="18080.", hint="Wait."))
    assert message == "port: expected a free one (got 18080). Wait."
