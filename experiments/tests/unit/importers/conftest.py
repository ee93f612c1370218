"""A Compose project in a folder, and its import."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from experiments.importers.compose import Imported, import_compose

Files = Mapping[str, str]
Import = Callable[..., Imported]
Project = Callable[[Files], Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Writes files of a project; `compose.yaml` is its Compose file."""

    def write(files: Files) -> Path:
        for name, text in files.items():
            path = tmp_path / "project" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return tmp_path / "project" / "compose.yaml"

    return write


@pytest.fixture
def imported(project: Project, tmp_path: Path) -> Import:
    """Imports a Compose file, given as text, with further files of its project."""

    def run(compose: str, files: Files | None = None, **options: object) -> Imported:
        file = project({"compose.yaml": compose, **(files or {})})
        arguments: dict[str, object] = {"ask": lambda _: None, "environment": {}, **options}
        return import_compose(file, tmp_path / "design", "tst-design", **arguments)  # type: ignore[arg-type]

    return run
