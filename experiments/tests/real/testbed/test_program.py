"""Child processes import our modules, whatever files are in the folder they start in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import program as programs
from experiments.design.workers import PYTHON, worker_command
from experiments.load.workers.locust.__main__ import LOCUST, MASTER
from experiments.nightly.night import SPARECRAFT
from experiments.program import program
from experiments.tests.hostile import hostile

CHILDREN = {
    "load worker": worker_command(PYTHON, Path()),
    "locust": program(*LOCUST),
    "locust's master": program(*MASTER),
    "locust's worker": program("experiments.load.workers.locust.worker"),
    "a run on EC2": program("experiments.testbed.platforms.ec2.remote_runner"),
    "a run of a night": SPARECRAFT,
}


@pytest.mark.parametrize("name", CHILDREN)
def test_a_child_starts_where_a_users_files_have_our_names(name: str, tmp_path: Path) -> None:
    process = subprocess.run(
        [*CHILDREN[name], "--help"], cwd=hostile(tmp_path), capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert "usage" in process.stdout.lower()


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
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "experiments.parent"]
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.stdout.split() == [str(package / "child.py"), "__main__"], process.stderr
