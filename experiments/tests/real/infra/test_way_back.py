"""The restoration of a host (infra/boot/back.py): changes that others made meanwhile stay."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.tests.started import executable

BEGAN: dict[str, Any] = {
    "packages": ["dash"],
    "entries": ["/opt/theirs"],
    "etc": {"/etc/hosts": "a", "/etc/old": "a"},
    "accounts": {"passwd": ["root:0", "adm:1"]},
}
NOTHING: dict[str, Any] = {"packages": [], "entries": [], "etc": {}, "accounts": {}}


@pytest.fixture
def back(boot: Callable[[str], ModuleType]) -> ModuleType:
    return boot("back")


# Real packages of a real dpkg, in a root of their own.


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root without packages."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not here: no Debian")
    root = tmp_path / "root"
    for folder in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    monkeypatch.setenv("DPKG_ROOT", str(root))
    return root


def _install(root: Path, name: str, depends: str = "") -> None:
    """A package with a file."""
    tree = root.parent / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin" / name).touch()
    depends_line = f"Depends: {depends}\n" if depends else ""
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: A <a@b.c>\n{depends_line}"
        "Description: a test\n"
    )
    archive = f"{tree}.deb"
    subprocess.run(["dpkg-deb", "--build", tree, archive], check=True, capture_output=True)
    subprocess.run(
        ["dpkg", "--force-not-root", "--install", archive], check=True, capture_output=True
    )


def _there(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "usr/bin").glob("*"))


def test_packages_that_depend_on_each_other_are_purged_together(
    root: Path, back: ModuleType
) -> None:
    _install(root, "library")
    _install(root, "server", "library (>= 1)")
    _install(root, "server-tools", "server | other")
    assert back.purge(["server-tools", "library", "server", "never-installed"]) == {}
    assert _there(root) == []


def test_a_package_of_ours_that_somebody_elses_needs_stays_and_is_told(
    root: Path, back: ModuleType
) -> None:
    _install(root, "library")
    _install(root, "server", "library (>= 1)")
    _install(root, "other-server")
    _install(root, "cluster", "other | server (>= 1)")
    remaining = back.purge(["library", "server", "other-server"])
    assert _there(root) == ["cluster", "library", "server"]
    assert sorted(remaining) == ["library", "server"]
    assert "cluster" in remaining["server"]


def test_with_a_dpkg_that_tells_only_ours_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: ModuleType
) -> None:
    for name in ("dpkg", "dpkg-query"):
        executable(tmp_path / name, f'#!/bin/sh\necho "$*" >>{tmp_path}/{name}.log\n')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    state = {**BEGAN, "packages": ["dash", "redis-server"]}
    our_changes = back.add_changes(NOTHING, BEGAN, state)
    # While the host is held: a kernel of unattended-upgrades, an admin's database; then our purge.
    held_state = {**state, "packages": ["dash", "linux-image", "postgresql-15", "redis-server"]}
    our_changes = back.add_changes(our_changes, held_state, held_state)
    assert our_changes["packages"] == ["redis-server"]
    back.purge(our_changes["packages"])
    log_lines = (tmp_path / "dpkg.log").read_text().splitlines()
    (purged,) = [line.split() for line in log_lines if "--purge" in line]
    assert [word for word in purged if not word.startswith("--")] == ["redis-server"]
    assert not any("depends" in word for word in purged)


# Sums of our own changes.


def test_what_came_between_two_installations_is_not_ours(back: ModuleType) -> None:
    first_state = {**BEGAN, "packages": ["dash", "redis"], "entries": ["/opt/role", "/opt/theirs"]}
    our_changes = back.add_changes(NOTHING, BEGAN, first_state)
    second_state = {
        **first_state,
        "packages": ["dash", "pg", "redis"],
        "entries": [*first_state["entries"], "/srv/x"],
    }
    our_changes = back.add_changes(
        our_changes, second_state, {**second_state, "packages": ["dash", "nginx", "pg", "redis"]}
    )
    assert our_changes["packages"] == ["nginx", "redis"]
    assert our_changes["entries"] == ["/opt/role"]


def test_a_path_that_others_changed_between_ours_stays_theirs(back: ModuleType) -> None:
    our_changes = back.add_changes(
        NOTHING, BEGAN, {**BEGAN, "etc": {"/etc/hosts": "b", "/etc/new": "n"}}
    )
    assert our_changes["etc"] == {"/etc/hosts": "b", "/etc/new": "n", "/etc/old": None}
    state_between = {**BEGAN, "etc": {"/etc/hosts": "theirs of mine", "/etc/new": "n"}}
    our_changes = back.add_changes(
        our_changes, state_between, {**BEGAN, "etc": {"/etc/hosts": "c", "/etc/new": "m"}}
    )
    assert our_changes["etc"]["/etc/new"] == "m"
    assert our_changes["etc"]["/etc/hosts"] not in ("b", "c", "theirs of mine")


def test_an_account_that_others_made_meanwhile_survives_the_end_of_ours(back: ModuleType) -> None:
    our_changes = back.add_changes(
        NOTHING, BEGAN, {**BEGAN, "accounts": {"passwd": ["root:0", "adm:1:redis", "redis:2"]}}
    )
    lines = our_changes["accounts"]["passwd"]
    assert lines == {"added": ["adm:1:redis", "redis:2"], "removed": ["adm:1"]}
    account_lines = ["root:0", "adm:1:redis", "redis:2", "postgres:3"]
    assert back.merge_lines(account_lines, lines) == ["root:0", "postgres:3", "adm:1"]
    # The purge of our package removes its account itself.
    state_before = {**BEGAN, "accounts": {"passwd": account_lines}}
    our_changes = back.add_changes(
        our_changes,
        state_before,
        {**BEGAN, "accounts": {"passwd": ["root:0", "adm:1", account_lines[3]]}},
    )
    assert our_changes["accounts"]["passwd"] == {"added": [], "removed": []}
    assert back.merge_lines(
        ["root:0", "adm:1", "postgres:3"], our_changes["accounts"]["passwd"]
    ) == [*("root:0", "adm:1", "postgres:3")]
