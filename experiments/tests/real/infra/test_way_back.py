"""The way back of a host (infra/boot/back.py): what others did meanwhile is theirs."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.paths import ROOT

BEGAN: dict[str, Any] = {
    "packages": ["dash"],
    "entries": ["/opt/theirs"],
    "etc": {"/etc/hosts": "a", "/etc/old": "a"},
    "accounts": {"passwd": ["root:0", "adm:1"]},
}
NOTHING: dict[str, Any] = {"packages": [], "entries": [], "etc": {}, "accounts": {}}


@pytest.fixture
def back(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, as it is imported on a host."""
    monkeypatch.syspath_prepend(str(ROOT / "infra" / "boot"))
    return importlib.import_module("back")


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
    needs = f"Depends: {depends}\n" if depends else ""
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: A <a@b.c>\n{needs}"
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
    stays = back.purge(["library", "server", "other-server"])
    assert _there(root) == ["cluster", "library", "server"]
    assert sorted(stays) == ["library", "server"]
    assert "cluster" in stays["server"]


def test_with_a_dpkg_that_tells_only_ours_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: ModuleType
) -> None:
    for name in ("dpkg", "dpkg-query"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/{name}.log\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    now = {**BEGAN, "packages": ["dash", "redis-server"]}
    ours = back.added(NOTHING, BEGAN, now)
    # While the host is held: a kernel of unattended-upgrades, an admin's database; then our purge.
    held = {**now, "packages": ["dash", "linux-image", "postgresql-15", "redis-server"]}
    ours = back.added(ours, held, held)
    assert ours["packages"] == ["redis-server"]
    back.purge(ours["packages"])
    said = (tmp_path / "dpkg.log").read_text().splitlines()
    (purged,) = [line.split() for line in said if "--purge" in line]
    assert [word for word in purged if not word.startswith("--")] == ["redis-server"]
    assert not any("depends" in word for word in purged)


# What is ours, added up.


def test_what_came_between_two_installations_is_not_ours(back: ModuleType) -> None:
    first = {**BEGAN, "packages": ["dash", "redis"], "entries": ["/opt/role", "/opt/theirs"]}
    ours = back.added(NOTHING, BEGAN, first)
    again = {**first, "packages": ["dash", "pg", "redis"], "entries": [*first["entries"], "/srv/x"]}
    ours = back.added(ours, again, {**again, "packages": ["dash", "nginx", "pg", "redis"]})
    assert ours["packages"] == ["nginx", "redis"]
    assert ours["entries"] == ["/opt/role"]


def test_a_path_that_others_changed_between_ours_stays_theirs(back: ModuleType) -> None:
    ours = back.added(NOTHING, BEGAN, {**BEGAN, "etc": {"/etc/hosts": "b", "/etc/new": "n"}})
    assert ours["etc"] == {"/etc/hosts": "b", "/etc/new": "n", "/etc/old": None}
    theirs = {**BEGAN, "etc": {"/etc/hosts": "theirs of mine", "/etc/new": "n"}}
    ours = back.added(ours, theirs, {**BEGAN, "etc": {"/etc/hosts": "c", "/etc/new": "m"}})
    assert ours["etc"]["/etc/new"] == "m"
    assert ours["etc"]["/etc/hosts"] not in ("b", "c", "theirs of mine")


def test_an_account_that_others_made_meanwhile_survives_the_end_of_ours(back: ModuleType) -> None:
    ours = back.added(
        NOTHING, BEGAN, {**BEGAN, "accounts": {"passwd": ["root:0", "adm:1:redis", "redis:2"]}}
    )
    lines = ours["accounts"]["passwd"]
    assert lines == {"added": ["adm:1:redis", "redis:2"], "removed": ["adm:1"]}
    held = ["root:0", "adm:1:redis", "redis:2", "postgres:3"]
    assert back.merged(held, lines) == ["root:0", "postgres:3", "adm:1"]
    # The purge of our package removes its account itself.
    before = {**BEGAN, "accounts": {"passwd": held}}
    ours = back.added(ours, before, {**BEGAN, "accounts": {"passwd": ["root:0", "adm:1", held[3]]}})
    assert ours["accounts"]["passwd"] == {"added": [], "removed": []}
    assert back.merged(["root:0", "adm:1", "postgres:3"], ours["accounts"]["passwd"]) == [
        *("root:0", "adm:1", "postgres:3")
    ]
