"""Docstrings begin with an imperative or a noun phrase, as docs/style.md asks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from experiments.paths import ROOT

TOPS = ("bench", "ci", "core", "docs", "experiments", "grafana", "infra", "optimizer", "sparecraft")
START = re.compile(r"(What|Who|Whose|Whether|Where|How)\b")
SHARE_MAX = 0.01
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
        if text:
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text


def _all() -> dict[str, str]:
    files = [path for top in TOPS for path in sorted((ROOT / top).rglob("*.py"))]
    return dict(found for path in files for found in _docstrings(path))


def test_hardly_any_docstring_begins_with_a_question_word() -> None:
    found = _all()
    against = {place: text.split("\n")[0] for place, text in found.items() if START.match(text)}
    assert len(against) <= SHARE_MAX * len(found), against


def test_no_docstring_sends_its_reader_to_the_module() -> None:
    assert {place for place, text in _all().items() if "see the module" in text.lower()} == set()
