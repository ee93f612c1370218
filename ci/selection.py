"""Selection of the long tests that CI runs beside `make test`: those that a change touches, and a
quarter of the others.

As a pytest plugin, `-p ci.selection --touched-since=COMMIT`, it deselects the other tests and
prints them. Tests whose own file changed run first; none begins after `--until`. As a program,
`python -m ci.selection COMMIT`, it prints which of the suites outside of pytest, `rust` and
`provider`, run their long tests.

A test is touched by a change of its own file, of a file that it imports (directly or not), of the
room that it tests (tests/KIND/ROOM tests the folder ROOM beside tests/), and of the files that
TOUCHES has for its folder. If the commit is unknown, as in a shallow clone, all tests are touched.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARES = 4  # a quarter of the tests that are not touched runs

# A folder, and the folders of tests that use it without importing it.
TOUCHES: dict[str, tuple[str, ...]] = {
    "agents/harden": ("experiments/tests/real/kinds/bitflips",),
    "agents/flags": ("experiments/tests/real/load", "infra/roles/tests/fleet"),
    "agents/mtls": ("experiments/tests/fleet", "infra/roles/tests/fleet"),
    "agents/parking_lot": ("infra/roles/tests/fleet",),
    "agents/press": ("infra/roles/tests/fleet",),
    "agents/load": ("experiments/tests/fleet/load", "experiments/tests/real/load"),
    "agents/arbiter": (
        "experiments/tests/fleet/kinds/compare",
        "experiments/tests/real/load",
        "infra/roles/tests/fleet",
    ),
    "agents/policy": ("experiments/tests/fleet/kinds/compare", "infra/roles/tests/fleet"),
    "agents/nodeagent": ("experiments/tests/fleet",),
    "agents/nodeagent/README.md": ("experiments/tests/real/docs",),
    "agents/arbiter/README.md": ("experiments/tests/real/docs", "experiments/tests/real/load"),
    "agents/testkit/src/soak": ("experiments/tests/real/load",),
    "agents/simulator": ("experiments/tests/real/kinds",),
    "agents/wire": ("experiments/tests/fleet", "infra/roles/tests/fleet"),
    "agents/Cargo.lock": ("experiments/tests", "infra/roles/tests/fleet"),
    "ci/base-image": ("experiments/tests/fleet", "infra/roles/tests/fleet"),
    "ci/clients": ("experiments/tests/real/load",),
    "ci/harden": ("experiments/tests/real/kinds/bitflips",),
    "ci/jars": ("experiments/tests/fleet/kinds/limplock", "experiments/tests/real/kinds/limplock"),
    "ci/lib.sh": ("",),
    "ci/vm": ("experiments/tests/fleet/testbed",),
    "conftest.py": ("",),
    "contracts": ("experiments/tests/fleet",),
    "experiments/tests/clients": ("experiments/tests/real/load",),
    "experiments/tests/conftest.py": ("experiments/tests",),
    "infra/roles/tests/conftest.py": ("infra/roles/tests",),
    "experiments/designs": ("experiments/tests/fleet/kinds",),
    "experiments/kinds": ("experiments/tests/fleet/kinds",),
    "experiments/load": ("experiments/tests/fleet",),
    "experiments/record": ("experiments/tests/fleet/kinds",),
    "experiments/run": ("experiments/tests/fleet/kinds",),
    "experiments/testbed": ("experiments/tests/fleet",),
    "docs/arbiter.md": ("experiments/tests/real/load",),
    "docs": ("experiments/tests/fleet/docs",),
    "infra/account": ("experiments/tests/real/infra",),
    "infra/boot": ("experiments/tests/fleet/testbed", "experiments/tests/real/infra"),
    "infra/modules": ("experiments/tests/fleet/testbed",),
    "infra/provider": ("experiments/tests/fleet/testbed",),
    "infra/roles": ("infra/roles/tests/fleet", "experiments/tests/fleet/kinds"),
    "infra/stacks/ec2": ("experiments/tests/real/infra", "experiments/tests/real/commands"),
    "infra/stacks/local": ("experiments/tests/fleet/testbed",),
    "infra/stacks/hosts": ("experiments/tests/fleet/testbed",),
    "infra/stacks/shared": ("experiments/tests/fleet/testbed",),
    "pyproject.toml": ("",),
    "requirements.lock": ("",),
}


def changed_since(commit: str) -> set[str] | None:
    """Return the paths that differ between a commit and the work tree; None if it is unknown."""
    command = ["git", "-C", str(ROOT), "diff", "--name-only", "--no-renames", commit]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return set(process.stdout.splitlines()) if process.returncode == 0 else None


def share_of_commit() -> int:
    """Return which of the SHARES shares this commit runs, drawn from its tree."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD^{tree}"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(process.stdout[:8], 16) % SHARES


def share_of(name: str) -> int:
    return zlib.crc32(name.encode()) % SHARES


@cache
def imported_files(file: str) -> frozenset[str]:
    """Return the project's files that a Python file imports directly, relative to the root."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = [name.replace(".", "/") for name in names]
    files = [f"{path}{end}" for path in paths for end in (".py", "/__init__.py")]
    return frozenset(file_name for file_name in files if (ROOT / file_name).is_file())


def reachable_files(file: str) -> set[str]:
    """Return a Python file and all of the project's files that it imports, directly or not."""
    files, remaining = {file}, [file]
    while remaining:
        imported = imported_files(remaining.pop()) - files
        files |= imported
        remaining += imported
    return files


def room_of(file: str) -> str:
    """Return the folder that a test file tests: WING/tests/KIND/ROOM/test_x.py is of WING/ROOM."""
    wing, _, rest = file.partition("/tests/")
    return "/".join([wing, *rest.split("/")[1:-1]])


def _is_inside(path: str, folder: str) -> bool:
    return folder == "" or path == folder or path.startswith(f"{folder}/")


def is_touched(file: str, changed: Iterable[str] | None) -> bool:
    """True if a change touches a file of tests; None touches all."""
    if changed is None:
        return True
    changed = set(changed)
    if changed & reachable_files(file) or any(_is_inside(path, room_of(file)) for path in changed):
        return True
    folders = {
        tests_folder
        for top, tests in TOUCHES.items()
        for tests_folder in tests
        if _has_any_inside(changed, top)
    }
    return any(_is_inside(file, folder) for folder in folders)


def _has_any_inside(changed: Iterable[str], folder: str) -> bool:
    return any(_is_inside(path, folder) for path in changed)


def other_suites(changed: set[str] | None, share: int) -> list[str]:
    """Return the suites outside of pytest that run with their long tests."""
    folders = {"rust": "agents", "provider": "infra/provider"}
    return [
        name
        for name, folder in folders.items()
        if changed is None or _has_any_inside(changed, folder) or share_of(name) == share
    ]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--touched-since", metavar="COMMIT", help="what changed since, and a quarter")
    parser.addoption(
        "--until", metavar="SECOND", type=float, help="begin no test after it (seconds since 1970)"
    )


def deselected_tests(files: Mapping[str, str], changed: set[str] | None, share: int) -> set[str]:
    """Return the tests that do not run. Parameters: files, by the tests in them."""
    touched = {file for file in set(files.values()) if is_touched(file, changed)}
    return {t for t, file in files.items() if file not in touched and share_of(t) != share}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    files = {item.nodeid: item.path.relative_to(ROOT).as_posix() for item in items}
    changed = changed_since(config.getoption("--touched-since"))
    deselected = deselected_tests(files, changed, share_of_commit())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in deselected])
    selected = [item for item in items if item.nodeid not in deselected]
    items[:] = sorted(selected, key=lambda item: files[item.nodeid] not in (changed or ()))
    config.stash[_LEFT] = sorted(deselected)


_LEFT = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Leave out each test that would begin after `--until`."""
    until = item.config.getoption("--until")
    if until is None or time.time() < until:
        return None
    item.config.stash[_LEFT].append(f"{item.nodeid} (no time was left)")
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    deselected = terminalreporter.config.stash.get(_LEFT, [])
    terminalreporter.section(f"left out: {len(deselected)} long tests (make test-all runs them)")
    for name in deselected:
        terminalreporter.write_line(name)


if __name__ == "__main__":
    print("\n".join(other_suites(changed_since(sys.argv[1]), share_of_commit())))
