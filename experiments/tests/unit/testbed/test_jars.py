"""Jars of Java roles: had from Maven once, on use, and checked to the byte."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing
from experiments.paths import ROOT
from experiments.testbed.platforms.local import jars

NAME = "tst-jars"
MADE = ROOT / "build" / NAME
# A repository of one jar, which notes each call.
MAVEN = """#!/bin/sh
echo "$@" >>{calls}
for option in "$@"; do
  case $option in
  -DoutputDirectory=*) mkdir -p "${{option#*=}}"; cp {jar} "${{option#*=}}/one.jar" ;;
  esac
done
"""


@pytest.fixture
def role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A role with one generation, and Maven's stand-in."""
    folder = tmp_path / NAME
    (folder / "old").mkdir(parents=True)
    (folder / "old" / "pom.xml").write_text("<project/>\n")
    (tmp_path / "one.jar").write_bytes(b"one")
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(MAVEN.format(calls=tmp_path / "calls", jar=tmp_path / "one.jar"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _lock(folder, b"one")
    yield folder
    shutil.rmtree(MADE, ignore_errors=True)


def _lock(folder: Path, content: bytes) -> None:
    digest = hashlib.sha256(content).hexdigest()
    (folder / "old" / "jars.sha256").write_text(f"{digest}  one.jar\n")


def _calls(role: Path) -> int:
    return len((role.parent / "calls").read_text().splitlines())


def test_jars_are_had_once_and_again_where_they_were_changed(role: Path) -> None:
    said: list[str] = []
    jars.fetch([role], said.append)
    assert (MADE / "old" / "one.jar").read_bytes() == b"one"
    assert len(said) == 1
    jars.fetch([role], said.append)
    assert (_calls(role), len(said)) == (1, 1)
    (MADE / "old" / "one.jar").write_bytes(b"two")
    jars.fetch([role], said.append)
    assert (MADE / "old" / "one.jar").read_bytes() == b"one"
    (MADE / "old" / "more.jar").write_bytes(b"more")
    jars.fetch([role], said.append)
    assert [path.name for path in (MADE / "old").iterdir()] == ["one.jar"]


def test_other_jars_than_the_locked_ones_are_refused(role: Path) -> None:
    _lock(role, b"another")
    with pytest.raises(EnvironmentMissing) as refused:
        jars.fetch([role], print)
    assert refused.value.place == f"jars of {NAME}"
    assert hashlib.sha256(b"one").hexdigest() in str(refused.value)


def test_a_role_without_a_pom_calls_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "JARS", tmp_path / "none")
    jars.fetch([tmp_path], print)


def test_every_pom_is_locked_and_its_jars_are_what_the_image_takes() -> None:
    """Of a client that only this host runs, no image has them."""
    poms = sorted((ROOT / "infra/roles").rglob("pom.xml"))
    assert poms
    for pom in poms:
        place = pom.parent.relative_to(ROOT / "infra/roles")
        role = (ROOT / "infra/roles" / place.parts[0] / "role.json").read_text()
        assert (f'"build/{place}/*.jar"' in role) == (place.name != "client"), pom
        lines = (pom.parent / "jars.sha256").read_text().splitlines()
        assert lines, pom
        assert all(len(line.split("  ")[0]) == 64 and line.endswith(".jar") for line in lines), pom
