"""The seed of random tests: by the commit in CI, by chance elsewhere, and told after a failure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
DRAWS = """
from hypothesis import given, settings, strategies as st

@settings(max_examples=5)
@given(st.integers(0, 2**60))
def draw(value):
    print("drawn", value)

def test_draws_and_fails():
    draw()
    raise AssertionError
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that is no git checkout, with the project's conftest.py and a test that fails."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_draws.py").write_text(DRAWS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def _run(project: Path, **variables: str) -> tuple[list[str], str]:
    """The draws, and the seed that is told."""
    plain = {k: v for k, v in os.environ.items() if k not in ("CI", "SPARECRAFT_TEST_SEED")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"],
        cwd=project, env={**plain, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    told = re.search(r"SPARECRAFT_TEST_SEED=(\d+) pytest", done.stdout)
    assert told is not None
    return re.findall(r"drawn (\d+)", done.stdout), told[1]


def test_ci_draws_the_same_twice_and_chance_something_else(project: Path) -> None:
    first, second, other = (_run(project, CI="true"), _run(project, CI="true"),
                            _run(project, CI="true", SPARECRAFT_TEST_SEED="chance"))  # fmt: skip
    assert first == second
    assert other[1] != first[1]
    assert other[0] != first[0]


def test_the_seed_that_a_failure_tells_repeats_it(project: Path) -> None:
    drawn, seed = _run(project)
    assert _run(project, SPARECRAFT_TEST_SEED=seed) == (drawn, seed)


def test_the_seed_of_a_commit_is_its_contents(project: Path) -> None:
    def commit(message: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "add", "-A"], cwd=project, check=True)
        command = ["git", *who, "commit", "-q", "--allow-empty", "-m", message]
        subprocess.run(command, cwd=project, check=True)

    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    commit("one")
    first = _run(project, SPARECRAFT_TEST_SEED="commit")
    commit("other words")
    assert _run(project, SPARECRAFT_TEST_SEED="commit") == first
    (project / "more.txt").write_text("more")
    commit("more")
    assert _run(project, SPARECRAFT_TEST_SEED="commit")[1] != first[1]


def test_a_seed_that_is_none_is_refused(project: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=project,
                          env={**os.environ, "SPARECRAFT_TEST_SEED": "lucky"}, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "got 'lucky'" in done.stderr
