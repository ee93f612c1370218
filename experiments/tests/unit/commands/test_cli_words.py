"""Answers of the command line: examples, what was meant, errors for a program, completion."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from core.vocabulary import MECHANISMS
from experiments import kinds
from experiments.cli import COMMANDS, PANELS, app, command
from experiments.commands import doctor as doctors
from experiments.commands import list as lists
from experiments.commands.init import make_design
from experiments.commands.list import _display_row
from experiments.design import designs_available
from experiments.design.design import DESIGNS
from experiments.paths import ROOT
from experiments.report.text import milliseconds
from experiments.testbed.platforms.local import images
from experiments.testbed.platforms.local.images import Image
from experiments.tests.called import all_commands, answer, call, refusal, sparecraft
from experiments.tests.report_fixture import fake_run
from experiments.tests.started import executable

ALL = all_commands()


@pytest.mark.parametrize("name", ALL, ids=" ".join)
def test_every_help_ends_with_examples_that_are_right_calls(name: tuple[str, ...]) -> None:
    *prose, last = ALL[name].help.split("\n\n")
    examples = [paragraph for paragraph in (*prose, last) if paragraph.startswith("Example: ")]
    assert last in examples
    assert ALL[name].help.count("Example") == len(examples), "each is a paragraph by itself"
    for example in examples:
        _is_a_right_call(name, shlex.split(example.removeprefix("Example: ")))


def _is_a_right_call(name: tuple[str, ...], line: list[str]) -> None:
    assert not any(word.endswith((".", ";")) for word in line), "a call and nothing else"
    program, *words = line[: line.index(">")] if ">" in line else line
    assert (program, tuple(words[: len(name)])) == ("sparecraft", name)
    subcommand, rest = ALL[name], words[len(name) :]
    if hasattr(subcommand, "commands") and rest:
        subcommand, rest = subcommand.commands[rest[0]], rest[1:]
    subcommand.make_context(" ".join(name), rest, resilient_parsing=False)


@pytest.mark.parametrize(
    ("word", "of"),
    [("PCRAFT", "PCRAFT"), ("spare", "sPARE"), ("TAD", "TAD"), ("arm", "arm"), ("r", "replicas"),
     ("ara", "over-provisioning"), ("pf", "over-provisioning"), ("Blocks", "block"),
     ("nodt", "NodT"), ("gain", "factor"),
     ("a further run", "further run"), ("spread (log)", "spread")],
)  # fmt: skip
def test_a_word_is_explained_by_the_row_of_the_concepts(word: str, of: str) -> None:
    glossary = answer("glossary", word)
    meaning = re.sub(r"\[([^\]]+)\]\([^)]+\)|`", r"\1", (ROOT / "docs/concepts.md").read_text())
    assert list(glossary) == [of]
    assert f"{glossary[of]['meaning']} |" in meaning


def test_every_word_is_shown_and_one_that_nobody_knows_is_guessed() -> None:
    output = call("glossary").output
    assert all(word in output for word in answer("glossary"))
    assert refusal("glossary", "limpwear").hint == "Did you mean limpware?"
    rows = (ROOT / "docs/concepts.md").read_text().partition("## Glossary")[2]
    assert len(answer("glossary")) == rows.partition("\n## ")[0].count("\n| ") - 1


def test_help_names_the_words_that_it_uses() -> None:
    glossary = set(answer("glossary"))
    for name, term in (("run", "block"), ("availability", "PCRAFT"), ("tune", "sPARE")):
        epilog = command(name).epilog
        words = epilog.removeprefix("Words: ").partition(".")[0].split(", ")
        assert term in words
        assert set(words) <= glossary
        assert " ".join(epilog.split()) in " ".join(call(name, "--help").output.split())
    for mechanism in MECHANISMS:
        [entry] = answer("glossary", mechanism.value).values()
        assert f"{mechanism}, {mechanism.meaning}" in entry["meaning"]
    assert not command("reap").epilog
    assert "Words:" not in call("reap", "--help").output
    hint = str(app.info.epilog)
    assert glossary >= set(re.findall(r"NodT|TAD|PCRAFT|arm", hint))


@pytest.mark.parametrize("name", ["prices", "reproduce", "import"])
def test_a_group_s_help_cuts_no_command_s_line(name: str) -> None:
    assert "..." not in call(name, "--help").output.partition("Commands:")[2]


def test_every_command_is_in_one_panel_of_the_help() -> None:
    assert sum(len(panel) for panel in PANELS.values()) == len(COMMANDS)
    output = call("--help").output
    assert all(f"\n{title}:\n" in output for title in PANELS)


def test_a_mistyped_command_is_answered_with_what_it_may_have_meant() -> None:
    process = sparecraft("chekc", "mediawiki-noisy")
    assert process.returncode == 2
    assert "Did you mean check?" in process.stderr


def test_a_mistyped_design_is_answered_with_what_it_may_have_meant() -> None:
    error = refusal("check", "mediawiki-nosy")
    assert error.hint == "Did you mean mediawiki-noisy?"
    assert "solr-noisy" not in str(error)


def test_with_json_an_answer_and_its_exit_code_are_as_without() -> None:
    process = sparecraft("glossary", "NodT", "--json")
    assert (process.returncode, list(json.loads(process.stdout))) == (0, ["NodT"])


def _completed(*words: str) -> list[str]:
    environment = {"_SPARECRAFT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words),
                   "COMP_CWORD": str(len(words) - 1)}  # fmt: skip
    return CliRunner().invoke(app, [], env=environment, prog_name="sparecraft").stdout.split()


def test_a_shell_completes_commands_and_designs() -> None:
    assert _completed("sparecraft", "re") == ["report", "replay", "reproduce", "reap"]
    names = ["mediawiki-noisy", "mediawiki-null", "mediawiki-null-looks"]
    assert _completed("sparecraft", "run", "mediawiki-n") == names


RUNS = ("20260101T000000Z", "20260102T000000Z")


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the same design; `results` is a copy of their folder."""
    folder = tmp_path_factory.mktemp("two")
    for run in RUNS:
        new_run = fake_run(measure_s=20.0)
        new_run.manifest["run"] = run
        new_run.write(folder / "mediawiki-noisy" / run)
        (folder / "mediawiki-noisy" / run / "report.html").write_text(run)
    return folder


@pytest.fixture
def results(two_runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(two_runs, tmp_path / "runs"))


@pytest.fixture
def few_designs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the built-in designs are enough for a list; `test_check.py` reads all of them."""
    names = ("mediawiki-noisy", "redis-capacity")

    def available(root: Path = DESIGNS) -> tuple[str, ...]:
        return names if root == DESIGNS else designs_available(root)

    monkeypatch.setattr("experiments.design.designs_available", available)


def newest(results: Path) -> dict[str, Any]:
    return dict(json.loads((results / "mediawiki-noisy" / RUNS[1] / "result.json").read_text()))


def change(results: Path, **head: Any) -> None:
    """Replaces keys in the head of the newest run's result."""
    file = results / "mediawiki-noisy" / RUNS[1] / "result.json"
    file.write_text(json.dumps({**newest(results), **head}))


@pytest.mark.usefixtures("few_designs")
def test_list_says_what_a_design_asks_takes_and_came_to(results: Path) -> None:
    designs = {
        entry["name"]: entry for entry in answer("list", "--results", str(results))["designs"]
    }
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
    designs = answer("list", "--results", str(tmp_path))["designs"]
    assert [entry["name"] for entry in designs[:3]] == ["./my-shop", "./torn", "mediawiki-noisy"]
    assert designs[0]["minutes"] > 0
    assert designs[1]["minutes"] is None
    assert "sparecraft check" in designs[1]["question"]


@pytest.mark.usefixtures("few_designs")
def test_a_run_that_met_its_slo_and_has_too_little_availability_is_listed_so(results: Path) -> None:
    verdicts = []
    for met in (True, False):
        modelled = {"asked": 0.999, "predicted": 0.99, "met": met}
        slo = {**newest(results)["slo"], "met": True, "availability": modelled}
        change(results, valid=True, disturbed=None, slo=slo)
        listing = answer("list", "--results", str(results))
        assert listing["runs"][-1]["availability_met"] is met
        assert (_display_row(listing["runs"][-1])["slo_met"] is True) is met
        verdicts += [
            entry["last"] for entry in listing["designs"] if entry["name"] == "mediawiki-noisy"
        ]
    assert verdicts[0] != verdicts[1]


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
        assert answer("report", name)["run"] == RUNS[1]


@pytest.mark.usefixtures("few_designs")
def test_list_says_who_stopped_a_run(results: Path) -> None:
    stop = {"by": "halt", "condition": "", "reason": "hot", "at_s": 3.0, "undone_after_s": 0.1}
    change(results, valid=False, stopped=stop)
    listing = answer("list", "--results", str(results))
    assert [run["stopped"] for run in listing["runs"]] == [None, "halt"]
    last = {entry["name"]: entry["last"] for entry in listing["designs"]}["mediawiki-noisy"]
    assert last == "stopped by halt"
    assert call("list", "--results", str(results)).output.count("stopped by halt") == 2


@pytest.mark.usefixtures("few_designs")
def test_list_shows_slo_and_gain_of_runs_from_which_something_follows(results: Path) -> None:
    body = newest(results)
    body["slo"]["met"] = True
    body["compare"]["improvement"]["p95"] |= {"factor": 1.87, "ci_low": 0.828, "ci_high": 4.23}
    rows, gains = [], []
    for valid in (True, False):
        change(results, **body | {"valid": valid})
        lines = call("list", "--results", str(results)).output.splitlines()
        line = next(line for line in lines if RUNS[1] in line)
        rows.append(line[line.index(RUNS[1]) :].split()[:3])
        gains.append(answer("list", "--results", str(results))["runs"][1]["found"])
    assert rows == [[body["run"], "yes", "yes"], [body["run"], "no", "–"]]
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
    findings = answer("list", "--results", str(results))["runs"][1]["found"]
    assert findings["p95 gain"] == "3.00 × (2.50 to 3.50)"
    folders = [str(folder) for folder in sorted(results.glob("*/2*"))]
    two_arms, many_arms = answer("compare", *folders)["runs"]
    assert (many_arms["p95 gain"], many_arms["gains of"]) == (findings["p95 gain"], "tad-3")
    assert "gains of" not in two_arms


def test_report_names_the_newest_page(results: Path) -> None:
    newest_page = results / "mediawiki-noisy" / "20260102T000000Z" / "report.html"
    for words in ((), ("mediawiki-noisy",), (str(newest_page.parent),)):
        output = answer("report", "--path", *words, "--results", str(results))
        assert output == {"path": str(newest_page.resolve()), "url": newest_page.resolve().as_uri()}
    assert refusal("report", "--path", "redis-noisy", "--results", str(results)).exit_code == 2
    manifest = newest_page.parent / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "cut_short": True}))
    whole_page = results / "mediawiki-noisy" / "20260101T000000Z" / "report.html"
    for words, page in (((), newest_page), (("mediawiki-noisy",), whole_page)):
        output = answer("report", "--path", *words, "--results", str(results))
        assert output["path"] == str(page.resolve())


def test_compare_puts_runs_side_by_side(results: Path) -> None:
    folders = [str(folder) for folder in sorted(results.glob("*/2*"))]
    first, second = answer("compare", *folders)["runs"]
    assert [first["folder"], second["folder"]] == folders
    assert (first["run"], second["run"]) == ("20260101T000000Z", "20260102T000000Z")
    assert first["baseline p95_ms"] == second["baseline p95_ms"] > 0
    assert "p95 gain" in first
    assert first["rent, USD"] is None  # the machines of the platform local are not rented
    assert first["planned fleet, USD a month"] == 106.29
    result = call("compare", *folders)
    assert result.exit_code == 0
    assert milliseconds(first["baseline p95_ms"]) in result.output
    assert "106.29" in result.output
    assert not {"_ms", "error_share"} & set(re.findall(r"_ms|error_share", result.output))
    assert refusal("compare", folders[0]).exit_code == 2


def test_doctor_says_what_is_missing_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("arbiter", "nodeagent", "simulator"):
        executable(tmp_path / name, "#!/bin/sh\necho '{}'\n")
    monkeypatch.setattr(doctors, "_BIN", tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    result = call("doctor", "--results", str(tmp_path / "results"), "--json")
    assert result.exit_code == 3
    lines = {line["what"]: line for line in json.loads(result.stdout)["lines"]}
    missing = {what for what, line in lines.items() if not line["ok"]}
    assert {"docker", "terraform", "nodeagent", "arbiter"} <= missing
    assert all(line["hint"] for line in lines.values() if not line["ok"])
    assert lines["simulator"]["ok"]
    (tmp_path / "simulator").unlink()
    output = json.loads(call("doctor", "--results", str(tmp_path), "--json").stdout)
    assert not next(line for line in output["lines"] if line["what"] == "simulator")["ok"]


@pytest.mark.parametrize(("width", "has_kind"), [(80, False), (120, True)])
def test_a_narrow_terminal_has_room_for_what_a_run_found(
    monkeypatch: pytest.MonkeyPatch, width: int, has_kind: bool
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(lists, "out", Console(file=terminal, width=width))
    row = {"kind": "compare", "experiment": "mediawiki-noisy-planned", "run": "20261120T093000Z",
           "valid": True, "slo_met": True, "usd": None, "found": {"p95": "139 ms"}}  # fmt: skip
    lists._print_rows("runs", [row])
    assert "p95 139 ms" in terminal.getvalue()
    assert ("kind" in terminal.getvalue()) is has_kind
    assert "_" not in terminal.getvalue(), "heads are words, not keys"


def test_on_a_narrow_terminal_no_word_of_a_question_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(lists, "out", Console(file=terminal, width=64))
    question = "How long is a tier at full strength if a lost server is only repaired?"
    row = {"name": "a-design-with-a-long-name", "minutes": 4.0, "last": "SLO undecided"}
    lists._print_rows("designs", [{**row, "question": question}])
    cells = [line[64 - 14 :].strip() for line in terminal.getvalue().splitlines()[2:]]
    assert " ".join(cells).endswith("is only repaired?")
    assert "lost server" in " ".join(cells)


@pytest.mark.parametrize(
    ("names", "words", "listed", "hint"),
    [
        ([], [], 0, ""),
        (["kept:1"], [], 0, "--all"),
        (["kept:1"], ["--all"], 1, "--all --remove"),
        (["", "kept:1"], [], 1, "prune --remove"),
    ],
)
def test_prune_says_how_to_list_and_to_remove_what_it_leaves(
    monkeypatch: pytest.MonkeyPatch, names: list[str], words: list[str], listed: int, hint: str
) -> None:
    unused = [Image(f"sha256:{n}", name, "today", "1 GB", "9MB") for n, name in enumerate(names)]
    monkeypatch.setattr(images, "find_unused", lambda: unused)
    result = call("prune", *words)
    assert result.exit_code == 0
    assert result.output.count("9MB") == listed
    assert hint in result.output
    assert ("No image is unused" in result.output) == (not names)
