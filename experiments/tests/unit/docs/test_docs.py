"""The pages for people: links lead somewhere, the front page is short."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from experiments.paths import ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _pages() -> list[str]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in names.split() if (ROOT / name).exists()]


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
