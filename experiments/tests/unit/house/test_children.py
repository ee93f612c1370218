"""Modules of ours are started by `experiments.program`, not from the working directory."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from experiments.paths import ROOT

_STARTS = re.compile(r"python3? -m (experiments|optimizer|grafana)")


def _without_p(path: Path) -> list[int]:
    """The lines of a file that start a module by -m, and not by -P before."""
    if path.suffix != ".py":
        lines = enumerate(path.read_text().splitlines(), 1)
        return [number for number, line in lines if _STARTS.search(line)]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.List | ast.Tuple):
            words = node.elts
        elif isinstance(node, ast.Call):
            words = node.args
        else:
            continue
        # sys.executable, and a list that begins with -m, have no word before it.
        said = [str(word.value) if isinstance(word, ast.Constant) else "" for word in words]
        found += [
            node.lineno
            for before, word in zip(["", *said], said, strict=False)
            if word == "-m" and (not before or "python" in before)
        ]
    return found


def test_no_module_is_started_from_the_working_directory() -> None:
    tops = ("experiments", "optimizer", "grafana", "infra")
    files = [
        path for top in tops for end in ("py", "sh") for path in (ROOT / top).rglob(f"*.{end}")
    ]
    against = {
        str(path.relative_to(ROOT)): lines
        for path in files
        if "tests" not in path.parts and (lines := _without_p(path))
    }
    assert against == {}, "experiments.program starts our modules"
