"""Jars of roles that are Java programs, downloaded by Maven when a fleet first needs them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from experiments.paths import ROOT
from experiments.testbed.platforms.local.on_demand_build import make
from experiments.testbed.platforms.terraform import Progress

JARS = ROOT / "ci" / "jars"


def fetch(folders: Iterable[Path], progress: Progress) -> None:
    """Ensure that the jars of the roles in these folders are here. Raises EnvironmentMissing."""
    names = sorted({str(folder) for folder in folders if any(folder.rglob("pom.xml"))})
    if not names:
        return
    output = make(
        [JARS, *names],
        f"jars of {', '.join(Path(folder).name for folder in names)}",
        expected="those that pom.xml and jars.sha256 beside it name",
        hint=f"`ci/jars {' '.join(names)}` tries again; it needs Maven and a repository.",
    )
    for line in output:
        progress(line)
