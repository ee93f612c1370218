"""Children of ours import what we do, whatever lies in the folder that they are started in."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import program as programs
from experiments.design.workers import PYTHON, worker_command
from experiments.load.workers.locust.__main__ import LOCUST, MASTER
from experiments.nightly.night import SPARECRAFT
from experiments.paths import ROOT
from experiments.program import program
from experiments.tests.hostile import hostile

pytestmark = pytest.mark.real

CHILDREN = {
    "load worker": worker_command(PYTHON, Path()),
    "locust": program(*LOCUST),
    "locust's master": program(*MASTER),
    "locust's worker": program("experiments.load.workers.locust.worker"),
    "a run on EC2": program("experiments.stage.platforms.ec2.there"),
    "a run of a night": SPARECRAFT,
}


@pytest.mark.parametrize("name", CHILDREN)
def test_a_child_starts_where_a_users_files_have_our_names(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*CHILDREN[name], "--help"], cwd=hostile(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()


_PARENT = """
import subprocess
from experiments.program import program
print(subprocess.run(program("experiments.child"), cwd="/", capture_output=True).stdout.decode())
"""


def test_the_child_of_a_checkout_that_is_not_installed_is_of_that_checkout(tmp_path: Path) -> None:
    package = tmp_path / "experiments"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "program.py").write_bytes(Path(programs.__file__).read_bytes())
    (package / "parent.py").write_text(_PARENT)
    (package / "child.py").write_text("print(__file__, __name__)")
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "experiments.parent"]
    done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True)
    assert done.stdout.split() == [str(package / "child.py"), "__main__"], done.stderr


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
