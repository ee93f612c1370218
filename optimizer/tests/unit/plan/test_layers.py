"""A plan's parts import one way: simulate -> explain -> inputs -> solve."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import optimizer.plan

PLAN = Path(optimizer.plan.__file__).parent
MAY_IMPORT = {
    "solve": {"solve"},
    "inputs": {"inputs", "solve"},
    "explain": {"inputs", "explain", "solve"},
    "simulate": {"inputs", "explain", "solve", "simulate"},
}


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_only_what_is_below_it(part: str) -> None:
    files = list((PLAN / part).glob("*.py"))
    imported = {
        (file.name, node.module.split(".")[2])
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
        if node.module is not None and node.module.startswith("optimizer.plan.")
    }
    assert files
    allowed = MAY_IMPORT[part] | ({"outcome"} if part == "explain" else set())
    assert {(name, module) for name, module in imported if module not in allowed} == set()
