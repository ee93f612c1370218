"""Random tests: the seed, by the commit in CI, by chance elsewhere, told after a failure; and the
number of examples."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    for name in ("conftest.py", "random_tests.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "test_draws.py").write_text(DRAWS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


@pytest.fixture
def conftest(pytestconfig: pytest.Config) -> Any:
    """Return the suite's conftest.py, found by its path: other modules have the same name."""
    return pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py"))


def _run(project: Path, **variables: str) -> tuple[list[str], str]:
    """Run the project's tests; return their draws and the seed in the output."""
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "SPARECRAFT_TEST_SEED")}
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"],
        cwd=project, env={**environment, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == pytest.ExitCode.TESTS_FAILED, process.stdout + process.stderr
    match = re.search(r"SPARECRAFT_TEST_SEED=(\d+) pytest", process.stdout)
    return re.findall(r"drawn (\d+)", process.stdout), match[1]


def test_each_call_draws_by_chance_ci_by_the_commit_and_a_failures_seed_repeats_it(
    project: Path, conftest: Any
) -> None:
    draws, seed = _run(project)
    assert _run(project, SPARECRAFT_TEST_SEED=seed) == (draws, seed)
    commit_draws, commit_seed = _run(project, CI="true")
    assert commit_seed == str(conftest.seed_from("commit", project)) != seed
    assert commit_draws != draws


def test_the_seed_of_a_commit_is_its_contents(project: Path, conftest: Any) -> None:
    def commit(message: str) -> int:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "add", "-A"], cwd=project, check=True)
        command = ["git", *identity, "commit", "-q", "--allow-empty", "-m", message]
        subprocess.run(command, cwd=project, check=True)
        return int(conftest.seed_from("commit", project))

    assert conftest.seed_from("commit", project) == conftest.seed_from("commit", project)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    first = commit("one")
    assert commit("other words") == first
    (project / "more.txt").write_text("more")
    assert commit("more") != first


def test_a_seed_by_chance_differs_and_one_that_is_none_is_refused(
    project: Path, conftest: Any
) -> None:
    assert conftest.seed_from("chance", project) != conftest.seed_from("chance", project)
    with pytest.raises(pytest.UsageError, match="got 'lucky'"):
        conftest.seed_from("lucky", project)


@pytest.mark.parametrize(("share", "count"), [("0.25", 25), ("1", 100), ("0.001", 5)])
def test_the_share_of_examples_holds_also_where_a_test_states_no_number(
    conftest: Any, monkeypatch: pytest.MonkeyPatch, share: str, count: int
) -> None:
    monkeypatch.setenv("SPARECRAFT_TEST_EXAMPLES", share)
    assert conftest.profile().max_examples == count
