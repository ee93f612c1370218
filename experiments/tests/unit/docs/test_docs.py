"""The pages for people: links lead somewhere, paths exist, the front page is short."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from experiments.paths import ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")
# A path has a folder, or is a file of source code.
PATH = re.compile(r"(?:\.?[\w-]+(?:\.[\w-]+)*/)+[\w.-]*|[\w-]+\.(?:py|rs|go|tf|j2)")
# By a build or a run, or with a name to be filled in: NAME/x.py.
MADE_LATER = re.compile(r"^(build|results|\.venv)/|(^|/)(?!README\b|CHANGELOG\b)[A-Z]{2,}(/|\.|$)")
# In these pages each path is written from the root.
FROM_THE_ROOT = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "docs/style.md",
    "docs/adr/*",
]
READMES = ["README.md", "docs/concepts.md", "docs/testing.md", "docs/security.md"]
NO_FILES = {
    "agents/README.md": {"journal/broken/"},  # in a machine
    "agents/lots/README.md": {
        "core/call",
        "core/phi",
        "core/recent",
        "core/rounds",
        "lots/manager",
    },
    "agents/press/README.md": {"._-/"},
    "docs/reference/README.md": {"sparecraft/fleet"},
    "experiments/load/README.md": {"infra/roles/R"},
    "grafana/README.md": {"grafana/grafana"},
    "infra/README.md": {"sparecraft/fleet"},
    "infra/roles/README.md": {"roles/pages/"},  # of its example
}
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _pages() -> list[str]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
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
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [f"/{name}/" for name in found.splitlines() if (ROOT / name).exists()]


def _paths(page: str) -> set[str]:
    """The paths that a page has between backticks, beside its fenced blocks."""
    quoted = QUOTED.findall(FENCE.sub("", (ROOT / page).read_text()))
    found = {one for one in quoted if PATH.fullmatch(one) and not MADE_LATER.search(one)}
    return found - NO_FILES.get(page, set())


@pytest.mark.parametrize("page", [page for page in _pages() if _is_one(page, FROM_THE_ROOT)])
def test_a_path_in_a_page_for_contributors_exists(page: str) -> None:
    assert sorted(path for path in _paths(page) if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("page", [page for page in _pages() if _is_one(page, READMES)])
def test_a_path_in_a_readme_is_one_of_the_project_or_the_end_of_one(page: str) -> None:
    tracked = _tracked()
    unknown = {
        path
        for path in _paths(page)
        if not any(f"/{path.rstrip('/')}/" in name for name in tracked)
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
    unsaid = [
        phrase
        for phrase in rows
        if subprocess.run([*code, "-e", phrase, *places], cwd=ROOT, check=False).returncode != 0
    ]
    assert unsaid == []


def test_the_tests_that_the_threat_model_names_exist() -> None:
    page = (ROOT / "docs/security.md").read_text()
    cells = re.findall(r"^\|.*\| ([^|]+) \|$", page, re.M)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert len(named) >= 20
    written = ["git", "grep", "-hoE", "--untracked", r"(def|fn|func) \w+", "--"]
    places = ["experiments/tests", "agents", "infra/provider", "infra/roles/tests"]
    found = subprocess.run(
        [*written, *places], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert named - {line.split()[1] for line in found.stdout.splitlines()} == set()
