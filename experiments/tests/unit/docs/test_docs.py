"""The pages for people: links, paths, limplock's rows; the tutorial followed to the letter."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from docs.limplock import (
    DATA,
    apply_mechanism,
    current_results,
    render_page,
    replace_part,
    short_counts,
    table,
)
from experiments.design import load_design
from experiments.kinds.limplock.row import rows
from experiments.paths import ROOT
from experiments.tests.tutorial import BLOCK, EXPERIMENT, GREETER, PAGE, Reader

LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")
# A path has a folder, or is a file of source code.
PATH = re.compile(r"(?:\.?[\w-]+(?:\.[\w-]+)*/)+[\w.-]*|[\w-]+\.(?:py|rs|go|tf|j2)")
# By a build or a run, or with a name to be filled in: NAME/x.py.
MADE_LATER = re.compile(r"^(build|results|\.venv)/|(^|/)(?!README\b|CHANGELOG\b)[A-Z]{2,}(/|\.|$)")
# In these pages each path is written from the root.
FROM_THE_ROOT = ["ARCHITECTURE.md", "CONTRIBUTING.md", "RELEASING.md", "docs/style.md",
                 "docs/adr/*"]  # fmt: skip
READMES = ["README.md", "docs/concepts.md", "docs/testing.md", "docs/security.md"]
NO_FILES = {
    "agents/nodeagent/README.md": {"journal/broken/"},  # in a machine
    "agents/parking_lot/README.md": {"core/call", "core/phi", "core/recent", "core/rounds",
                              "lots/manager"},
    "agents/press/README.md": {"._-/"},
    "docs/reference/README.md": {"sparecraft/fleet"},
    "experiments/load/protocols/README.md": {"infra/roles/R"},
    "grafana/README.md": {"grafana/grafana"},
    "infra/README.md": {"sparecraft/fleet"},
    "infra/roles/README.md": {"roles/pages/"},  # of its example
}  # fmt: skip
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _pages() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in names.split() if (ROOT / name).exists()]


def _is_one(page: str, patterns: list[str]) -> bool:
    return any(Path(page).match(pattern) for pattern in patterns) and "designs" not in page


def _anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub makes addresses of them."""
    plain = [
        re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(page.read_text())
    ]
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("name", _pages())
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    page = ROOT / name
    dead = []
    for link in map("".join, LINK.findall(CODE.sub("", page.read_text()))):
        file, _, anchor = link.partition("#")
        if file.startswith(("http:", "https:", "mailto:")):
            continue
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            dead.append(link)
    assert dead == []


def _tracked() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [f"/{name}/" for name in output.splitlines() if (ROOT / name).exists()]


def _paths(page: str) -> set[str]:
    """The paths that a page has between backticks, beside its fenced blocks."""
    spans = QUOTED.findall(FENCE.sub("", (ROOT / page).read_text()))
    paths = {path for path in spans if PATH.fullmatch(path) and not MADE_LATER.search(path)}
    return paths - NO_FILES.get(page, set())


@pytest.mark.parametrize("page", [page for page in _pages() if _is_one(page, FROM_THE_ROOT)])
def test_a_path_in_a_page_for_contributors_exists(page: str) -> None:
    assert sorted(path for path in _paths(page) if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("page", [page for page in _pages() if _is_one(page, READMES)])
def test_a_path_in_a_readme_is_one_of_the_project_or_the_end_of_one(page: str) -> None:
    files = _tracked()
    unknown = {
        path for path in _paths(page) if not any(f"/{path.rstrip('/')}/" in name for name in files)
    }
    assert unknown == set()


def test_each_step_of_the_walks_names_what_its_file_has() -> None:
    row = re.compile(r"^\| [^|]+ \| `([^`]+)` \| (`.+`) \|$", re.MULTILINE)
    steps = row.findall((ROOT / "ARCHITECTURE.md").read_text())
    assert len(steps) >= 30
    absent = [
        (file, name)
        for file, names in steps
        for name in QUOTED.findall(names)
        if not re.search(
            rf"\b(def|class|fn|struct|enum) {name}\b",
            (ROOT / file).read_text() if (ROOT / file).is_file() else "",
        )
    ]
    assert absent == []


def test_the_front_page_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 120] == []


def test_what_troubleshooting_quotes_is_what_messages_say() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/troubleshooting.md").read_text(), re.M)
    assert len(rows) >= 10
    code = ["git", "grep", "-qF"]
    places = ["--", "experiments", "ci", "infra", "agents", ":!experiments/tests"]
    missing = [
        phrase
        for phrase in rows
        if subprocess.run([*code, "-e", phrase, *places], cwd=ROOT, check=False).returncode != 0
    ]
    assert missing == []


def test_the_tests_that_the_threat_model_names_exist() -> None:
    page = (ROOT / "docs/security.md").read_text()
    cells = re.findall(r"^\|.*\| ([^|]+) \|$", page, re.M)
    tests = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert len(tests) >= 20
    command = ["git", "grep", "-hoE", "--untracked", r"(def|fn|func) \w+", "--"]
    places = ["experiments/tests", "agents", "infra/provider", "infra/roles/tests"]
    process = subprocess.run(
        [*command, *places], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert tests - {line.split()[1] for line in process.stdout.splitlines()} == set()


KNOWN = rows()


def run(when: str, *lines: str) -> str:
    row_list = ", ".join(lines)
    return f'[[runs]]\nwhen = {when}\ncommit = "abc"\nrows = [{row_list}]\n'


def line(row: str, operation: str, *, part: str = "", more: str = "") -> str:
    verdicts = f'["{operation}", "no", "insufficient"]'
    return f'{{ row = "{row}", part = "{part}", age = "today", said = {verdicts}{more} }}'


def test_the_newest_run_of_a_row_counts_though_an_older_one_said_yes() -> None:
    newer = run("2026-11-28T03:09:00Z", line("B1", "insufficient"))
    older = run("2026-11-24T08:59:00Z", line("B1", "yes"))
    for text in (newer + older, older + newer):
        result = current_results(text, KNOWN)["B1", "today"]
        assert result.verdicts == ("insufficient", "no", "insufficient")
        assert result.when.day == 28


def test_parts_of_a_row_are_one_row() -> None:
    text = run("2026-11-27T03:17:00Z", line("F9", "insufficient", part="source"),
               line("F9", "yes", part="destination"))  # fmt: skip
    assert current_results(text, KNOWN)["F9", "today"].verdicts == ("yes", "no", "insufficient")


def test_what_a_run_could_not_fill_is_under_dosed_whatever_it_said() -> None:
    assert apply_mechanism(KNOWN["Z5"], ["no", "yes", "insufficient"], 30.0, 62.0) == (
        "under-dosed", "yes", "under-dosed",
    )  # fmt: skip
    assert apply_mechanism(KNOWN["Z5"], ["no", "no", "no"], 120.0, 62.0) == ("no", "no", "no")
    assert apply_mechanism(KNOWN["F8"], ["no", "no", "no"], 2.0, 6.0) == (
        "no",
        "under-dosed",
        "under-dosed",
    )
    with pytest.raises(ValueError, match="Z5"):
        apply_mechanism(KNOWN["Z5"], ["no", "no", "no"], None, None)


def test_the_pages_have_the_counts_of_the_runs_that_count() -> None:
    counts = short_counts(current_results(DATA.read_text(encoding="utf-8"), KNOWN), KNOWN)
    locked_up = re.sub(r"/[\d/]+", "", counts)
    assert locked_up in (ROOT / "README.md").read_text(encoding="utf-8")
    assert counts in (ROOT / "docs/results/README.md").read_text(encoding="utf-8")


def test_the_table_has_every_row_of_the_paper_with_its_slowdown() -> None:
    results = current_results(DATA.read_text(encoding="utf-8"), KNOWN)
    cells = [row.split(" | ") for row in table(results, KNOWN).splitlines()[2:]]
    assert len(cells) == 28
    slower = {row[0].split()[1]: row[2] for row in cells if row[2]}
    assert slower == {"F4": "233 ×", "F8": "309 ×", "H4": "172 ×", "Z5": "30 ×", "C1": "2 ×",
                      "B4": "620 ×"}  # fmt: skip


def test_the_papers_page_counts_its_own_rows() -> None:
    page = (ROOT / "docs/results/papers.md").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in re.split(r"^## ", page, flags=re.M)[1:])
    head, *count_rows = re.findall(r"^\| (.+) \|$", sections.pop("Counts"), re.M)
    labels = head.split(" | ")[2:]
    counts = {}
    for paper, body in sections.items():
        rows = [row.split(" | ") for row in re.findall(r"^\| (.+) \|$", body, re.M)]
        agrees = [re.split("[:;]", row[3])[0] for row in rows if len(row) == 4][1:]
        assert set(agrees) <= set(labels), paper
        counts[paper] = [str(len(agrees)), *(str(agrees.count(label)) for label in labels)]
    assert {name: rest for name, *rest in (row.split(" | ") for row in count_rows)} == counts


def test_the_page_is_what_is_made_of_its_data() -> None:
    assert render_page() == (ROOT / "docs/results/limplock.md").read_text(encoding="utf-8")


def test_a_part_is_put_between_its_marks_and_nowhere_else() -> None:
    assert (
        replace_part("a <!-- x -->old<!-- /x --> b", "x", "new") == "a <!-- x -->new<!-- /x --> b"
    )
    with pytest.raises(ValueError, match="x"):
        replace_part("no marks", "x", "new")


def test_its_files_and_commands_make_a_design_that_the_check_accepts(reader: Reader) -> None:
    assert reader.commands >= 6
    page = PAGE.read_text()
    samples = page.count("```toml sample\n")  # blocks that are read and not followed
    assert page.count("```") == 2 * (len(BLOCK.findall(page)) + samples)
    code, output = reader.do(f"sparecraft check {EXPERIMENT}")
    assert code == 0, output


def test_its_compose_file_becomes_a_design_that_the_check_accepts(reader: Reader) -> None:
    code, output = reader.do(f"sparecraft check {GREETER}")
    assert code == 0, output
    design = load_design(reader.folder / GREETER)
    assert design.fleet.tiers["web"].calls == ("cache",)
    assert {name: design.roles[name].port for name in design.fleet.tiers} == {
        "web": 8000,
        "cache": 11211,
    }


def test_its_samples_fit_into_its_design(reader: Reader, tmp_path: Path) -> None:
    """The page shows some blocks that its reader does not write: each replaces its own part."""
    requests, stages = re.findall(r"^```toml sample\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    text = (reader.folder / EXPERIMENT / "experiment.toml").read_text()
    parts = r"^(?=\[\[load\.operations\]\]|\[phases\]|\[interference\])"
    head, operations, phases, rest = re.split(parts, text, flags=re.M)
    load, its_phases = re.split(parts, stages, flags=re.M)
    values = 'parameters = "words.csv"\n'
    with_requests = [head.replace(values, ""), requests, "\n", phases, rest]
    with_stages = [load, values, operations, its_phases, rest]
    for number, experiment in enumerate(map("".join, (with_requests, with_stages))):
        folder = tmp_path / str(number)
        shutil.copytree(reader.folder / EXPERIMENT, folder)
        (folder / "experiment.toml").write_text(experiment)
        loaded = load_design(folder).experiment.load
        assert (len(loaded.sessions), len(loaded.stages)) == ((1, 0), (0, 3))[number]
