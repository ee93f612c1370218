"""Jars of roles that are Java programs: had from Maven when a fleet first needs them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from experiments.errors import EnvironmentMissing
from experiments.paths import ROOT
from experiments.stage.platforms.terraform import Progress

JARS = ROOT / "ci" / "jars"


def fetch(folders: Iterable[Path], progress: Progress) -> None:
    """Have the jars here that the roles in these folders name. Raises EnvironmentMissing."""
    named = sorted({str(folder) for folder in folders if any(folder.rglob("pom.xml"))})
    if not named:
        return
    done = subprocess.run(
        [JARS, *named],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
    if done.returncode != 0:
        raise EnvironmentMissing(
            f"jars of {', '.join(Path(folder).name for folder in named)}",
            expected="those that pom.xml and jars.sha256 beside it name",
            came=(done.stdout + done.stderr)[-2000:].strip(),
            do=f"`ci/jars {' '.join(named)}` tries again; it needs Maven and a repository.",
        )
    for line in done.stdout.splitlines():
        progress(line)
