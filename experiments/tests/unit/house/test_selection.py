"""The long tests that a change touches, a share of the others, coverage by crate."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci import selection
from ci.crate_coverage import lines_by_crate
from experiments.paths import ROOT

CAPACITY = "experiments/tests/unit/kinds/capacity/test_capacity.py"
KILLS = "experiments/tests/fleet/testbed/test_kills.py"
ROLES = "infra/roles/tests/fleet/test_roles.py"


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        pytest.param(CAPACITY, CAPACITY, id="itself"),
        pytest.param(CAPACITY, "experiments/kinds/capacity/README.md", id="its room"),
        pytest.param(CAPACITY, "experiments/tests/capacity_fixture.py", id="an import"),
        pytest.param(CAPACITY, "core/errors.py", id="an import of an import"),
        pytest.param(KILLS, "agents/nodeagent/src/api.rs", id="a program that it runs"),
        pytest.param(ROLES, "infra/roles/mariadb/my.cnf", id="data that it reads"),
        pytest.param(ROLES, "requirements.lock", id="what all tests stand on"),
    ],
)
def test_a_change_touches_a_test_by(file: str, changed: str) -> None:
    assert selection.is_touched(file, {changed})


@pytest.mark.parametrize(
    ("file", "changed"),
    [(CAPACITY, "agents/arbiter/src/main.rs"), (ROLES, "optimizer/plan/README.md"), (KILLS, "a")],
)
def test_other_changes_leave_a_test_alone(file: str, changed: str) -> None:
    assert not selection.is_touched(file, {changed})


def test_an_unknown_commit_touches_everything() -> None:
    assert selection.changed_since("0" * 40) is None
    assert selection.is_touched(CAPACITY, None)
    assert selection.other_suites(None, share=0) == ["rust", "provider"]


def test_a_suite_that_is_not_pytests_runs_where_its_folder_changed_and_in_its_share() -> None:
    assert "rust" in selection.other_suites({"agents/wire/src/lib.rs"}, share=-1)
    assert selection.other_suites(set(), share=-1) == []
    shares = [selection.other_suites(set(), share) for share in range(selection.SHARES)]
    assert sorted(suite for suites in shares for suite in suites) == ["provider", "rust"]


def test_the_folders_of_the_table_are_there() -> None:
    folders = set(selection.TOUCHES) | {to for tests in selection.TOUCHES.values() for to in tests}
    assert [folder for folder in sorted(folders) if not (ROOT / folder).exists()] == []


def test_what_a_change_does_not_touch_runs_once_in_four_shares() -> None:
    files = {f"{KILLS}::test_{number}": KILLS for number in range(40)} | {"itself": CAPACITY}
    deselected = [
        selection.deselected_tests(files, {CAPACITY}, share) for share in range(selection.SHARES)
    ]
    assert all("itself" not in names for names in deselected)
    assert all(sum(t in names for names in deselected) == 3 for t in files if t != "itself")


@pytest.mark.parametrize(("until", "begins"), [(None, True), (2e10, True), (1.0, False)])
def test_no_test_begins_after_its_time_and_it_is_listed(until: float | None, begins: bool) -> None:
    left: list[str] = []
    config = SimpleNamespace(getoption=lambda _name: until, stash={selection._LEFT: left})
    item: Any = SimpleNamespace(config=config, nodeid="test_x")
    assert selection.pytest_runtest_protocol(item) is (None if begins else True)
    assert len(left) == (0 if begins else 1)


def test_lines_of_inline_tests_and_of_other_code_are_not_counted(tmp_path: Path) -> None:
    source = tmp_path / "agents/wire/src"
    source.mkdir(parents=True)
    (source / "lib.rs").write_text("fn a() {}\nfn b() {}\n#[cfg(test)]\nmod tests {\n}\n")
    (source / "lib_tests.rs").write_text("fn c() {}\n")
    records = []
    for path in (source / "lib.rs", source / "lib_tests.rs", tmp_path / "agents/wire/tests/a.rs",
                 Path("/elsewhere/agents/wire/src/lib.rs")):  # fmt: skip
        records += [f"SF:{path}", "DA:1,7", "DA:2,0", "DA:4,9", "end_of_record"]
    assert lines_by_crate(records, tmp_path) == {"wire": (2, 1)}
