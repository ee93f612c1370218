"""Answers of the command line: examples, what was meant, errors for a program, completion."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from core.errors import InputError
from core.vocabulary import MECHANISMS
from experiments import kinds
from experiments.cli import COMMANDS, PANELS, app, command, main
from experiments.commands import doctor as doctors
from experiments.commands import list as lists
from experiments.commands.init import make_design
from experiments.commands.list import _designs as list_designs
from experiments.commands.list import _shown
from experiments.design import designs_available
from experiments.design.design import DESIGNS
from experiments.paths import ROOT
from experiments.report.text import milliseconds
from experiments.tests.called import call, refusal, sparecraft
from experiments.tests.report_fixture import fake_run


def _commands(name: tuple[str, ...], one: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield name, one
    for below, inner in getattr(one, "commands", {}).items():
        yield from _commands((*name, below), inner)


ALL = dict(found for name in COMMANDS for found in _commands((name,), command(name)))


@pytest.mark.parametrize("name", ALL, ids=" ".join)
def test_every_help_ends_with_examples_that_are_right_calls(name: tuple[str, ...]) -> None:
    *prose, last = ALL[name].help.split("\n\n")
    examples = [one for one in (*prose, last) if one.startswith("Example: ")]
    assert last in examples
    assert ALL[name].help.count("Example") == len(examples), "each is a paragraph by itself"
    for example in examples:
        _is_a_right_call(name, shlex.split(example.removeprefix("Example: ")))


def _is_a_right_call(name: tuple[str, ...], line: list[str]) -> None:
    assert not any(word.endswith((".", ";")) for word in line), "a call and nothing else"
    program, *words = line[: line.index(">")] if ">" in line else line
    assert (program, tuple(words[: len(name)])) == ("sparecraft", name)
    one, rest = ALL[name], words[len(name) :]
    if hasattr(one, "commands") and rest:
        one, rest = one.commands[rest[0]], rest[1:]
    one.make_context(" ".join(name), rest, resilient_parsing=False)


@pytest.mark.parametrize(
    ("word", "of"),
    [("PCRAFT", "PCRAFT"), ("spare", "sPARE"), ("TAD", "TAD"), ("arm", "arm"), ("r", "replicas"),
     ("ara", "over-provisioning"), ("pf", "over-provisioning"), ("Blocks", "block"),
     ("nodt", "NodT"), ("gain", "factor"),
     ("a further run", "further run"), ("spread (log)", "spread")],
)  # fmt: skip
def test_a_word_is_explained_by_the_row_of_the_concepts(word: str, of: str) -> None:
    found = _json("glossary", word)
    meaning = re.sub(r"\[([^\]]+)\]\([^)]+\)|`", r"\1", (ROOT / "docs/concepts.md").read_text())
    assert list(found) == [of]
    assert f"{found[of]['meaning']} |" in meaning


def test_every_word_is_shown_and_one_that_nobody_knows_is_guessed() -> None:
    shown = call("glossary").output
    assert all(word in shown for word in _json("glossary"))
    assert refusal("glossary", "limpwear").hint == "Did you mean limpware?"
    rows = (ROOT / "docs/concepts.md").read_text().partition("## Glossary")[2]
    assert len(_json("glossary")) == rows.partition("\n## ")[0].count("\n| ") - 1


def test_help_names_the_words_that_it_uses() -> None:
    known = set(_json("glossary"))
    for name, said in (("run", "block"), ("availability", "PCRAFT"), ("tune", "sPARE")):
        epilog = command(name).epilog
        words = epilog.removeprefix("Words: ").partition(".")[0].split(", ")
        assert said in words
        assert set(words) <= known
        assert " ".join(epilog.split()) in " ".join(call(name, "--help").output.split())
    for mechanism in MECHANISMS:
        [entry] = _json("glossary", mechanism.value).values()
        assert f"{mechanism}, {mechanism.meaning}" in entry["meaning"]
    assert not command("reap").epilog
    assert "Words:" not in call("reap", "--help").output
    hint = str(app.info.epilog)
    assert known >= set(re.findall(r"NodT|TAD|PCRAFT|arm", hint))


@pytest.mark.parametrize("name", ["prices", "reproduce", "import"])
def test_a_group_s_help_cuts_no_command_s_line(name: str) -> None:
    assert "..." not in call(name, "--help").output.partition("Commands:")[2]


def test_every_command_is_in_one_panel_of_the_help() -> None:
    assert sum(len(panel) for panel in PANELS.values()) == len(COMMANDS)
    shown = call("--help").output
    assert all(f"\n{title}:\n" in shown for title in PANELS)


def test_a_mistyped_command_is_answered_with_what_it_may_have_meant() -> None:
    done = sparecraft("chekc", "mediawiki-noisy")
    assert done.returncode == 2
    assert "Did you mean check?" in done.stderr


def test_a_mistyped_design_is_answered_with_what_it_may_have_meant() -> None:
    refused = refusal("check", "mediawiki-nosy")
    assert refused.hint == "Did you mean mediawiki-noisy?"
    assert "solr-noisy" not in str(refused)


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [(("run", "no-such-design"), 2), (("run", "mediawiki-noisy", "--no-such-option"), 2),
     (("report", "no-such-run"), 2), (("fly",), 2)],
)  # fmt: skip
def test_with_json_an_error_is_json(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    exit_code: int,
) -> None:
    monkeypatch.setattr(sys, "argv", ["sparecraft", *arguments, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    error = json.loads(capsys.readouterr().out)["error"]
    assert ended.value.code == error["exit_code"] == exit_code
    assert set(error) == {"place", "expected", "got", "hint", "also", "exit_code"}
    assert error["got"]


def test_with_json_an_answer_and_its_exit_code_are_as_without() -> None:
    done = sparecraft("glossary", "NodT", "--json")
    assert (done.returncode, list(json.loads(done.stdout))) == (0, ["NodT"])


def _completed(*words: str) -> list[str]:
    asked = {"_SPARECRAFT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words),
             "COMP_CWORD": str(len(words) - 1)}  # fmt: skip
    return CliRunner().invoke(app, [], env=asked, prog_name="sparecraft").stdout.split()


def test_a_shell_completes_commands_and_designs() -> None:
    assert _completed("sparecraft", "re") == ["report", "replay", "reproduce", "reap"]
    assert _completed("sparecraft", "run", "mediawiki-n") == ["mediawiki-noisy", "mediawiki-null"]


RUNS = ("20260101T000000Z", "20260102T000000Z")


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the same design; `results` is a copy of their folder."""
    folder = tmp_path_factory.mktemp("two")
    for run in RUNS:
        made = fake_run(measure_s=20.0)
        made.manifest["run"] = run
        made.write(folder / "mediawiki-noisy" / run)
        (folder / "mediawiki-noisy" / run / "report.html").write_text(run)
    return folder


@pytest.fixture
def results(two_runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(two_runs, tmp_path / "runs"))


@pytest.fixture
def few_designs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that come along two are enough for a list; `test_check.py` reads each."""
    two = ("mediawiki-noisy", "redis-capacity")

    def available(root: Path = DESIGNS) -> tuple[str, ...]:
        return two if root == DESIGNS else designs_available(root)

    monkeypatch.setattr("experiments.design.designs_available", available)


def newest(results: Path) -> dict[str, Any]:
    return dict(json.loads((results / "mediawiki-noisy" / RUNS[1] / "result.json").read_text()))


def change(results: Path, **head: Any) -> None:
    """Another head of the newest run's result."""
    file = results / "mediawiki-noisy" / RUNS[1] / "result.json"
    file.write_text(json.dumps({**newest(results), **head}))


def _json(*arguments: str) -> Any:
    done = call(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.usefixtures("few_designs")
def test_list_says_what_a_design_asks_takes_and_came_to(results: Path) -> None:
    designs = {one["name"]: one for one in _json("list", "--results", str(results))["designs"]}
    noisy = designs["mediawiki-noisy"]
    assert noisy["question"].endswith("?")
    assert noisy["minutes"] == pytest.approx(8.0)  # 18 blocks of 24 s, and a calibration
    assert noisy["last"] in ("SLO met", "SLO missed", "SLO undecided", "not valid")
    assert (designs["redis-capacity"]["minutes"], designs["redis-capacity"]["last"]) == (None, None)


@pytest.mark.usefixtures("few_designs")
def test_list_has_one_s_own_designs_first_also_one_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_design(Path("my-shop"))
    make_design(Path("torn"))
    Path("torn/fleet.tfvars").write_text("tiers = {")
    designs = _json("list", "--results", str(tmp_path))["designs"]
    assert [one["name"] for one in designs[:3]] == ["./my-shop", "./torn", "mediawiki-noisy"]
    assert designs[0]["minutes"] > 0
    assert designs[1]["minutes"] is None


def test_a_design_that_cannot_be_read_stops_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments import design

    def torn(name: str) -> design.Design:
        raise InputError(f"{name}: workload.py", expected="a Python module", got="no pg8000")

    monkeypatch.setattr(design, "load_design", torn)
    rows = list_designs([])
    assert {row["name"] for row in rows} == set(design.designs_available())
    assert all("sparecraft check" in row["question"] for row in rows)


@pytest.mark.usefixtures("few_designs")
def test_a_run_that_met_its_slo_and_has_too_little_availability_is_listed_so(results: Path) -> None:
    said = []
    for met in (True, False):
        modelled = {"asked": 0.999, "predicted": 0.99, "met": met}
        slo = {**newest(results)["slo"], "met": True, "availability": modelled}
        change(results, valid=True, disturbed=None, slo=slo)
        found = _json("list", "--results", str(results))
        assert found["runs"][-1]["availability_met"] is met
        assert (_shown(found["runs"][-1])["slo_met"] is True) is met
        said += [one["last"] for one in found["designs"] if one["name"] == "mediawiki-noisy"]
    assert said[0] != said[1]


def test_report_takes_a_run_by_all_its_names(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(kinds.find("compare"))
    monkeypatch.setattr(kind, "write_page", lambda _, folder: folder / "report.html")
    (results / "mediawiki-noisy" / "latest").symlink_to("20260102T000000Z")
    home = results / "home"
    home.mkdir()
    (home / "results").symlink_to(results, target_is_directory=True)
    monkeypatch.chdir(home)
    run = f"mediawiki-noisy/{RUNS[1]}"
    for name in (
        "mediawiki-noisy",
        "results/mediawiki-noisy",
        run,
        "results/mediawiki-noisy/latest",
    ):
        assert _json("report", name)["run"] == RUNS[1]


@pytest.mark.usefixtures("few_designs")
def test_list_says_who_stopped_a_run(results: Path) -> None:
    stop = {"by": "halt", "condition": "", "reason": "hot", "at_s": 3.0, "undone_after_s": 0.1}
    change(results, valid=False, stopped=stop)
    found = _json("list", "--results", str(results))
    assert [run["stopped"] for run in found["runs"]] == [None, "halt"]
    last = {one["name"]: one["last"] for one in found["designs"]}["mediawiki-noisy"]
    assert last == "stopped by halt"
    assert call("list", "--results", str(results)).output.count("stopped by halt") == 2


@pytest.mark.usefixtures("few_designs")
def test_list_shows_slo_and_gain_of_runs_from_which_something_follows(results: Path) -> None:
    body = newest(results)
    body["slo"]["met"] = True
    body["compare"]["improvement"]["p95"] |= {"factor": 1.87, "ci_low": 0.828, "ci_high": 4.23}
    told, gains = [], []
    for valid in (True, False):
        change(results, **body | {"valid": valid})
        lines = call("list", "--results", str(results)).output.splitlines()
        line = next(line for line in lines if RUNS[1] in line)
        told.append(line[line.index(RUNS[1]) :].split()[:3])
        gains.append(_json("list", "--results", str(results))["runs"][1]["found"])
    assert told == [[body["run"], "yes", "yes"], [body["run"], "no", "–"]]
    plan = {"plan": "106.29 USD a month"}
    assert gains == [{"p95 gain": "1.87 × (0.828 to 4.23)", **plan}, {"arms": 2, **plan}]


@pytest.mark.usefixtures("few_designs")
def test_list_and_compare_show_of_many_arms_the_best(results: Path) -> None:
    body = newest(results)
    body["compare"]["comparison"] = {
        f"tad-{n}": {"p95": {"factor": 1.0 * n, "ci_low": n - 0.5, "ci_high": n + 0.5}}
        for n in (2, 3)
    }
    arms = body["compare"]["arms"]
    body["compare"]["arms"] = {"baseline": arms["baseline"]} | {
        f"tad-{n}": arms["replicated"] for n in (2, 3)
    }
    change(results, **body | {"valid": True})
    found = _json("list", "--results", str(results))["runs"][1]["found"]
    assert found["p95 gain"] == "3.00 × (2.50 to 3.50)"
    folders = [str(folder) for folder in sorted(results.glob("*/2*"))]
    two, many = _json("compare", *folders)["runs"]
    assert (many["p95 gain"], many["gains of"]) == (found["p95 gain"], "tad-3")
    assert "gains of" not in two


def test_report_names_the_newest_page(results: Path) -> None:
    newest = results / "mediawiki-noisy" / "20260102T000000Z" / "report.html"
    for words in ((), ("mediawiki-noisy",), (str(newest.parent),)):
        found = _json("report", "--path", *words, "--results", str(results))
        assert found == {"path": str(newest.resolve()), "url": newest.resolve().as_uri()}
    assert refusal("report", "--path", "redis-noisy", "--results", str(results)).exit_code == 2
    manifest = newest.parent / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "cut_short": True}))
    whole = results / "mediawiki-noisy" / "20260101T000000Z" / "report.html"
    for words, page in (((), newest), (("mediawiki-noisy",), whole)):
        found = _json("report", "--path", *words, "--results", str(results))
        assert found["path"] == str(page.resolve())


def test_compare_puts_runs_side_by_side(results: Path) -> None:
    folders = [str(folder) for folder in sorted(results.glob("*/2*"))]
    first, second = _json("compare", *folders)["runs"]
    assert [first["folder"], second["folder"]] == folders
    assert (first["run"], second["run"]) == ("20260101T000000Z", "20260102T000000Z")
    assert first["baseline p95_ms"] == second["baseline p95_ms"] > 0
    assert "p95 gain" in first
    assert first["rent, USD"] is None  # the machines of the platform local are not rented
    assert first["planned fleet, USD a month"] == 106.29
    shown = call("compare", *folders)
    assert shown.exit_code == 0
    assert milliseconds(first["baseline p95_ms"]) in shown.output
    assert "106.29" in shown.output
    assert not {"_ms", "error_share"} & set(re.findall(r"_ms|error_share", shown.output))
    assert refusal("compare", folders[0]).exit_code == 2


def test_doctor_says_what_is_missing_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("arbiter", "nodeagent", "simulator"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho '{}'\n")
        program.chmod(0o755)
    monkeypatch.setattr(doctors, "_BIN", tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    done = call("doctor", "--results", str(tmp_path / "results"), "--json")
    assert done.exit_code == 3
    lines = {line["what"]: line for line in json.loads(done.stdout)["lines"]}
    missing = {what for what, line in lines.items() if not line["ok"]}
    assert {"docker", "terraform", "nodeagent", "arbiter"} <= missing
    assert all(line["hint"] for line in lines.values() if not line["ok"])
    assert lines["simulator"]["ok"]
    (tmp_path / "simulator").unlink()
    again = json.loads(call("doctor", "--results", str(tmp_path), "--json").stdout)
    assert not next(line for line in again["lines"] if line["what"] == "simulator")["ok"]


@pytest.mark.parametrize(("width", "has_kind"), [(80, False), (120, True)])
def test_a_narrow_terminal_has_room_for_what_a_run_found(
    monkeypatch: pytest.MonkeyPatch, width: int, has_kind: bool
) -> None:
    said = io.StringIO()
    monkeypatch.setattr(lists, "out", Console(file=said, width=width))
    row = {"kind": "compare", "experiment": "mediawiki-noisy-planned", "run": "20261120T093000Z",
           "valid": True, "slo_met": True, "usd": None, "found": {"p95": "139 ms"}}  # fmt: skip
    lists._print_rows("runs", [row])
    assert "p95 139 ms" in said.getvalue()
    assert ("kind" in said.getvalue()) is has_kind
